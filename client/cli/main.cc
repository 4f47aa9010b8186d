// rollcall: one program for the launcher, its daemon, the agents and all
// commands.
#include <grpc/support/log.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <variant>

#include "client/agent/nccl/nccl.h"
#include "client/agent/processes/guard.h"
#include "client/cli/commands.h"
#include "client/launch/spawn/hosted_agent.h"
#include "daemon/base/processes/start_limits.h"
#include "daemon/security/crypto/undumpable.h"
#include "google/protobuf/stubs/logging.h"

namespace rollcall {

namespace {

int Run(const HelpText& help) {
  std::fputs(help.text.c_str(), stdout);
  return 0;
}
int Run(const VersionFlags& flags) { return RunVersionCommand(flags); }
int Run(const CompletionFlags& flags) { return RunCompletionCommand(flags); }
int Run(const RenderFlags& flags) { return RunRenderCommand(flags); }
int Run(RunFlags& flags) { return RunRunCommand(flags); }
int Run(const DetectFlags& flags) { return RunDetectCommand(flags); }
int Run(const LaunchFlags& flags) { return RunLaunchCommand(flags); }
// Not reached: Main has read the file by now.
int Run(const SpecFlags&) { return kExitUsage; }
int Run(JoinFlags& flags) { return RunJoinCommand(flags); }
int Run(const StatusFlags& flags) { return RunStatusCommand(flags); }
int Run(const StopFlags& flags) { return RunStopCommand(flags); }
int Run(const DrainFlags& flags) { return RunDrainCommand(flags); }
int Run(const EvictFlags& flags) { return RunEvictCommand(flags); }
int Run(const TokenFlags& flags) { return RunTokenCommand(flags); }
int Run(const DoctorFlags& flags) { return RunDoctorCommand(flags); }
int Run(RemoteFlags& flags) { return RunRemoteCommand(flags); }
int Run(SubmitFlags& flags) { return RunSubmitCommand(flags); }
int Run(const HostedFlags& flags) { return RunHostedAgent(flags.version); }
int Run(DaemonFlags& flags) { return RunDaemonCommand(flags); }

// The number of threads that this user must be able to start for the command.
size_t ThreadsFor(const Invocation& invocation) {
  // `run` may become a launcher with its daemon and its agent.
  if (std::holds_alternative<RunFlags>(invocation)) return 2 * kThreadsToStart;
  const auto* launch = std::get_if<LaunchFlags>(&invocation);
  if (launch == nullptr) return kThreadsToStart;
  // The daemon and each agent need kThreadsToStart threads. No more than for 16
  // local workers are tested, so that the test works on any machine.
  const size_t agents =
      std::min<size_t>(launch->local_workers, 16) + (launch->no_worker ? 0 : 1);
  return kThreadsToStart * (1 + agents);
}

// Reports output that could not be written (a full disk, for example). A closed
// pipe (`| head`) is not an error.
int CheckPrinted() {
  const bool failed = std::ferror(stdout) != 0;
  // stdio does not keep the errno of an earlier write, so it writes again.
  if (failed) std::fputc('\n', stdout);
  errno = 0;
  if (std::fflush(stdout) == 0 && !failed) return 0;
  return errno == EPIPE ? 0 : FailToPrint(errno);
}

int Main(int argc, char** argv) {
  // gRPC's errors are returned as statuses, and its log is not meant for users.
  if (getenv("GRPC_VERBOSITY") == nullptr) {
    gpr_set_log_function([](gpr_log_func_args*) {});
  }
  const Argv args = SplitArguments(argc, argv);
  HideSecrets(argc, argv);
  GivenSecrets given = TakeSecrets();
  auto invocation = ParseFlags(args);
  if (invocation.ok()) {
    if (const auto* spec = std::get_if<SpecFlags>(&*invocation)) {
      invocation = ReadSpec(SpecFlags(*spec));
    }
  }
  if (!invocation.ok()) {
    Complain(invocation.status().message());
    return kExitUsage;
  }
  Fill(*invocation, given);
  given.Forget();
  const bool only_prints =
      std::holds_alternative<HelpText>(*invocation) ||
      std::holds_alternative<VersionFlags>(*invocation) ||
      std::holds_alternative<CompletionFlags>(*invocation) ||
      std::holds_alternative<RenderFlags>(*invocation);
  if (!only_prints) {
    if (absl::Status status = CheckStartLimits(ThreadsFor(*invocation));
        !status.ok()) {
      Complain(status.message());
      return kExitCannotStart;
    }
  }
  const int code =
      std::visit([](auto& flags) { return Run(flags); }, *invocation);
  const bool runs_job = std::holds_alternative<RunFlags>(*invocation) ||
                        std::holds_alternative<LaunchFlags>(*invocation) ||
                        std::holds_alternative<JoinFlags>(*invocation);
  const int printed = CheckPrinted();
  return runs_job || code != 0 ? code : printed;
}

}  // namespace
}  // namespace rollcall

int main(int argc, char** argv) {
  // Child processes that must start fast and need no setup.
  if (argc > 1 && strcmp(argv[1], "guard") == 0) return rollcall::GuardMain();
  if (argc > 1 && strcmp(argv[1], "mint-nccl-id") == 0) {
    return rollcall::MintNcclIdMain({argv + 2, argv + argc});
  }
  if (argc > 1 && strcmp(argv[1], "facts") == 0) {
    return rollcall::RunFactsCommand({argv + 2, argv + argc});
  }
  rollcall::MakeUndumpable();
  // protobuf logs a line for each message that does not parse, and any client
  // that reaches the daemon's port can send such messages.
  google::protobuf::SetLogHandler(nullptr);
  const int code = rollcall::Main(argc, argv);
  // Skips gRPC's teardown, which only takes time.
  _exit(code);
}
