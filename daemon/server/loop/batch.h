// Batch: what the loop has decided since its last commit: entries for the
// journal, and effects, which are carried out in order once the entries are
// durable.
//
// Invariant: every answer is given once, by its taker or by Drop, DropAll.
//
// Thread rule: the loop's own thread.
#ifndef ROLLCALL_DAEMON_SERVER_LOOP_BATCH_H_
#define ROLLCALL_DAEMON_SERVER_LOOP_BATCH_H_

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "daemon/core/events.h"
#include "daemon/journal/journal.h"

namespace rollcall {

class Batch {
 public:
  // Called with the result of the commit.
  using Answer = std::function<void(const absl::Status&)>;
  struct Effect {
    std::string job;
    std::variant<Send, CloseStream, Log, Forget, Answer> what;
  };
  using Entries = std::vector<JournalEntry>;

  void Add(const std::string& job, const std::string& run,
           std::vector<Action> actions);
  // `job`: the job on whose entries it depends; empty: on none.
  void AddAnswer(const std::string& job, Answer answer);

  const Entries& entries() const { return entries_; }
  // Bytes of the messages of its effects.
  size_t bytes() const { return bytes_; }

  // Returns the entries; the effects stay.
  Entries TakeEntries();
  std::vector<Effect> TakeEffects();
  // The entries of these jobs could not be written, for these reasons: drops
  // their effects, and gives their answers.
  void Drop(const std::map<std::string, absl::Status>& failed);
  // Drops all entries and effects, and gives all answers.
  void DropAll(const absl::Status& status);

 private:
  Entries entries_;
  std::vector<Effect> effects_;
  size_t bytes_ = 0;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_LOOP_BATCH_H_
