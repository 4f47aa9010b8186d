// KeptRun: the last run of a job as the journal in its launcher's state folder
// has it, for when no daemon can be asked.
//
// Thread rule: any thread; blocks on the disk.
#ifndef ROLLCALL_CLIENT_LAUNCH_TAKEOVER_KEPT_RUN_H_
#define ROLLCALL_CLIENT_LAUNCH_TAKEOVER_KEPT_RUN_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

struct KeptRun {
  std::string run;
  // nullopt: the run has not ended.
  std::optional<v1::End> end;
};

// nullopt: no run of this job ever began in this folder. FAILED_PRECONDITION: a
// daemon holds the journal, or the journal is foreign, newer or damaged.
// UNAVAILABLE: the journal cannot be read.
absl::StatusOr<std::optional<KeptRun>> ReadKeptRun(const std::string& folder,
                                                   const std::string& job);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_TAKEOVER_KEPT_RUN_H_
