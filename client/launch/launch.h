// Launch: a whole `rollcall launch`, from what the command line said to the
// exit code.
//
// It looks at what an earlier launcher has left in the state folder, has
// start_plan.h decide what that means, and hands over to the supervisor.
//
// Thread rule: RunLaunch blocks its caller, whose thread becomes the loop.
#ifndef ROLLCALL_CLIENT_LAUNCH_LAUNCH_H_
#define ROLLCALL_CLIENT_LAUNCH_LAUNCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "client/admin/addresses.h"
#include "client/launch/launch_wire.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

struct LaunchOptions {
  std::string job;
  // Nobody named the job: whatever job the state folder holds is meant.
  bool job_made_up = false;
  // All that the launcher itself goes by is set.
  v1::JobSettings settings;
  HostPort listen;
  WireOptions wire;
  std::string state_dir;
  // The job's name was made up: its state goes with it.
  bool ephemeral = false;
  // How long the join string is valid; infinite: no end.
  absl::Duration token_ttl = absl::InfiniteDuration();
  // Name of this machine's own agent; empty: --no-worker.
  std::string node;
  uint32_t local_workers = 0;
  // Flags of every agent that is started here.
  std::vector<std::string> agent_flags;
  std::vector<std::string> command;
  // In hex.
  std::string command_digest;
  // "NAME=value".
  std::vector<std::string> environment;
  bool json = false;
};

// Runs the job to its end, or goes on with the run that an earlier launcher has
// left in the state folder; the exit code of `rollcall launch`.
int RunLaunch(LaunchOptions options);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_LAUNCH_H_
