// JournalStore: state that must survive a restart of the daemon.
//
// It stores the core's Journal actions and returns, after a restart, what
// Job::Restore needs. For each job it keeps the last run, with its open
// generation and the world that ran last. It keeps nothing else of earlier
// generations, so that it does not grow with the age of a run.
//
// Thread rule: one thread at a time; in practice the loop thread.
#ifndef ROLLCALL_DAEMON_JOURNAL_JOURNAL_H_
#define ROLLCALL_DAEMON_JOURNAL_JOURNAL_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "daemon/core/events.h"
#include "daemon/core/job/job.h"

namespace rollcall {

struct JournalEntry {
  std::string job;
  std::string run;
  Journal action;
};

// The last run of a job.
struct JournaledRun {
  std::string job;
  JournalState state;
  // When the latest entry was written. Wall clock, because it must be
  // meaningful after a restart.
  absl::Time written_at;
};

class JournalStore {
 public:
  virtual ~JournalStore() = default;

  // All or nothing, and durable when it returns OK. `written_at`: wall clock.
  // UNAVAILABLE: the disk is full or broken, or etcd does not answer; the
  // entries may still have been written. FAILED_PRECONDITION: an entry belongs
  // to no run that was started, or commits a generation that is not the last
  // proposed one. INVALID_ARGUMENT: an entry's body is not valid for its kind.
  virtual absl::Status Append(absl::Span<const JournalEntry> entries,
                              absl::Time written_at) = 0;

  // The last run of `job`; nullopt: none. UNAVAILABLE: as above.
  // FAILED_PRECONDITION: the stored run cannot be read.
  virtual absl::StatusOr<std::optional<JournaledRun>> Load(
      std::string_view job) = 0;

  // The last runs of all jobs, in the order of their names.
  virtual absl::StatusOr<std::vector<JournaledRun>> LoadAll() = 0;

  // LoadTokens returns all tokens, in any order. SaveTokens makes all changes
  // or none. Errors of the next three functions: as above.
  virtual absl::StatusOr<std::vector<v1::TokenRecord>> LoadTokens() = 0;
  virtual absl::Status SaveTokens(absl::Span<const v1::TokenRecord> written,
                                  absl::Span<const std::string> removed) = 0;
  // Removes all tokens: a new run begins.
  virtual absl::Status DropTokens() = 0;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_JOURNAL_JOURNAL_H_
