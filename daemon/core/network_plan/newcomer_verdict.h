// JudgeNewcomers: decides, after newcomers were probed, for which of them the
// running world may be ended.
//
// A newcomer counts as reached if one plan is possible with it and all members.
// If members do not reach each other, no newcomer is reached.
//
// A pure function.
#ifndef ROLLCALL_DAEMON_CORE_NETWORK_PLAN_NEWCOMER_VERDICT_H_
#define ROLLCALL_DAEMON_CORE_NETWORK_PLAN_NEWCOMER_VERDICT_H_

#include <set>
#include <string>
#include <vector>

#include "daemon/core/network_plan/network_plan.h"

namespace rollcall {

struct NewcomerVerdict {
  struct Unreached {
    std::string node;
    std::string reason;
    // See CutPartners.
    std::set<std::string> partners;
  };

  std::vector<std::string> reached;
  std::vector<Unreached> unreached;
  // If members do not reach each other: the members without which a plan may be
  // possible. The next round must probe them again.
  std::vector<std::string> apart;
};

// `nodes`: the members (PlanNode.stays) and the newcomers.
NewcomerVerdict JudgeNewcomers(std::vector<PlanNode> nodes);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_NETWORK_PLAN_NEWCOMER_VERDICT_H_
