// What the nodes of a world should have in common and do not: the reason of
// many a hang or slow run, said before any rank starts.
//
// Pure, from facts alone. A fact that a node does not know is compared with
// nothing. What a setting of the plan mends by itself (a GID index) is no
// difference.
#ifndef ROLLCALL_DAEMON_CORE_NETWORK_PLAN_DIFFERENCES_H_
#define ROLLCALL_DAEMON_CORE_NETWORK_PLAN_DIFFERENCES_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

struct ComparedNode {
  std::string node;
  const v1::Facts* facts;
  std::string command_digest;
  // The interface with the address that its peers use; empty: unknown.
  std::string interface;
  // Its clock minus the daemon's; unset: unknown.
  std::optional<absl::Duration> clock_offset;
};

// At most one for each compared fact, in a fixed order. The first side of each
// is the one that counts: the first node's if `first_counts`, else the one of
// most nodes; then by number of nodes.
std::vector<v1::Difference> FindDifferences(
    const std::vector<ComparedNode>& nodes, bool first_counts);

// "NCCL version: 2.28.9 on a, b; 2.21.5 on c".
std::string DifferenceText(const v1::Difference& difference);

// By name: the nodes on another side than the first one of some difference,
// each with the text of the first such difference.
std::vector<std::pair<std::string, std::string>> NodesThatDiffer(
    const std::vector<ComparedNode>& nodes,
    const std::vector<v1::Difference>& differences);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_NETWORK_PLAN_DIFFERENCES_H_
