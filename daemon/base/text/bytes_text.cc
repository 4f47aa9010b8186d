#include "daemon/base/text/bytes_text.h"

#include <cstddef>
#include <iterator>
#include <limits>

#include "absl/strings/str_format.h"

namespace rollcall {

std::string BytesText(uint64_t bytes) {
  if (bytes == std::numeric_limits<uint64_t>::max()) return "unlimited";
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  // 20000 is written as 19.5 KiB, 65536 as 64 KiB.
  const bool whole = value == static_cast<double>(static_cast<uint64_t>(value));
  return absl::StrFormat("%.*f %s", whole ? 0 : 1, value, kUnits[unit]);
}

}  // namespace rollcall
