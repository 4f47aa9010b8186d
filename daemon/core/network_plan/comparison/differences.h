// Differences: properties that the nodes of a world should share but do not.
// They are a frequent cause of hangs and slow runs, so they are reported before
// any rank starts.
//
// Pure; reads facts only. If a node does not know a fact, that fact of the node
// is not compared. A difference that the network plan solves by a setting (a
// GID index) is not reported.
#ifndef ROLLCALL_DAEMON_CORE_NETWORK_PLAN_COMPARISON_DIFFERENCES_H_
#define ROLLCALL_DAEMON_CORE_NETWORK_PLAN_COMPARISON_DIFFERENCES_H_

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/network_plan/comparison/compared_facts.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// At most one difference for each compared fact, in a fixed order, and then for
// each communication variable, by name: at most
// Limits::differing_variables_max. In each, the side of the node at index
// `reference` comes first, then larger sides before smaller.
std::vector<v1::Difference> FindDifferences(
    const std::vector<ComparedNode>& nodes, size_t reference);

// The node that is least often in a minority. Of equal nodes, the one that
// knows most facts, because a fact that the reference does not know excludes no
// node; then the first.
size_t MostCommonNode(const std::vector<ComparedNode>& nodes);

// "NCCL version: 2.28.9 on a, b; 2.21.5 on c".
std::string DifferenceText(const v1::Difference& difference);

// The nodes that get no seat, each with the text of its difference: in a
// `strict` job for any difference, otherwise only for one of a folder of
// --shared. If `rules`, the node at index `reference` keeps its seat, and a
// node that differs from it is excluded even if the reference is in the
// minority; otherwise only if the reference's side has more nodes than the
// node's side, or if the node cannot use a file that others can. A clock never
// excludes a node, because the measured offset includes the time that the Hello
// took.
std::vector<std::pair<std::string, std::string>> NodesThatDiffer(
    const std::vector<ComparedNode>& nodes,
    const std::vector<v1::Difference>& differences, size_t reference,
    bool rules, bool strict = true);

// What a newcomer of a running world is compared with: the facts for which all
// members that know them have one value. Comparing takes a time that does not
// depend on the number of members. Keeps no reference to them.
class SharedFacts {
 public:
  // No fact is shared.
  SharedFacts() = default;
  // `members` must have the world's plan.
  explicit SharedFacts(const std::vector<ComparedNode>& members);

  // The first shared fact of which the newcomer has another value; nullopt:
  // there is none. `strict`: as for NodesThatDiffer. The clock is not compared
  // here either, nor a variable that the newcomer leaves to a plan, which does
  // not exist yet.
  std::optional<v1::Difference> FindDifference(const ComparedNode& newcomer,
                                               bool strict = true) const;

 private:
  struct Shared {
    std::string value;
    // Some members have it from the plan.
    bool planned = false;
    // With the members' side.
    v1::Difference difference;
  };

  std::vector<Shared> shared_;
  // The variables that members set or get from the plan.
  std::set<std::string> variables_;
  // For other variables, if all members are known not to set them.
  std::optional<Shared> unset_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_NETWORK_PLAN_COMPARISON_DIFFERENCES_H_
