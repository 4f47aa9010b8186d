// Probes: what the nodes of a job have found out about each other's addresses,
// when they probe again, and which nodes get no seat until then.
//
// It combines Probing (the results), Rounds (the times) and Reach (the nodes
// that were not reached). It sends nothing and excludes no node. It returns the
// requests to send, and Job asks it for each node whether the node may have a
// seat.
//
// In all methods, `running` means that a world runs, and `limits` are those of
// the job.
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
#include "daemon/core/network_plan/probing/probing.h"
#include "daemon/core/network_plan/probing/reach.h"
#include "daemon/core/network_plan/probing/rounds.h"
#include "daemon/core/ranking.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class Probes {
 public:
  // --- Rounds ---------------------------------------------------------------

  // A gathering begins or has ended: its former rounds do not count any more.
  void Reset() { rounds_.Reset(); }
  // The job continues another run, with other nodes.
  void Clear();

  // Sets the function that draws the secrets of rounds. Unset: no node is
  // probed.
  void UseKey(Probing::Draw draw) { draw_ = std::move(draw); }

  struct Round {
    // The round waits for reports of nodes.
    bool open = false;
    // The new round's request to each node. Empty: no new round was opened.
    std::vector<std::pair<std::string, v1::Probe>> asked;
  };
  // Opens a round for these nodes if they must be probed before they share a
  // world, or if all pairs are to be probed again.
  Round Open(const std::vector<PlanNode>& nodes, Probing::Pairs which,
             bool gathering, const Membership& membership, absl::Time now,
             const Limits& limits);
  // Takes a node's report. Returns whether it answers the latest request to
  // this node. False: the node was not asked, or the report is for an earlier
  // round.
  bool Take(Node& node, const v1::Probed& probed, bool running,
            const Membership& membership, absl::Time now, const Limits& limits);
  // See Probing::Of.
  const std::map<std::string, ProbeReport>* Of(const std::string& node) const {
    return probing_.Of(node);
  }
  const Probing& results() const { return probing_; }

  // Whether a world must wait: a round is open, or the pause before its
  // repetition is not over.
  bool UnderWay(absl::Time now) const {
    return probing_.Open(now) || now < rounds_.repeat_at();
  }
  // If UnderWay: until when.
  absl::Time UnderWayUntil(absl::Time now) const {
    return probing_.Open(now) ? probing_.until() : rounds_.repeat_at();
  }
  // For nodes with which no world can be planned. Discards their results so
  // that they are probed once more. False: that was done often enough, or there
  // are no results. `needed`: how many nodes a world needs; 0: no world has run
  // yet, so newcomers get more tries.
  bool MayRepeat(const std::vector<std::string>& nodes, size_t needed,
                 const Membership& membership, absl::Time now);

  // --- Nodes that get no seat yet -------------------------------------------

  // Whether the node has not answered within its round. It gets no seat until
  // it does.
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
  // The node has a seat, or gets none for another reason.
  void Forget(const std::string& name) { reach_.Forget(name); }
  // See Reach::Gone.
  void Gone(const std::string& name, absl::Time now) { reach_.Gone(name, now); }
  // The node was not reached. It is probed again at `until`, or when all of
  // `partners` have gone.
  void Unreached(const std::string& name, absl::Time until,
                 std::set<std::string> partners = {}) {
    reach_.Unreached(name, until, std::move(partners));
  }
  // The same as Unreached, until unreached_delay has passed. No effect on an
  // excluded node.
  void Hold(const Node& node, const Membership& membership, absl::Time now,
            const Limits& limits);
  // Returns the nodes whose delay is over, each once, and discards their
  // results. While a world runs, they are probed now and get no seat until they
  // are reached. Otherwise they may have a seat, and are probed before the next
  // world is formed. `sooner`: how much earlier than usual each delay ends.
  std::vector<std::string> Expire(absl::Duration sooner, bool running,
                                  absl::Time now);
  absl::Time NextExpiry() const { return reach_.NextDue(); }
  // The candidates that were in the latest round, if there are at least
  // `needed` of them; otherwise all candidates. Latecomers would need another
  // round, and could delay a world for as long as nodes keep attending. So they
  // are taken in later.
  std::vector<Candidate> WithoutLatecomers(std::vector<Candidate> candidates,
                                           size_t needed,
                                           const Membership& membership) const;
  // The reason, for waiting nodes, why no world is formed. Empty: not because
  // of a round.
  std::string WaitingText() const;

  // --- Changes of a node ----------------------------------------------------

  // Whether a request was sent to the node and it has not answered yet.
  bool Awaits(const std::string& name) const { return probing_.Awaits(name); }
  // The node's stream broke: the request or the report may be lost.
  void StreamBroke(const Node& node, bool running, const Membership& membership,
                   absl::Time now, const Limits& limits);
  // The node has other addresses, so results for its former ones do not count.
  void Moved(const Node& node, bool running, const Membership& membership,
             absl::Time now, const Limits& limits);

  // --- While a world runs ---------------------------------------------------

  // All nodes of the world are probed again after ping_interval.
  void PingLater(absl::Time now, const Limits& limits) {
    rounds_.PingLater(now, limits);
  }
  // See Rounds::PingOften.
  void PingOften(bool often, absl::Time now, const Limits& limits) {
    rounds_.PingOften(often, now, limits);
  }
  // The node may have a seat once others have reached it. `fills`: the job
  // waits for no further node.
  void Newcomer(const std::string& name, bool fills, absl::Time now,
                const Limits& limits);
  // When to call MayOpen; InfiniteFuture: never.
  absl::Time due() const { return rounds_.due(); }
  // Whether the latest round may be judged and the next one opened now. If not,
  // due() moves to a later time. A round waits for suspects for
  // arrivals_wait_max at most, because members may come and go.
  bool MayOpen(const Membership& membership, absl::Time now,
               const Limits& limits);
  // The daemon was isolated: from now on, suspects have their time.
  void AwaitSuspectsAgain() { waits_since_ = absl::InfiniteFuture(); }
  // The members and the newcomers of the latest round, which has ended, for
  // JudgeNewcomers. Each round is judged once, so the next call returns none.
  // `silent` gets the newcomers that have not answered.
  std::vector<Seated> TakeRound(const Membership& membership, absl::Time now,
                                std::vector<std::string>& silent);
  // Members do not reach each other. Discards the results of these members, so
  // that the next round probes them again.
  void Apart(const std::vector<std::string>& nodes);
  // The nodes for the next round: the members, the nodes that may have one of
  // `places` free seats, and the newcomers that have waited longest. Empty: no
  // round is due. `leaves`: whether a node was asked to leave. Call Opened
  // next.
  struct Next {
    std::vector<Seated> nodes;
    Probing::Pairs which = Probing::Pairs::kUnknown;
  };
  Next TakeNext(size_t places, const Membership& membership,
                const std::function<bool(const std::string&)>& leaves,
                absl::Time now, const Limits& limits);
  // Whether the round of TakeNext was opened. Until this call, it counts as not
  // opened.
  void Opened(bool open);
  // The next world does not wait for a round that was opened while this world
  // ran.
  void WorldEnded(const Membership& membership, absl::Time now,
                  const Limits& limits);

  // How many nodes get no seat because they still have to be reached.
  size_t held() const { return reach_.size(); }

 private:
  Probing probing_;
  Rounds rounds_;
  Reach reach_;
  Probing::Draw draw_;
  // Since when the next round waits for suspects.
  absl::Time waits_since_ = absl::InfiniteFuture();
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_NETWORK_PLAN_PROBES_H_
