// Probes: what the nodes of a job have found out about each other's addresses,
// when they probe again, and which nodes get no seat until then.
//
// It combines Probing (the results), Rounds (the times) and Reach (the nodes
// that were not reached). It sends nothing and excludes no node: it returns the
// requests to send, and Job asks it for each node whether it may have a seat.
//
// In all methods, `running` says whether a world runs, and `limits` are those
// of the job.
//
// A value. Thread rule: one thread at a time; in practice the loop thread only.
// It reads no clock.
#ifndef ROLLCALL_DAEMON_CORE_NETWORK_PLAN_PROBES_H_
#define ROLLCALL_DAEMON_CORE_NETWORK_PLAN_PROBES_H_

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "daemon/core/limits.h"
#include "daemon/core/membership/membership.h"
#include "daemon/core/network_plan/network_plan.h"
#include "daemon/core/network_plan/probing.h"
#include "daemon/core/network_plan/reach.h"
#include "daemon/core/network_plan/rounds.h"
#include "daemon/core/ranking.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class Probes {
 public:
  // --- Rounds ---------------------------------------------------------------

  // A gathering begins or has ended: its rounds so far do not count any more.
  void Reset() { rounds_.Reset(); }
  // The job becomes another run, with other nodes.
  void Clear();

  // Draws the secrets of rounds. Unset: no node is probed.
  void UseKey(Probing::Draw draw) { draw_ = std::move(draw); }

  struct Round {
    // Nodes are waited for.
    bool open = false;
    // The new round's request to each node; empty: no round was needed.
    std::vector<std::pair<std::string, v1::Probe>> asked;
  };
  // Opens a round of these nodes if they must be probed before they share a
  // world, or if all pairs are to be probed again.
  Round Open(const std::vector<PlanNode>& nodes, Probing::Pairs which,
             bool gathering, const Membership& membership, absl::Time now,
             const Limits& limits);
  // A node's report. Returns whether it answers the latest request to this
  // node; false: it was not asked, or the report is of an earlier round.
  bool Take(Node& node, const v1::Probed& probed, bool running,
            const Membership& membership, absl::Time now, const Limits& limits);
  // See Probing::Of.
  const std::map<std::string, ProbeReport>* Of(const std::string& node) const {
    return probing_.Of(node);
  }
  const Probing& results() const { return probing_; }

  // No world is formed meanwhile: a round is open, or the pause before it is
  // repeated is not over.
  bool UnderWay(absl::Time now) const {
    return probing_.Open(now) || now < rounds_.repeat_at();
  }
  // Until when, if it is under way.
  absl::Time UnderWayUntil(absl::Time now) const {
    return probing_.Open(now) ? probing_.until() : rounds_.repeat_at();
  }
  // No world can be planned with these nodes. Discards their results so that
  // they are probed once more; false: that was done often enough, or there are
  // no results. `needed`: nodes that a world needs; 0: no world has run, and
  // newcomers are worth more tries.
  bool MayRepeat(const std::vector<std::string>& nodes, size_t needed,
                 const Membership& membership, absl::Time now);

  // --- Nodes that get no seat yet -------------------------------------------

  // It has not answered within its round, and gets no seat until it does.
  bool IsSilent(const std::string& name, absl::Time now) const {
    return probing_.IsSilent(name, now);
  }
  // How many nodes are eligible and not silent. Nodes that were not reached are
  // counted: they may have a seat if too few others are present.
  size_t Able(const Membership& membership, absl::Time now) const;
  // Until when the node gets no seat; see Reach::HeldUntil.
  absl::Time HeldUntil(const std::string& name) const {
    return reach_.HeldUntil(name);
  }
  // It has a seat, or gets no seat for another reason.
  void Forget(const std::string& name) { reach_.Forget(name); }
  // See Reach::Gone.
  void Gone(const std::string& name, absl::Time now) { reach_.Gone(name, now); }
  // It was not reached: it is probed again at `until`, or when all of
  // `partners` have gone.
  void Unreached(const std::string& name, absl::Time until,
                 std::set<std::string> partners = {}) {
    reach_.Unreached(name, until, std::move(partners));
  }
  // As Unreached, after unreached_delay. No effect on an excluded node.
  void Hold(const Node& node, const Membership& membership, absl::Time now,
            const Limits& limits);
  // Returns the nodes whose delay is over, each once, and discards their
  // results. While a world runs, they are probed now, and get no seat until
  // they are reached; otherwise they may have a seat, and the next world probes
  // them. `sooner`: how much earlier each delay ends.
  std::vector<std::string> Expire(absl::Duration sooner, bool running,
                                  absl::Time now);
  absl::Time NextExpiry() const { return reach_.NextDue(); }
  // Nodes that were not in the latest round would need another one, and could
  // delay a world for as long as nodes keep attending. So they are taken in
  // afterwards, if there are at least `needed` nodes without them.
  std::vector<Candidate> WithoutLatecomers(std::vector<Candidate> candidates,
                                           size_t needed,
                                           const Membership& membership) const;
  // For waiting nodes: why no world is formed. Empty: not because of a round.
  std::string WaitingText() const;

  // --- Changes of a node ----------------------------------------------------

  // Whether its request was sent and not answered yet.
  bool Awaits(const std::string& name) const { return probing_.Awaits(name); }
  // Its stream broke: the request or the report may be lost with it.
  void StreamBroke(const Node& node, bool running, const Membership& membership,
                   absl::Time now, const Limits& limits);
  // It has other addresses: results for the former ones do not count.
  void Moved(const Node& node, bool running, const Membership& membership,
             absl::Time now, const Limits& limits);

  // --- While a world runs ---------------------------------------------------

  // All nodes of the world are probed again after ping_interval.
  void PingLater(absl::Time now, const Limits& limits) {
    rounds_.PingLater(now, limits);
  }
  // A node may have a seat once others have reached it. `fills`: no further
  // node is waited for.
  void Newcomer(const std::string& name, bool fills, absl::Time now,
                const Limits& limits);
  // When to call MayOpen; InfiniteFuture: never.
  absl::Time due() const { return rounds_.due(); }
  // Whether the latest round may be judged and the next one opened. If not,
  // due() is put off.
  bool MayOpen(const Membership& membership, absl::Time now,
               const Limits& limits);
  // The newcomers of the latest round, which has ended, and the members, for
  // JudgeNewcomers. Each round is judged once: empty afterwards. `silent`
  // gets the newcomers that have not answered.
  std::vector<Seated> TakeRound(const Membership& membership, absl::Time now,
                                std::vector<std::string>& silent);
  // Members do not reach each other: the results of these are discarded, so
  // that the next round probes them again.
  void Apart(const std::vector<std::string>& nodes);
  // The members, the nodes that may have a free seat of `places`, and the
  // newcomers that have waited longest, for the next round. Empty: none is due.
  // `leaves`: whether a node was asked to leave. Call Opened next.
  struct Next {
    std::vector<Seated> nodes;
    Probing::Pairs which = Probing::Pairs::kUnknown;
  };
  Next TakeNext(size_t places, const Membership& membership,
                const std::function<bool(const std::string&)>& leaves,
                absl::Time now, const Limits& limits);
  // Whether that round was opened; until this is said, it was not.
  void Opened(bool open);
  // The next world waits for no round that was opened while this one ran.
  void WorldEnded(const Membership& membership, absl::Time now,
                  const Limits& limits);

  // How many nodes get no seat until they are reached.
  size_t held() const { return reach_.size(); }

 private:
  Probing probing_;
  Rounds rounds_;
  Reach reach_;
  Probing::Draw draw_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_NETWORK_PLAN_PROBES_H_
