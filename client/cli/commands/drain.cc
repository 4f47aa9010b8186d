// `rollcall drain`: removes a node from a job for good, from any machine.
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "client/admin/admin_client.h"
#include "client/admin/job_text.h"
#include "client/cli/commands.h"
#include "client/cli/job_lookup.h"
#include "daemon/base/durations.h"
#include "nlohmann/json.hpp"

namespace rollcall {
int RunDrainCommand(const DrainFlags& flags) {
  auto address = JobToSee(flags.where, v1::ROLE_ADMIN);
  if (!address.ok()) return Fail(address.status());
  PrepareGrpc();
  v1::DrainRequest request;
  request.set_node(flags.node);
  request.set_reason(flags.reason);
  if (flags.deadline < absl::InfiniteDuration()) {
    ToProto(flags.deadline, request.mutable_deadline());
  }
  auto drained = AdminClient(*address).Drain(request, kCallTimeout);
  if (!drained.ok()) return FailAt(*address, drained.status());
  if (flags.json) {
    nlohmann::ordered_json json = {
        {"job", address->job}, {"node", flags.node}, {"draining", true}};
    if (request.has_deadline()) {
      json["deadline_s"] = absl::ToDoubleSeconds(flags.deadline);
    }
    std::printf("%s\n", OneLine(json).c_str());
    return 0;
  }
  const std::string job =
      address->job.empty() ? "its job" : absl::StrCat("job ", address->job);
  std::printf("node %s leaves %s at the next step boundary\n",
              flags.node.c_str(), job.c_str());
  return 0;
}

}  // namespace rollcall
