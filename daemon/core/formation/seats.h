// Seats: which nodes may have a seat now, and when the others may.
//
// A node without a seat may be held, that is, get no seat for a time: after
// newcomers of its name were repeatedly lost soon after joining, or until
// others have reached its addresses. A node that has a seat keeps it.
//
// It reads other parts, which must not change while it is used, and changes
// nothing.
#ifndef ROLLCALL_DAEMON_CORE_FORMATION_SEATS_H_
#define ROLLCALL_DAEMON_CORE_FORMATION_SEATS_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "daemon/core/formation/arrivals.h"
#include "daemon/core/limits.h"
#include "daemon/core/membership/membership.h"
#include "daemon/core/network_plan/probes.h"
#include "daemon/core/ranking.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class Seats {
 public:
  Seats(const Membership& membership, const Newcomers& newcomers,
        const Probes& probes, absl::Time now, const Limits& limits)
      : membership_(membership),
        newcomers_(newcomers),
        probes_(probes),
        now_(now),
        limits_(limits) {}

  // Until when the node gets no seat. If that is not later than now, it may
  // have one.
  absl::Time HeldUntil(const Node& node) const;
  bool IsHeld(const Node& node) const { return now_ < HeldUntil(node); }
  // The candidates for the next world. If there are fewer than `nodes_min`,
  // held nodes are added, those that attended first before the others.
  std::vector<Candidate> Candidates(size_t nodes_min) const;

  // When the first newcomer may have a free seat of this running world, which
  // has `nodes_max` seats; InfiniteFuture: none may. `leaves`: whether a node
  // was asked to leave. Such a node is skipped, because the running world must
  // not end to take it in.
  absl::Time NewcomerDue(
      const v1::World& world, size_t nodes_max,
      const std::function<bool(const std::string&)>& leaves) const;
  // The names of the newcomers that may have a seat now.
  std::vector<std::string> NewcomersNow() const;

 private:
  // Whether the node has a stream, is not excluded and answers probes.
  bool MayHave(const Node& node) const {
    return membership_.IsEligible(node) && !probes_.IsSilent(node.name(), now_);
  }

  const Membership& membership_;
  const Newcomers& newcomers_;
  const Probes& probes_;
  const absl::Time now_;
  const Limits& limits_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_FORMATION_SEATS_H_
