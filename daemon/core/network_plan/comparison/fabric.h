// The fabric of a world: which RDMA ports of each node its peers can use, and
// the settings with which NCCL and UCX use them.
//
// By default NCCL uses every active InfiniBand or RoCE port of a node, and
// connects the ports of two nodes by their positions. That is wrong if one node
// has a port that the others lack, a port of another speed (storage,
// management), a port without an address, or a port that peers do not reach.
// Only then is a setting made; each setting has a reason.
//
// Pure. Reads facts only; the results of probes are passed in as `unreached`.
#ifndef ROLLCALL_DAEMON_CORE_NETWORK_PLAN_COMPARISON_FABRIC_H_
#define ROLLCALL_DAEMON_CORE_NETWORK_PLAN_COMPARISON_FABRIC_H_

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "rollcall/v1/membership.pb.h"

namespace rollcall {

struct FabricNode {
  std::string node;
  const v1::Facts* facts;
  // Interfaces whose addresses were probed and were not reached by most
  // probers.
  std::set<std::string> unreached;
};

// The ports of one node that belong to the fabric.
struct FabricPorts {
  // Indices into Facts.infiniband, in the order of the rails.
  std::vector<int> rails;
  std::vector<v1::PlannedVariable> variables;
  // A problem that no variable can solve. Empty: none.
  std::string warning;
};

// One value for each node, in the order of the input. A node without RDMA ports
// gets an empty value. If only some nodes can use a common fabric,
// NCCL_IB_DISABLE=1 is set, so that they do not wait there for the others. A
// node whose ports are unknown gets no settings and does not affect the
// settings of the others.
std::vector<FabricPorts> PlanFabric(const std::vector<FabricNode>& nodes);

// Whether it is known which ports the node has and whether they can be opened.
// Also true for a node that has no port, or none that can be used.
bool KnowsPorts(const v1::Facts& facts);

// Whether NCCL uses this port by default: it is active, its link layer is
// InfiniBand or Ethernet, and libibverbs can open it.
bool IsActive(const v1::InfinibandPort& port);

// The NVLink domain that all GPUs of a node are in (it may span several nodes):
// NVML's fabric cluster and clique. Empty: none, or unknown.
std::string NvlinkDomain(const v1::Facts& facts);

// The GID by which peers reach a port. On InfiniBand: the first GID. On RoCE:
// the first RoCE v2 GID with an IPv4 address, otherwise with a global IPv6
// address, on an interface that is not in `unreached`. Null: there is none.
const v1::Gid* PeerGid(const v1::InfinibandPort& port,
                       const std::set<std::string>& unreached = {});

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_NETWORK_PLAN_COMPARISON_FABRIC_H_
