// `rollcall evict`: removes a node from a job at once, from any machine.
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "client/admin/admin_client.h"
#include "client/admin/job_text.h"
#include "client/cli/commands.h"
#include "client/cli/job_lookup.h"
#include "nlohmann/json.hpp"

namespace rollcall {
int RunEvictCommand(const EvictFlags& flags) {
  auto address = JobToSee(flags.where, v1::ROLE_ADMIN);
  if (!address.ok()) return Fail(address.status());
  PrepareGrpc();
  v1::EvictRequest request;
  request.set_node(flags.node);
  request.set_reason(flags.reason);
  auto evicted = AdminClient(*address).Evict(request, kCallTimeout);
  if (!evicted.ok()) return FailAt(*address, evicted.status());
  if (flags.json) {
    nlohmann::ordered_json json = {{"job", address->job},
                                   {"node", flags.node},
                                   {"evicted", !evicted->former()}};
    if (evicted->former()) json["former_evicted"] = true;
    std::printf("%s\n", OneLine(json).c_str());
    return 0;
  }
  const std::string job =
      address->job.empty() ? "its job" : absl::StrCat("job ", address->job);
  if (evicted->former()) {
    std::printf(
        "the former agent of node %s is evicted from %s, and the next world "
        "no longer waits for it;\nthe agent that attends as %s now stays: to "
        "evict that one as well, run the same command again\n",
        flags.node.c_str(), job.c_str(), flags.node.c_str());
    return 0;
  }
  std::printf("node %s is evicted from %s; a valid token brings it back\n",
              flags.node.c_str(), job.c_str());
  return 0;
}

}  // namespace rollcall
