// `rollcall stop`: ends a job, from any machine.
#include "absl/strings/str_cat.h"
#include "client/admin/admin_client.h"
#include "client/cli/commands.h"
#include "client/cli/job_lookup.h"

namespace rollcall {
int RunStopCommand(const StopFlags& flags) {
  auto address = JobToSee(flags.where, v1::ROLE_ADMIN);
  if (!address.ok()) return Fail(address.status());
  PrepareGrpc();
  v1::StopRequest request;
  request.set_exit_code(flags.exit_code);
  request.set_reason("stopped by `rollcall stop`");
  request.set_now(flags.now);
  auto stopped = AdminClient(*address).Stop(request, kCallTimeout);
  if (!stopped.ok()) return FailAt(*address, stopped.status());
  Complain(absl::StrCat("job ", address->job, " ends"));
  return 0;
}

}  // namespace rollcall
