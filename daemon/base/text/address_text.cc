#include "daemon/base/text/address_text.h"

#include <arpa/inet.h>
#include <netinet/in.h>

namespace rollcall {

std::string AddressText(absl::string_view bytes) {
  const int family = bytes.size() == sizeof(in_addr)    ? AF_INET
                     : bytes.size() == sizeof(in6_addr) ? AF_INET6
                                                        : AF_UNSPEC;
  char text[INET6_ADDRSTRLEN] = {};
  if (family != AF_UNSPEC) inet_ntop(family, bytes.data(), text, sizeof(text));
  return text;
}

std::string AddressText(const sockaddr* address) {
  const auto bytes = [](const auto& from, size_t skipped) {
    return absl::string_view(reinterpret_cast<const char*>(&from) + skipped,
                             sizeof(from) - skipped);
  };
  if (address->sa_family == AF_INET) {
    const auto* four = reinterpret_cast<const sockaddr_in*>(address);
    return AddressText(bytes(four->sin_addr, 0));
  }
  if (address->sa_family == AF_INET6) {
    const auto* six = reinterpret_cast<const sockaddr_in6*>(address);
    const bool mapped = IN6_IS_ADDR_V4MAPPED(&six->sin6_addr);
    return AddressText(
        bytes(six->sin6_addr, mapped ? sizeof(in6_addr) - sizeof(in_addr) : 0));
  }
  return "";
}

}  // namespace rollcall
