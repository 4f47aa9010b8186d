// IP addresses as text, as inet_ntop writes them.
//
// Pure; any thread.
#ifndef ROLLCALL_DAEMON_BASE_ADDRESS_TEXT_H_
#define ROLLCALL_DAEMON_BASE_ADDRESS_TEXT_H_

#include <sys/socket.h>

#include <string>

#include "absl/strings/string_view.h"

namespace rollcall {

// Of 4 bytes (IPv4) or 16 (IPv6), in network order; of any other number: empty.
std::string AddressText(absl::string_view bytes);

// Of a socket's address, without its port; one of IPv4 that an IPv6 socket has
// as IPv4. Empty: it is neither.
std::string AddressText(const sockaddr* address);
inline std::string AddressText(const sockaddr_storage& address) {
  return AddressText(reinterpret_cast<const sockaddr*>(&address));
}

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_BASE_ADDRESS_TEXT_H_
