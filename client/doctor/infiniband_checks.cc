// Ports of RDMA devices: InfiniBand, RoCE, EFA.
//
// The checks follow NCCL's user guide ("NIC-level diagnostics"): ports are
// Active and not Down, Init or Armed, the physical state is LinkUp, all ports
// have the same link layer, and the rate is the expected one. The names of
// states are the kernel's (sysfs.c in drivers/infiniband/core).
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/doctor/checks.h"

namespace rollcall {
namespace {

using Port = v1::InfinibandPort;

constexpr char kInfiniband[] = "InfiniBand";
constexpr char kEthernet[] = "Ethernet";

std::string Name(const Port& port) {
  return absl::StrCat(port.device(), " port ", port.port());
}

bool IsActive(const Port& port) { return port.state() == "ACTIVE"; }

// The entry for a missing fact of a port. If there is one, the value of the
// port's field has no meaning.
const v1::MissingFact* Missing(const Examined& node, const Port& port,
                               const char* field) {
  return node.missing.Find(
      absl::StrCat("infiniband.", port.device(), ".", field));
}

// True if there is no port; then the finding has been added and the check is
// complete.
bool NoPort(const Examined& node, FindingList& to) {
  if (node.facts.infiniband_size() > 0) return false;
  to.NotApplicable("no RDMA device is known");
  return true;
}

// The first check of this file; it also reports why no device is known.
void CheckUsable(const Examined& node, FindingList& to) {
  if (node.facts.infiniband().empty()) {
    if (const auto* missing = node.missing.FindBelow("infiniband")) {
      return to.Unknown(kNode, missing, "");
    }
    return to.NotApplicable("no RDMA device here");
  }
  for (const Port& port : node.facts.infiniband()) {
    if (port.unusable().empty()) {
      to.Ok(Name(port), "libibverbs opens it");
      continue;
    }
    const v1::MissingFact* missing = nullptr;
    const bool memlock = IsShortOfMemlock(node, port);
    for (const std::string& fact :
         {port.device(), std::string("unusable"), std::string("memlock")}) {
      if (missing == nullptr) {
        missing = node.missing.Find(absl::StrCat("infiniband.", fact));
      }
    }
    to.Add(
        Severity::kWarning, Name(port), port.unusable(),
        memlock ? "memory can be registered" : "libibverbs opens the device",
        memlock ? "NCCL opens the device, but cannot register its buffers with "
                  "it, and makes no communicator."
                : "The kernel has the device, but ranks cannot use it; NCCL "
                  "falls back to TCP without a message.",
        missing != nullptr && !missing->remedy().empty() ? missing->remedy()
        : node.facts.container().empty()
            ? "Install libibverbs1 and ibverbs-providers (older images: "
              "libmlx5-1), and check that /dev/infiniband exists and this user "
              "may open it."
            : "Start the container with --device=/dev/infiniband "
              "--cap-add=IPC_LOCK --ulimit memlock=-1, and install libibverbs1 "
              "and ibverbs-providers in its image (older ones: libmlx5-1).");
  }
}

// How to bring up a port that is not ACTIVE.
std::string BringUp(const Port& port) {
  if (port.phys_state() == "Disabled") {
    return absl::StrCat(
        "The port is switched off: ",
        port.link_layer() == kEthernet && !port.net_device().empty()
            ? absl::StrCat("`ip link set ", port.net_device(), " up`.")
            : "enable it with `ibportstate`, on the switch as well.");
  }
  if (port.state() == "INIT" || port.state() == "ARMED") {
    return "The link is up, but no subnet manager has configured it yet: is "
           "one running (`sminfo`, opensm)?";
  }
  return "Check cable, transceiver and switch port (`ibstat`, `mlxlink`); "
         "Polling means that nothing answers at the other end.";
}

void CheckState(const Examined& node, FindingList& to) {
  if (NoPort(node, to)) return;
  const auto& ports = node.facts.infiniband();
  const auto active = std::count_if(ports.begin(), ports.end(), IsActive);
  for (const Port& port : ports) {
    if (IsActive(port)) {
      to.Ok(Name(port), port.state());
      continue;
    }
    if (port.state().empty()) {
      to.Unknown(Name(port), Missing(node, port, "state"),
                 "its state is not known");
      continue;
    }
    const bool configuring = port.state() == "INIT" || port.state() == "ARMED";
    to.Add(
        configuring || active == 0 ? Severity::kRetryable : Severity::kWarning,
        Name(port),
        absl::StrCat(port.state(),
                     port.phys_state().empty()
                         ? ""
                         : absl::StrCat(" (", port.phys_state(), ")"),
                     ", ", active, " of ", ports.size(), " ports are ACTIVE"),
        "ACTIVE",
        active == 0 ? "NCCL uses ACTIVE ports only, and falls back to TCP if "
                      "there is none."
                    : "NCCL uses ACTIVE ports only: this node has less "
                      "bandwidth than its peers, and all wait for it.",
        BringUp(port));
  }
}

void CheckPhysicalState(const Examined& node, FindingList& to) {
  if (NoPort(node, to)) return;
  bool judged = false;
  for (const Port& port : node.facts.infiniband()) {
    // The check `hca-state` reports ports that are not active.
    if (!IsActive(port)) continue;
    judged = true;
    if (port.phys_state() == "LinkUp") {
      to.Ok(Name(port), port.phys_state());
    } else if (port.phys_state().empty()) {
      to.Unknown(Name(port), Missing(node, port, "phys_state"),
                 "its physical state is not known");
    } else {
      to.Add(Severity::kWarning, Name(port), port.phys_state(), "LinkUp",
             "A link that keeps recovering from errors stays ACTIVE, but its "
             "traffic stalls.",
             "Change the cable or transceiver; check the error counters "
             "(`perfquery -x`, `mlxlink`).");
    }
  }
  if (!judged) to.NotApplicable("no port is ACTIVE");
}

void CheckLinkLayer(const Examined& node, FindingList& to) {
  if (NoPort(node, to)) return;
  std::map<std::string, std::vector<std::string>> layers;
  std::vector<std::string> unknown;
  for (const Port& port : node.facts.infiniband()) {
    // The kernel reports no link layer for EFA.
    if (!IsActive(port) || port.driver() == "efa") continue;
    if (port.link_layer().empty()) {
      to.Unknown(Name(port), Missing(node, port, "link_layer"),
                 "its link layer is not known");
      unknown.push_back(Name(port));
      continue;
    }
    layers[port.link_layer()].push_back(Name(port));
  }
  if (layers.empty()) {
    if (unknown.empty()) to.NotApplicable("no port is ACTIVE");
    return;
  }
  if (layers.size() == 1) return to.Ok(kNode, layers.begin()->first);
  std::vector<std::string> texts;
  texts.reserve(layers.size());
  for (const auto& [layer, ports] : layers) {
    texts.push_back(absl::StrCat(layer, ": ", ListText(ports)));
  }
  to.Add(Severity::kWarning, kNode, ListText(texts), "one link layer",
         "NCCL cannot use devices of two link layers in one connection, and "
         "may send gradients through ports that are for storage.",
         "Name the ports to use, as in NCCL_IB_HCA==mlx5_0,mlx5_1.");
}

void CheckRate(const Examined& node, FindingList& to) {
  if (NoPort(node, to)) return;
  std::map<std::string, uint32_t> best;
  for (const Port& port : node.facts.infiniband()) {
    if (!IsActive(port)) continue;
    uint32_t& rate = best[port.link_layer()];
    rate = std::max(rate, port.rate_gbps());
  }
  for (const Port& port : node.facts.infiniband()) {
    if (!IsActive(port)) continue;
    const std::string found = absl::StrCat(port.rate_gbps(), " Gb/s");
    if (port.rate_gbps() == 0) {
      to.Unknown(Name(port), Missing(node, port, "rate_gbps"),
                 "its rate is not known");
    } else if (port.rate_gbps() == best[port.link_layer()]) {
      to.Ok(Name(port), found);
    } else {
      to.Add(Severity::kWarning, Name(port), found,
             absl::StrCat(best[port.link_layer()],
                          " Gb/s, as the node's other ports"),
             "A link at a lower rate slows every step: each collective waits "
             "for the slowest rail.",
             "Change the cable, or reset the port at the switch; if the card "
             "has another purpose, leave it out with NCCL_IB_HCA.");
    }
  }
  if (best.empty()) to.NotApplicable("no port is ACTIVE");
}

void CheckLid(const Examined& node, FindingList& to) {
  if (NoPort(node, to)) return;
  bool judged = false;
  for (const Port& port : node.facts.infiniband()) {
    if (!IsActive(port) || port.link_layer() != kInfiniband) continue;
    judged = true;
    const v1::MissingFact* missing = nullptr;
    for (const char* field : {"lid", "sm_lid"}) {
      if (missing == nullptr) missing = Missing(node, port, field);
    }
    const std::string found =
        absl::StrCat("LID ", port.lid(), ", SM LID ", port.sm_lid());
    constexpr char kWhy[] =
        "The subnet manager gives a port its LID; peers cannot find a port "
        "without one.";
    constexpr char kMend[] =
        "Start a subnet manager on the fabric (opensm, or that of a managed "
        "switch) and check `sminfo`.";
    if (missing != nullptr) {
      to.Unknown(Name(port), missing, "");
    } else if (port.lid() == 0) {
      to.Add(Severity::kRetryable, Name(port), found, "a LID", kWhy, kMend);
    } else if (port.sm_lid() == 0) {
      to.Add(Severity::kWarning, Name(port), found, "a subnet manager", kWhy,
             kMend);
    } else {
      to.Ok(Name(port), found);
    }
  }
  if (!judged) to.NotApplicable("no InfiniBand port is ACTIVE");
}

// NCCL uses RoCE v2 GIDs unless NCCL_IB_ROCE_VERSION_NUM has another version
// (user guide, default 2).
void CheckRoceGid(const Examined& node, FindingList& to) {
  if (NoPort(node, to)) return;
  bool judged = false;
  for (const Port& port : node.facts.infiniband()) {
    if (!IsActive(port) || port.link_layer() != kEthernet) continue;
    judged = true;
    const auto has = [&port](absl::string_view type) {
      return std::any_of(
          port.gids().begin(), port.gids().end(),
          [&](const v1::Gid& gid) { return gid.type() == type; });
    };
    if (has("RoCE v2")) {
      to.Ok(Name(port), "has a RoCE v2 GID");
    } else if (const auto* missing = Missing(node, port, "gids")) {
      to.Unknown(Name(port), missing, "");
    } else if (has("")) {
      to.Unknown(Name(port), "the types of its GIDs are not known");
    } else {
      to.Add(
          Severity::kWarning, Name(port),
          port.gids().empty() ? "no GID" : "no RoCE v2 GID, RoCE v1 only",
          "a RoCE v2 GID",
          "NCCL connects with RoCE v2 GIDs; ibv_modify_qp fails on a port "
          "without one.",
          absl::StrCat(
              "Give ",
              port.net_device().empty() ? "its interface" : port.net_device(),
              " an address and bring it up; in a container the interface "
              "must be in the container's network (--network host). Or leave "
              "the port out with NCCL_IB_HCA."));
    }
  }
  if (!judged) to.NotApplicable("no RoCE port is ACTIVE");
}

// NCCL itself does not support EFA: it needs aws-ofi-nccl's plugin.
void CheckEfaPlugin(const Examined& node, FindingList& to) {
  const auto& ports = node.facts.infiniband();
  const bool efa = std::any_of(ports.begin(), ports.end(), [](const Port& p) {
    return p.driver() == "efa";
  });
  if (!efa) return to.NotApplicable("no EFA device is known");
  for (const Port& port : ports) {
    if (port.driver() != "efa") continue;
    const v1::MissingFact* missing =
        node.missing.FindBelow("infiniband.efa_plugin");
    if (missing == nullptr) {
      to.Ok(Name(port), "NCCL's plugin for EFA can be loaded");
      continue;
    }
    to.Add(
        Severity::kWarning, Name(port), missing->reason(),
        "aws-ofi-nccl's plugin",
        "Without its plugin NCCL does not use EFA, and falls back to TCP.",
        missing->remedy().empty()
            ? "Run AWS's EFA installer or install aws-ofi-nccl in the image, "
              "and put its folder into LD_LIBRARY_PATH."
            : missing->remedy());
  }
}

}  // namespace

bool IsShortOfMemlock(const Examined& node, const v1::InfinibandPort& port) {
  const v1::MissingFact* missing = node.missing.FindBelow("infiniband.memlock");
  return missing != nullptr && port.unusable() == missing->reason();
}

std::vector<NamedCheck> InfinibandChecks() {
  return {{"hca-usable", CheckUsable},
          {"hca-state", CheckState},
          {"hca-phys-state", CheckPhysicalState},
          {"hca-link-layer", CheckLinkLayer},
          {"hca-rate", CheckRate},
          {"hca-lid", CheckLid},
          {"hca-roce-gid", CheckRoceGid},
          {"efa-plugin", CheckEfaPlugin}};
}

}  // namespace rollcall
