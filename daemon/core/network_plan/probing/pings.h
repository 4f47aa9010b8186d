// Pings: the latest probes between the nodes of a world, for `status --pings`.
//
// Pure; for display only.
#ifndef ROLLCALL_DAEMON_CORE_NETWORK_PLAN_PROBING_PINGS_H_
#define ROLLCALL_DAEMON_CORE_NETWORK_PLAN_PROBING_PINGS_H_

#include "absl/time/time.h"
#include "daemon/core/network_plan/probing/probing.h"
#include "rollcall/v1/admin.pb.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// The result of each member's probe of each other member, at the address that
// the world has for it. At most Limits::pings_shown_max entries: pairs that did
// not connect first, then the slowest.
v1::Pings PingsOf(const v1::World& world, const Probing& probing,
                  absl::Time now);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_NETWORK_PLAN_PROBING_PINGS_H_
