#include "trainer/check/used_ports.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "daemon/base/text/nccl_list.h"

namespace rollcall {

uint64_t UsedPorts(const std::vector<CheckedPort>& ports,
                   absl::string_view list) {
  uint64_t used = kAllPortsUsed;
  if (list.empty()) return used;
  for (size_t i = 0; i < std::min(ports.size(), kUsedPortsMax); ++i) {
    const std::pair<std::string, std::string> name =
        absl::StrSplit(ports[i].name, absl::MaxSplits(':', 1));
    uint32_t number = 0;
    if (!absl::SimpleAtoi(name.second, &number)) continue;
    if (!NcclListSelects(list, name.first, number)) used &= ~(uint64_t{1} << i);
  }
  return used;
}

}  // namespace rollcall
