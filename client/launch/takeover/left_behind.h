// LookAround: finds what an earlier launcher has left in a state folder: its
// record, its run, and which of its processes still run.
//
// Thread rule: any thread; blocks on the disk.
#ifndef ROLLCALL_CLIENT_LAUNCH_TAKEOVER_LEFT_BEHIND_H_
#define ROLLCALL_CLIENT_LAUNCH_TAKEOVER_LEFT_BEHIND_H_

#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "client/launch/takeover/known_process.h"
#include "client/launch/takeover/launch_folder.h"
#include "client/launch/takeover/start_plan.h"

namespace rollcall {

struct Found {
  LeftBehind left;
  // The processes of `left` that still run.
  std::optional<KnownProcess> daemon;
  std::map<std::string, KnownProcess> agents;
};

// The LaunchPlace of this process, which holds the folder.
LaunchPlace ThisPlace(const LaunchFolder& held);

// FAILED_PRECONDITION: the record or the journal cannot be parsed, or a daemon
// runs without a record; the message says what to do. UNAVAILABLE: a process
// cannot be watched, or the journal cannot be read.
absl::StatusOr<Found> LookAround(const LaunchFolder& held);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_TAKEOVER_LEFT_BEHIND_H_
