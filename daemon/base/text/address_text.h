// IP addresses as text, in the form of inet_ntop.
//
// Pure; any thread.
#ifndef ROLLCALL_DAEMON_BASE_TEXT_ADDRESS_TEXT_H_
#define ROLLCALL_DAEMON_BASE_TEXT_ADDRESS_TEXT_H_

#include <sys/socket.h>

#include <string>

#include "absl/strings/string_view.h"

namespace rollcall {

// `bytes`: 4 (IPv4) or 16 (IPv6) bytes in network order. Empty for any other
// number of bytes.
std::string AddressText(absl::string_view bytes);

// The text of a socket address, without its port; an IPv4-mapped IPv6 address
// is written as IPv4. Empty for other families.
std::string AddressText(const sockaddr* address);
inline std::string AddressText(const sockaddr_storage& address) {
  return AddressText(reinterpret_cast<const sockaddr*>(&address));
}

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_BASE_TEXT_ADDRESS_TEXT_H_
