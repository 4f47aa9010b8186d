// `rollcall status`: a job's state, once or at each change.
#include <cstdio>
#include <optional>
#include <utility>
#include <variant>

#include "client/cli/commands.h"
#include "client/cli/place.h"
#include "client/launch/admin_client.h"
#include "client/launch/job_text.h"
#include "daemon/server/inbox.h"
#include "nlohmann/json.hpp"

namespace rollcall {
namespace {

void Show(const v1::JobStatus& status, bool json) {
  if (json) {
    std::printf("%s\n", OneLine(StatusJson(status)).c_str());
  } else {
    std::fputs(StatusTable(status).c_str(), stdout);
  }
  std::fflush(stdout);
}

// How one watch ended. `heard`: set where it told a state.
absl::Status WatchOnce(const std::string& endpoint, const JobAddress& address,
                       bool json, bool& heard) {
  // Enough for a reader that is slower than five states a second.
  Inbox<std::variant<v1::JobStatus, absl::Status>> inbox(64);
  JobWatch watch(
      endpoint, address,
      [&](v1::JobStatus status) { inbox.Post(std::move(status)); },
      [&](absl::Status end) { inbox.PostAlways(std::move(end)); });
  for (;;) {
    for (auto& next : inbox.Take(absl::InfiniteDuration())) {
      if (const auto* end = std::get_if<absl::Status>(&next)) {
        return *end;
      }
      heard = true;
      Show(std::get<v1::JobStatus>(next), json);
    }
  }
}

// A daemon closes a viewer's connection after some megabytes.
int Watch(const std::string& endpoint, const JobAddress& address, bool json) {
  for (;;) {
    bool heard = false;
    const absl::Status end = WatchOnce(endpoint, address, json, heard);
    if (end.ok()) return 0;
    if (!heard || !absl::IsUnavailable(end)) return Fail(end);
  }
}

}  // namespace

int RunStatusCommand(const StatusFlags& flags) {
  auto address = JobToSee(flags.where, v1::ROLE_VIEWER);
  if (!address.ok()) return Fail(address.status());
  PrepareGrpc();
  AdminClient client(*address);
  auto status = client.Status(kCallTimeout);
  if (!status.ok()) return Fail(status.status());
  if (flags.watch) return Watch(client.endpoint(), *address, flags.json);
  Show(*status, flags.json);
  return 0;
}

}  // namespace rollcall
