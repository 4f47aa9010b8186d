// `rollcall run`: launches or joins.
#include <variant>

#include "client/cli/commands.h"
#include "client/cli/job_lookup.h"
#include "client/cli/run_plan.h"

namespace rollcall {

int RunRunCommand(RunFlags& flags) {
  auto plan = PlanRun(flags, ReadNodeEnvironment(PlainEnvironment()));
  flags.launch.given.Forget();
  if (!plan.ok()) return Fail(plan.status());
  Complain(plan->notice);
  if (auto* join = std::get_if<JoinFlags>(&plan->command)) {
    return RunJoinCommand(*join);
  }
  return RunLaunchCommand(std::get<LaunchFlags>(plan->command));
}

}  // namespace rollcall
