#include "daemon/server/connections/peer_address.h"

#include "daemon/core/admission/admission.h"

namespace rollcall {

std::string AddressOfPeer(std::string_view peer) {
  const size_t scheme = peer.find(':');
  if (scheme == std::string_view::npos) return "";
  const std::string_view kind = peer.substr(0, scheme);
  if (kind != "ipv4" && kind != "ipv6") return "";
  // gRPC writes brackets as %5B and %5D, and a zone after %25.
  std::string text;
  std::string_view rest = peer.substr(scheme + 1);
  while (!rest.empty()) {
    const std::string_view code = rest.substr(0, 3);
    const bool escaped = code == "%5B" || code == "%5D" || code == "%25";
    text.push_back(code == "%5B"   ? '['
                   : code == "%5D" ? ']'
                   : code == "%25" ? '%'
                                   : rest[0]);
    rest.remove_prefix(escaped ? 3 : 1);
  }
  std::string address = text.substr(0, text.rfind(':'));
  if (address.size() > 2 && address.front() == '[') {
    address = address.substr(1, address.rfind(']') - 1);
  }
  address = address.substr(0, address.find('%'));
  constexpr std::string_view kMapped = "::ffff:";
  if (std::string_view(address).substr(0, kMapped.size()) == kMapped &&
      address.find('.') != std::string::npos) {
    address.erase(0, kMapped.size());
  }
  return AdmitAddress(address).ok() ? address : "";
}

}  // namespace rollcall
