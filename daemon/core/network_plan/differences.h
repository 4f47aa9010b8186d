// Differences: properties that the nodes of a world should share but do not.
// They are a frequent cause of hangs and slow runs, so they are reported before
// any rank starts.
//
// Pure, from facts alone. A fact that a node does not know is not compared. A
// difference that the network plan handles by a setting (a GID index) is not
// reported.
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
  // Bytes, not text; empty: unknown.
  std::string command_digest;
  // The interface with the address that its peers use; empty: unknown.
  std::string interface;
  // Its clock minus the daemon's; unset: unknown.
  std::optional<absl::Duration> clock_offset;
};

// At most one difference for each compared fact, in a fixed order. The side of
// the node at `reference` comes first, then the larger sides.
std::vector<v1::Difference> FindDifferences(
    const std::vector<ComparedNode>& nodes, size_t reference);

// The node that is least often in a minority; of equal ones the one that knows
// most facts, since a fact that the reference does not know excludes no node;
// then the first.
size_t MostCommonNode(const std::vector<ComparedNode>& nodes);

// "NCCL version: 2.28.9 on a, b; 2.21.5 on c".
std::string DifferenceText(const v1::Difference& difference);

// Nodes that get no seat in a strict job, each with the text of its difference.
// The node at `reference` always keeps its seat. `rules`: a node that differs
// from the reference is excluded even if the reference is in the minority;
// otherwise only if the reference's side has more nodes than its own. A clock
// never excludes a node, because the measured offset includes the time that the
// Hello took.
std::vector<std::pair<std::string, std::string>> NodesThatDiffer(
    const std::vector<ComparedNode>& nodes,
    const std::vector<v1::Difference>& differences, size_t reference,
    bool rules);

// The first fact for which all `members` that know it have the same value and
// the newcomer has another one; nullopt: none. The clock does not count here
// either.
std::optional<v1::Difference> FindNewcomerDifference(
    const std::vector<ComparedNode>& members, const ComparedNode& newcomer);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_NETWORK_PLAN_DIFFERENCES_H_
