// The fabric of a world: which RDMA ports of each node its peers can use, and
// what NCCL and UCX have to be told about them.
//
// NCCL by itself takes every active port of a node that speaks InfiniBand or
// RoCE, and connects the ports of two nodes by their positions. That is wrong
// where one node has a port that the others lack, a port of another speed
// (storage, management), one without an address, or one that peers do not
// reach. A setting is made only there, and says why.
//
// Pure. Reads facts alone; what probes found comes in as `unreached`.
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
  // What cannot be mended by a variable; empty: nothing.
  std::string warning;
};

// In the order of the input. Nodes without RDMA ports get empty values; if only
// some nodes can use a common fabric, NCCL_IB_DISABLE=1 keeps the others from
// waiting for them there. Nothing is concluded from a node whose ports are not
// known, nor for it.
std::vector<FabricPorts> PlanFabric(const std::vector<FabricNode>& nodes);

// Not where it could not be found out which ports there are, or whether any of
// them can be opened. A node that has none, or none that can be used, knows it.
bool KnowsPorts(const v1::Facts& facts);

// Whether NCCL uses this port by default: it is active, its link layer is
// InfiniBand or Ethernet, and libibverbs can open it.
bool IsActive(const v1::InfinibandPort& port);

// The NVLink domain that all GPUs of a node are in, over several nodes (NVML's
// fabric cluster and clique); empty: none, or unknown.
std::string NvlinkDomain(const v1::Facts& facts);

// The GID by which peers reach a port: on InfiniBand the first one; on RoCE the
// first of RoCE v2 with an IPv4 address, else with a global IPv6 address, on an
// interface that is not `unreached`. Null: it has none.
const v1::Gid* PeerGid(const v1::InfinibandPort& port,
                       const std::set<std::string>& unreached = {});

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_NETWORK_PLAN_FABRIC_H_
