// The fabric of a world: which RDMA ports of each node its peers can use, and
// the settings that NCCL and UCX need for that.
//
// By default NCCL uses every active InfiniBand or RoCE port of a node, and
// connects the ports of two nodes by their positions. That is wrong if one node
// has a port that the others lack, a port of another speed (storage,
// management), a port without an address, or a port that peers do not reach.
// Only then is a setting made; it has a reason.
//
// Pure. Reads facts only; the results of probes come in as `unreached`.
#ifndef ROLLCALL_DAEMON_CORE_NETWORK_PLAN_FABRIC_H_
#define ROLLCALL_DAEMON_CORE_NETWORK_PLAN_FABRIC_H_

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
  // Interfaces with addresses that were probed and that most probers did not
  // reach.
  std::set<std::string> unreached;
};

// The ports of one node that belong to the fabric.
struct FabricPorts {
  // Indices into Facts.infiniband, by rail.
  std::vector<int> rails;
  std::vector<v1::PlannedVariable> variables;
  // A problem that no variable can solve; empty: none.
  std::string warning;
};

// In the order of the input. Nodes without RDMA ports get empty values. If only
// some nodes can use a common fabric, NCCL_IB_DISABLE=1 is set, so that they do
// not wait there for the others. A node whose ports are unknown gets no
// settings and does not affect those of the others.
std::vector<FabricPorts> PlanFabric(const std::vector<FabricNode>& nodes);

// Whether it is known which ports there are and whether they can be opened.
// True also for a node that has no port, or none that can be used.
bool KnowsPorts(const v1::Facts& facts);

// Whether NCCL uses this port by default: it is active, its link layer is
// InfiniBand or Ethernet, and libibverbs can open it.
bool IsActive(const v1::InfinibandPort& port);

// The NVLink domain (it may span several nodes) that all GPUs of a node are in:
// NVML's fabric cluster and clique; empty: none, or unknown.
std::string NvlinkDomain(const v1::Facts& facts);

// The GID by which peers reach a port. On InfiniBand: the first one. On RoCE:
// the first RoCE v2 GID with an IPv4 address, else with a global IPv6 address,
// on an interface that is not in `unreached`. Null: there is none.
const v1::Gid* PeerGid(const v1::InfinibandPort& port,
                       const std::set<std::string>& unreached = {});

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_NETWORK_PLAN_FABRIC_H_
