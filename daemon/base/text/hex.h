// Converts hex digits to bytes. abseil's HexStringToBytes is deprecated in the
// release of Debian 13, and its replacement is not in the release of Debian 12.
//
// Pure; any thread.
#ifndef ROLLCALL_DAEMON_BASE_TEXT_HEX_H_
#define ROLLCALL_DAEMON_BASE_TEXT_HEX_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace rollcall {

// Two digits make a byte, in either case. The caller has checked the digits:
// any other character counts as 0, and the last digit of an odd number is
// ignored.
inline std::string FromHex(absl::string_view digits) {
  const auto value = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return 0;
  };
  std::string bytes;
  bytes.reserve(digits.size() / 2);
  for (size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes += static_cast<char>(value(digits[i]) << 4 | value(digits[i + 1]));
  }
  return bytes;
}

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_BASE_TEXT_HEX_H_
