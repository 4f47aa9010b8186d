// UnixAddress: the gRPC address of a Unix socket.
#ifndef ROLLCALL_CLIENT_RANK_UNIX_ADDRESS_H_
#define ROLLCALL_CLIENT_RANK_UNIX_ADDRESS_H_

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace rollcall {

// gRPC parses `unix:PATH` as a URI: it decodes %41 in PATH, and PATH ends at ?
// or #. So other characters are encoded. Any thread.
inline std::string UnixAddress(const std::string& path) {
  std::string address = "unix:";
  for (const char c : path) {
    const bool plain = absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                       c == '/' || c == '-' || c == '.' || c == '_' || c == '~';
    if (plain) {
      address += c;
    } else {
      absl::StrAppend(&address, "%",
                      absl::BytesToHexString(absl::string_view(&c, 1)));
    }
  }
  return address;
}

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_RANK_UNIX_ADDRESS_H_
