// KeptRun: what the journal in a launcher's state folder says of its job's last
// run, when no daemon can be asked.
//
// Thread rule: any thread; blocks on the disk.
#ifndef ROLLCALL_CLIENT_LAUNCH_KEPT_RUN_H_
#define ROLLCALL_CLIENT_LAUNCH_KEPT_RUN_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

struct KeptRun {
  std::string run;
  // nullopt: it has not ended.
  std::optional<v1::End> end;
};

// nullopt: no run of this job was ever begun there. FAILED_PRECONDITION: a
// daemon holds the journal, or the journal is foreign, newer or damaged.
// UNAVAILABLE: it cannot be read.
absl::StatusOr<std::optional<KeptRun>> ReadKeptRun(const std::string& folder,
                                                   const std::string& job);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_KEPT_RUN_H_
