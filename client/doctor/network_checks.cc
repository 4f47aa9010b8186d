// Checks of addresses, the node's own name, links, their MTU, and the variables
// of the libraries that use them.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/doctor/checks.h"
#include "daemon/core/admission/communication_variables.h"
#include "daemon/core/network_plan/plan_node.h"

namespace rollcall {
namespace {

std::string On(const v1::InterfaceAddress& address,
               const v1::Interface& interface) {
  return absl::StrCat(address.address(), " on ", interface.name());
}

void CheckAddress(const Examined& node, FindingList& to) {
  if (node.options.daemon_reached) {
    return to.NotApplicable("this node is connected to the daemon");
  }
  const std::string& advertised = node.facts.advertised_address();
  if (!advertised.empty() && !IsUnusable(advertised)) {
    return to.Ok(kNode, absl::StrCat(advertised, ", named by the platform"));
  }
  std::vector<std::string> usable, others;
  for (const v1::Interface& interface : node.facts.interfaces()) {
    for (const v1::InterfaceAddress& address : interface.addresses()) {
      const bool serves = interface.up() && !interface.loopback() &&
                          !IsLocalBridge(interface.name()) &&
                          !IsUnusable(address.address());
      (serves ? usable : others)
          .push_back(absl::StrCat(On(address, interface),
                                  interface.up() ? "" : " (down)"));
    }
  }
  if (!usable.empty()) return to.Ok(kNode, ListText(usable));
  const v1::MissingFact* missing = node.missing.Find("interfaces.addresses");
  if (missing != nullptr || node.facts.interfaces().empty()) {
    return to.Unknown(kNode, missing, "no interface is known");
  }
  to.Add(
      Severity::kFatal, kNode,
      others.empty() ? "no address" : absl::StrCat("only ", ListText(others)),
      "an address that peers can connect to",
      "Other nodes cannot reach loopback and link-local addresses and those of "
      "bridges inside this machine.",
      "Bring a network interface up and give it an address; in a container, "
      "use the host's network (--network host) or one that the nodes "
      "share.");
}

// Gloo and other programs look up their own host name, listen at the address
// that they find, and send it to their peers (pytorch issues 85300 and 150532).
void CheckOwnName(const Examined& node, FindingList& to) {
  constexpr char kWhy[] =
      "Gloo and other libraries look up the node's own name and send the "
      "address that they get to their peers.";
  constexpr char kMend[] =
      "Let rollcall manage /etc/hosts (no --no-hosts), or give the name one of "
      "this node's addresses in /etc/hosts or in DNS.";
  constexpr char kExpected[] = "an address of this node";
  if (!node.options.own_name) return to.NotApplicable("it was not looked up");
  const OwnName& own = *node.options.own_name;
  if (own.kind == OwnName::Kind::kUnclear) {
    return to.Unknown(own.name, "the resolver gave no clear answer in time",
                      "Check `getent ahosts` and /etc/resolv.conf.");
  }
  if (own.kind == OwnName::Kind::kNotFound || own.addresses.empty()) {
    return to.Add(Severity::kWarning, own.name, "the name does not resolve",
                  kExpected, kWhy, kMend);
  }
  std::set<std::string> held;
  for (const v1::Interface& interface : node.facts.interfaces()) {
    for (const v1::InterfaceAddress& address : interface.addresses()) {
      held.insert(address.address());
    }
  }
  std::vector<std::string> usable;
  for (const std::string& address : own.addresses) {
    if (!IsUnusable(address)) usable.push_back(address);
  }
  if (usable.empty()) {
    return to.Add(Severity::kWarning, own.name,
                  absl::StrCat("resolves to ", ListText(own.addresses)),
                  kExpected, kWhy, kMend);
  }
  if (held.empty()) {
    return to.Unknown(own.name, "no address of this node is known");
  }
  const bool foreign =
      std::none_of(usable.begin(), usable.end(),
                   [&](const std::string& a) { return held.contains(a); });
  if (foreign) {
    return to.Add(Severity::kWarning, own.name,
                  absl::StrCat("resolves to ", ListText(usable),
                               ", which no interface here has"),
                  kExpected, kWhy, kMend);
  }
  to.Ok(own.name, absl::StrCat("resolves to ", ListText(usable)));
}

// Whether frames can leave the machine through this interface. Interface kinds
// that exist only inside the machine are listed by the kernel's names
// (rtnl_link_ops.kind in its drivers).
bool LeavesMachine(const v1::Interface& interface) {
  static const std::set<std::string> kInside = {"tun", "dummy", "ifb", "nlmon"};
  return !interface.loopback() && !IsLocalBridge(interface.name()) &&
         !kInside.contains(interface.device_type());
}

void CheckCarrier(const Examined& node, FindingList& to) {
  bool judged = false;
  for (const v1::Interface& interface : node.facts.interfaces()) {
    if (!LeavesMachine(interface) || !interface.up()) continue;
    // A bridge without ports has no carrier.
    if (interface.device_type() == "bridge" && interface.addresses().empty()) {
      continue;
    }
    judged = true;
    if (interface.running()) {
      to.Ok(interface.name(), "up, with carrier");
      continue;
    }
    const bool port = !interface.master().empty();
    to.Add(Severity::kWarning, interface.name(),
           port ? absl::StrCat("up without carrier, a port of ",
                               interface.master())
                : "up without carrier",
           "a link to the switch",
           port ? "The bond or bridge has lost this part of its bandwidth."
                : "This interface sends nothing, and gets no address.",
           absl::StrCat("Check cable, transceiver and switch port; if it is "
                        "not used, `ip link set ",
                        interface.name(), " down`."));
  }
  if (!judged) {
    if (const auto* missing = node.missing.Find("interfaces")) {
      return to.Unknown(kNode, missing, "");
    }
    to.NotApplicable("no interface that leaves the machine is up");
  }
}

// Assumes that interfaces of the same kind and speed have the same purpose.
void CheckMtu(const Examined& node, FindingList& to) {
  static const std::set<std::string> kKinds = {"", "bond", "ipoib", "vlan"};
  std::map<std::pair<std::string, uint32_t>, std::vector<const v1::Interface*>>
      groups;
  bool judged = false;
  for (const v1::Interface& interface : node.facts.interfaces()) {
    if (!LeavesMachine(interface) || !interface.up()) continue;
    if (!kKinds.contains(interface.device_type())) continue;
    if (interface.mtu() == 0) {
      to.Unknown(interface.name(), "its MTU is not known");
      judged = true;
      continue;
    }
    groups[{interface.device_type(), interface.speed_mbps()}].push_back(
        &interface);
  }
  for (const auto& [kind, group] : groups) {
    if (group.size() < 2) continue;
    judged = true;
    const v1::Interface* largest = *std::max_element(
        group.begin(), group.end(),
        [](const auto* a, const auto* b) { return a->mtu() < b->mtu(); });
    for (const v1::Interface* interface : group) {
      const std::string found = absl::StrCat(interface->mtu());
      if (interface->mtu() == largest->mtu()) {
        to.Ok(interface->name(), found);
        continue;
      }
      to.Add(Severity::kWarning, interface->name(), found,
             absl::StrCat(largest->mtu(), ", as ", largest->name()),
             "Interfaces of one kind and speed usually have one MTU; packets "
             "larger than the smallest MTU on their path are dropped or split.",
             absl::StrCat("`ip link set ", interface->name(), " mtu ",
                          largest->mtu(),
                          "`, if its switch port supports that; set it in the "
                          "network's configuration too."));
    }
  }
  if (!judged) to.NotApplicable("no two interfaces of one kind are up");
}

void CheckCommunicationVariables(const Examined& node, FindingList& to) {
  if (!node.facts.has_communication()) {
    return to.Unknown(kNode, "the node has not reported its variables");
  }
  bool faulty = false;
  const v1::CommunicationVariables& all = node.facts.communication();
  for (const v1::CommunicationVariable& variable : all.variables()) {
    const auto fault = FindVariableFault(variable.name());
    if (!fault.has_value()) continue;
    faulty = true;
    to.Add(Severity::kWarning, variable.name(), fault->found,
           "the name of a variable that is read",
           "The setting has no effect, or none in other versions.",
           fault->mend);
  }
  if (faulty) return;
  to.Ok(kNode, all.variables().empty()
                   ? "none is set"
                   : absl::StrCat(all.variables_size(), " set"));
}

}  // namespace

std::vector<NamedCheck> NetworkChecks() {
  return {{"address", CheckAddress},
          {"own-name", CheckOwnName},
          {"carrier", CheckCarrier},
          {"mtu", CheckMtu},
          {"communication-variables", CheckCommunicationVariables}};
}

}  // namespace rollcall
