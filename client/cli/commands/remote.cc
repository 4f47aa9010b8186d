// `rollcall remote` and `rollcall submit`: start workers on other machines, by
// ssh and by a scheduler.
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/agent/node_files/rank_environment.h"
#include "client/cli/commands.h"
#include "client/launch/spawn/remote_agent.h"
#include "client/launch/spawn/spawn.h"
#include "client/launch/spawn/submit.h"
#include "daemon/base/live_bell.h"

namespace rollcall {

int RunRemoteCommand(RemoteFlags& flags) {
  flags.live_fd = OwnLiveBell(flags.live_fd);
  if (!AwaitStart(flags.start_fd)) return kExitRendezvous;
  absl::StatusOr<std::string> join = TakePassedSecret(flags.secret_fd);
  if (!join.ok()) return Fail(join.status());
  RemoteAgentOptions options;
  options.name = flags.name;
  options.target = flags.target;
  options.ssh = flags.ssh;
  options.push = flags.push;
  options.live_bell = flags.live_fd;
  options.handoff.join_string = *std::move(join);
  options.handoff.arguments = flags.arguments;
  char here[PATH_MAX] = {};
  if (getcwd(here, sizeof(here)) != nullptr) options.handoff.folder = here;
  // The launcher has set kAttemptVariable; see PassAttempt.
  std::vector<std::string> names = flags.exported;
  names.push_back(kAttemptVariable);
  for (const std::string& name : names) {
    const char* value = getenv(name.c_str());
    if (value == nullptr) continue;
    options.handoff.environment.push_back(absl::StrCat(name, "=", value));
  }
  return RunRemoteAgent(std::move(options));
}

int RunSubmitCommand(SubmitFlags& flags) {
  if (!AwaitStart(flags.start_fd)) return kExitRendezvous;
  absl::StatusOr<std::string> join = TakePassedSecret(flags.secret_fd);
  if (!join.ok()) return Fail(join.status());
  SubmitOptions options;
  options.file = flags.file;
  options.command = flags.command;
  options.workers = flags.workers;
  options.workers_min = flags.workers_min;
  for (const std::string& value : flags.values) {
    const size_t end = value.find('=');
    options.values[value.substr(0, end)] = value.substr(end + 1);
  }
  options.values["JOIN"] = *std::move(join);
  return RunSubmit(options);
}

}  // namespace rollcall
