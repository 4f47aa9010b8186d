// Batch: what the loop has decided since its last commit. It consists of
// entries for the journal, and of effects, which are carried out in order when
// the entries are durable.
//
// Invariant: every Answer is called once: by Drop, by DropAll, or by the caller
// of TakeEffects.
//
// Thread rule: the loop's own thread.
#ifndef ROLLCALL_DAEMON_SERVER_LOOP_STATE_BATCH_H_
#define ROLLCALL_DAEMON_SERVER_LOOP_STATE_BATCH_H_

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
  // `job`: the job on whose entries the answer depends; empty: it depends on
  // none.
  void AddAnswer(const std::string& job, Answer answer);

  const Entries& entries() const { return entries_; }
  // Bytes of the messages in the effects.
  size_t bytes() const { return bytes_; }

  // Returns the entries; the effects stay.
  Entries TakeEntries();
  std::vector<Effect> TakeEffects();
  // The entries of these jobs could not be written, for these reasons. Drops
  // the effects of these jobs, and calls their Answers with the reasons.
  void Drop(const std::map<std::string, absl::Status>& failed);
  // Drops all entries and effects, and calls all Answers with `status`.
  void DropAll(const absl::Status& status);

 private:
  Entries entries_;
  std::vector<Effect> effects_;
  size_t bytes_ = 0;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_LOOP_STATE_BATCH_H_
