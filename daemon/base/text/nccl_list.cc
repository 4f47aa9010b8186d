#include "daemon/base/text/nccl_list.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace rollcall {

bool NcclListSelects(absl::string_view list, absl::string_view device,
                     uint32_t port) {
  const bool excludes = absl::ConsumePrefix(&list, "^");
  const bool exact = absl::ConsumePrefix(&list, "=");
  bool found = false;
  for (const absl::string_view word : absl::StrSplit(list, ',')) {
    const std::vector<std::string> parts = absl::StrSplit(word, ':');
    uint32_t wanted = 0;
    const bool of_port =
        parts.size() > 1 && port != 0 && absl::SimpleAtoi(parts[1], &wanted);
    if (parts[0].empty() || (of_port && wanted != port)) continue;
    found = found ||
            (exact ? device == parts[0] : absl::StartsWith(device, parts[0]));
  }
  return found != excludes;
}

}  // namespace rollcall
