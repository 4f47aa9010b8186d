#include "daemon/core/network_plan/socket_settings.h"

#include <cstddef>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"

namespace rollcall {
namespace {

v1::PlannedVariable Variable(const char* name, const std::string& value,
                             const std::string& reason) {
  v1::PlannedVariable variable;
  variable.set_name(name);
  variable.set_value(value);
  variable.set_reason(reason);
  return variable;
}

// How many interfaces NCCL may choose from.
size_t CandidatesOf(const v1::Facts& facts) {
  size_t candidates = 0;
  for (const v1::Interface& interface : facts.interfaces()) {
    candidates += interface.up() && !interface.loopback();
  }
  return candidates;
}

// The first IPv4 address of the interface; empty: none.
std::string Ipv4Of(const v1::Facts& facts, const std::string& name) {
  for (const v1::Interface& interface : facts.interfaces()) {
    if (interface.name() != name) continue;
    for (const v1::InterfaceAddress& a : interface.addresses()) {
      const std::optional<std::string> bytes = AddressBytes(a.address());
      if (bytes && bytes->size() == 4) return a.address();
    }
  }
  return "";
}

}  // namespace

std::vector<v1::PlannedVariable> SocketSettings(const v1::Facts& facts,
                                                const UsableAddress& chosen) {
  const std::string& interface = chosen.interface;
  if (interface.empty()) return {};
  std::vector<v1::PlannedVariable> settings;
  // By default NCCL uses the first suitable interface, which may be the wrong
  // one, and interface names differ between nodes.
  if (const size_t candidates = CandidatesOf(facts); candidates > 1) {
    settings.push_back(
        Variable("NCCL_SOCKET_IFNAME", absl::StrCat("=", interface),
                 absl::StrCat("the node has ", candidates,
                              " interfaces; its peers use ", interface)));
  }
  // If an interface has addresses of both families, NCCL uses the IPv4 one
  // (getifaddrs(3) lists it first), which peers may not reach.
  const std::string ipv4 = chosen.ipv4 ? "" : Ipv4Of(facts, interface);
  if (!ipv4.empty()) {
    settings.push_back(Variable(
        "NCCL_SOCKET_FAMILY", "AF_INET6",
        absl::StrCat("its peers use ", chosen.address, ", ", interface,
                     " also has ", ipv4, ", and NCCL would use that")));
  }
  // Gloo advertises the address to which the host's own name resolves. If
  // /etc/hosts also has a loopback address for that name (Debian's 127.0.1.1),
  // resolvers that merge all lines of a name may put that address first, even
  // if our lines come before it.
  settings.push_back(
      Variable("GLOO_SOCKET_IFNAME", interface,
               absl::StrCat("the host's own name may resolve to loopback; its "
                            "peers use ",
                            interface)));
  return settings;
}

}  // namespace rollcall
