// Preflight: compares the nodes of each world before it is proposed.
//
// With preflight `warn`, each difference is reported once, and nodes with
// another folder of --shared get no seat. With `strict`, no node that differs
// gets one. kCompared in compared_facts.cc lists the compared
// facts; communication_variables.h says which variables are compared too.
//
// A pure value; any thread.
#ifndef ROLLCALL_DAEMON_CORE_NETWORK_PLAN_PREFLIGHT_H_
#define ROLLCALL_DAEMON_CORE_NETWORK_PLAN_PREFLIGHT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/membership/membership.h"
#include "daemon/core/network_plan/comparison/differences.h"
#include "daemon/core/network_plan/network_plan.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class Preflight {
 public:
  struct Verdict {
    // Differences that differences() did not contain before.
    std::vector<v1::Difference> fresh;
    // Nodes to exclude, each with the reason. The world without them must be
    // judged again.
    std::vector<std::pair<std::string, std::string>> excluded;
  };
  // `plan` must be the plan of these nodes, in the same order. All nodes must
  // be in `membership`.
  Verdict Judge(const std::vector<PlanNode>& nodes, const NetworkPlan& plan,
                const Membership& membership, const v1::JobSettings& settings);

  // The reason to exclude a newcomer before the running world is ended for it;
  // nullopt: there is none. What the members share is read once per world, or,
  // until all of them attend, each time.
  std::optional<std::string> JudgeNewcomer(const Node& newcomer,
                                           const Membership& membership,
                                           const v1::World& world,
                                           const v1::JobSettings& settings);

  // The differences of the world that was judged last. If that world has none
  // because the nodes that differ are excluded, the earlier ones stay: those
  // nodes still have to be fixed.
  const std::vector<v1::Difference>& differences() const {
    return differences_;
  }

 private:
  std::vector<v1::Difference> differences_;
  // Of the world with this generation.
  SharedFacts shared_;
  uint64_t shared_generation_ = 0;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_NETWORK_PLAN_PREFLIGHT_H_
