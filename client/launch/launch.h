// Launch: a complete `rollcall launch`, from the parsed command line to the
// exit code.
//
// It finds what an earlier launcher has left in the state folder, calls
// start_plan.h to decide what to do, and runs the supervisor.
//
// Thread rule: RunLaunch blocks its caller, whose thread becomes the loop.
#ifndef ROLLCALL_CLIENT_LAUNCH_LAUNCH_H_
#define ROLLCALL_CLIENT_LAUNCH_LAUNCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "client/admin/addresses.h"
#include "client/launch/launch_wire.h"
#include "client/launch/spawn/hostfile.h"
#include "client/launch/spawn/worker_template.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// The port of a daemon with a shared secret. It is fixed, so that every node
// knows it.
inline constexpr int kKnownPort = 29400;

// How agents are started on other hosts.
struct SshOptions {
  // The command and its options, separated by spaces.
  std::string command = "ssh";
  // Copies this binary to hosts that do not have it.
  bool push = false;
  // Names of variables in `environment` that the hosts' ranks get.
  std::vector<std::string> exported;
};

// How workers are submitted to a scheduler; see submit.h.
struct SubmitTerms {
  std::string file;  // Empty: no workers are submitted.
  std::string command;
  // All values but MASTER_ADDR, NODE_RANK and JOIN.
  TemplateValues values;
};

struct LaunchOptions {
  std::string job;
  // The user named no job, so any job in the state folder is meant.
  bool job_made_up = false;
  // Every setting that the launcher itself uses is set.
  v1::JobSettings settings;
  HostPort listen;
  WireOptions wire;
  std::string state_dir;
  // The job's name was made up, so its state is removed with the job.
  bool ephemeral = false;
  // How long the join string is valid; infinite: without end.
  absl::Duration token_ttl = absl::InfiniteDuration();
  // Name of this machine's own agent; empty: --no-worker.
  std::string node;
  uint32_t local_workers = 0;
  // The join string is printed if nodes are missing.
  bool join_line = true;
  // The hosts of --hostfile, including this machine if it runs the own agent.
  std::vector<Host> hosts;
  SshOptions ssh;
  SubmitTerms submit;
  // Flags of every agent that is started here.
  std::vector<std::string> agent_flags;
  std::vector<std::string> command;
  // In hex.
  std::string command_digest;
  // "NAME=value".
  std::vector<std::string> environment;
  bool json = false;
};

// Runs the job to its end, or continues the run that an earlier launcher has
// left in the state folder. Returns the exit code of `rollcall launch`.
int RunLaunch(LaunchOptions options);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_LAUNCH_H_
