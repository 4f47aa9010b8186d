// `rollcall version`.
#include <cstdio>

#include "client/admin/job_text.h"
#include "client/cli/commands.h"
#include "nlohmann/json.hpp"

namespace rollcall {

int RunVersionCommand(const VersionFlags& flags) {
  if (flags.json) {
    const nlohmann::ordered_json json = {{"version", ROLLCALL_VERSION}};
    std::printf("%s\n", OneLine(json).c_str());
  } else {
    std::printf("rollcall %s\n", ROLLCALL_VERSION);
  }
  return 0;
}

}  // namespace rollcall
