// RecordJournal: what the journals in SQLite and in etcd do in the same way.
//
// It keeps the last run of each job in memory, applies entries to it with Fold,
// and gives each run that has changed to its subclass as one packed record. It
// does no I/O: the subclass stores the records, and returns them through Take
// when it opens. Nothing else may write the store meanwhile; the lock of the
// state folder or the leader's key ensures that.
//
// Invariant: the runs in memory are those of the last Append that returned OK.
//
// Thread rule: that of JournalStore.
#ifndef ROLLCALL_DAEMON_JOURNAL_RECORD_JOURNAL_H_
#define ROLLCALL_DAEMON_JOURNAL_RECORD_JOURNAL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/journal/journal.h"

namespace rollcall {

class RecordJournal : public JournalStore {
 public:
  // At most this many ended runs are kept; those that were written longest ago
  // are removed.
  static constexpr size_t kEndedRunsKept = 64;

  absl::Status Append(absl::Span<const JournalEntry> entries,
                      absl::Time written_at) final;
  absl::StatusOr<std::optional<JournaledRun>> Load(std::string_view job) final;
  absl::StatusOr<std::vector<JournaledRun>> LoadAll() final;

 protected:
  struct Changes {
    // The new record of each job that has changed.
    std::map<std::string, std::string> written;
    // Jobs whose records are removed; none of them is in `written`.
    std::vector<std::string> removed;
    // The order of these writes; higher than that of every record that is
    // stored.
    int64_t order = 0;
  };

  // `store`: the name of the store in error messages.
  explicit RecordJournal(std::string store) : store_(std::move(store)) {}

  // Adds a stored record. `order`: grows with each write of any record; which
  // ended runs are removed depends on it and not on clocks. INVALID_ARGUMENT:
  // `job` is not a valid job name. FAILED_PRECONDITION: `record` cannot be
  // read.
  absl::Status Take(const std::string& job, const std::string& record,
                    int64_t order);

  // Stores the changes; all or nothing, errors as Append.
  virtual absl::Status Store(const Changes& changes) = 0;

 private:
  struct Kept {
    JournaledRun run;
    int64_t order = 0;
  };
  using Runs = std::map<std::string, JournaledRun>;

  absl::Status Apply(const JournalEntry& entry, absl::Time written_at,
                     Runs& changed) const;
  // The jobs to remove once `changed` is written.
  std::vector<std::string> EndedBeyondBound(const Runs& changed) const;

  const std::string store_;
  std::map<std::string, Kept, std::less<>> kept_;
  int64_t order_latest_ = 0;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_JOURNAL_RECORD_JOURNAL_H_
