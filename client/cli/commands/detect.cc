// `rollcall detect`: prints what is known about this node from its platform.
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/admin/job_text.h"
#include "client/cli/commands.h"
#include "client/cli/job_lookup.h"
#include "client/launch/platform/platform.h"
#include "nlohmann/json.hpp"

namespace rollcall {
namespace {

nlohmann::ordered_json ToJson(const Platform& platform) {
  const Evidence& place = platform.place;
  nlohmann::ordered_json json;
  const auto put = [&json](const char* name, const auto& known) {
    if (known.known()) {
      json[name] = known.value;
    } else {
      json[name] = nullptr;
    }
  };
  json["platform"] = platform.names.empty() ? "none" : platform.names.front();
  json["platforms"] = platform.names;
  json["role"] = Name(platform.role);
  put("node_rank", place.node_rank);
  put("nodes", place.nodes);
  put("address", place.launcher);
  put("own_address", place.address);
  put("gpus", place.ranks);
  put("job", place.job);
  put("attempt", place.attempt);
  json["obstacle"] = place.obstacle;
  json["because"] = Because(platform);
  return json;
}

}  // namespace

int RunDetectCommand(const DetectFlags& flags) {
  const auto platform = DetectPlatform(ReadNodeEnvironment(PlainEnvironment()));
  if (!platform.ok()) return Fail(platform.status());
  const nlohmann::ordered_json json = ToJson(*platform);
  if (flags.json) {
    std::printf("%s\n", OneLine(json).c_str());
    return 0;
  }
  for (const auto& [name, value] : json.items()) {
    if (value.is_array() || value.is_null() || value == "") continue;
    std::printf("%-12s %s\n", name.c_str(),
                value.is_string() ? value.get<std::string>().c_str()
                                  : OneLine(value).c_str());
  }
  if (!flags.explain) return 0;
  for (const std::string& line : Because(*platform)) {
    std::printf("because      %s\n", line.c_str());
  }
  return 0;
}

}  // namespace rollcall
