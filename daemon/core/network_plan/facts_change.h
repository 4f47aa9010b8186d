// FactsChange: whether a node's new facts matter for the worlds that it may be
// in, and which facts have changed.
//
// A pure function.
#ifndef ROLLCALL_DAEMON_CORE_NETWORK_PLAN_FACTS_CHANGE_H_
#define ROLLCALL_DAEMON_CORE_NETWORK_PLAN_FACTS_CHANGE_H_

#include <string>

#include "rollcall/v1/membership.pb.h"

namespace rollcall {

enum class FactsChange {
  kNone,
  kPorts,      // Only InfiniBand ports.
  kAddresses,  // Facts that a probe of the node depends on.
};

// For a node that attends from `observed_address`.
FactsChange ChangeOf(const v1::Facts& before, const v1::Facts& after,
                     const std::string& observed_address);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_NETWORK_PLAN_FACTS_CHANGE_H_
