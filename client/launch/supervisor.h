// Supervisor: `rollcall launch` itself, the parent of the daemon, of this
// node's agent and of local workers.
//
// It decides nothing about the run: it starts the children, restarts the daemon
// on its port when that dies, tells people what is waited for, and ends with
// the job's exit code. The children are processes of their own: a sudden death
// of the launcher ends nothing.
//
// Thread rule: RunLaunch blocks its caller, whose thread becomes the loop.
#ifndef ROLLCALL_CLIENT_LAUNCH_SUPERVISOR_H_
#define ROLLCALL_CLIENT_LAUNCH_SUPERVISOR_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/launch/addresses.h"
#include "client/launch/launch_wire.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

struct LaunchOptions {
  std::string job;
  v1::JobSettings settings;
  HostPort listen;
  WireOptions wire;
  std::string state_dir;
  // The job's name was made up: its state goes with it.
  bool ephemeral = false;
  // Name of this machine's own agent; empty: --no-worker.
  std::string node;
  uint32_t local_workers = 0;
  // Flags of every agent that is started here.
  std::vector<std::string> agent_flags;
  std::vector<std::string> command;
  // "NAME=value".
  std::vector<std::string> environment;
  bool json = false;
};

// The name of local worker `index`, from 1.
std::string LocalWorkerName(uint32_t index);

// Runs the job to its end; the exit code of `rollcall launch`.
int RunLaunch(LaunchOptions options);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_SUPERVISOR_H_
