// Rounds: when the nodes of a job probe each other, and which nodes the latest
// round was for.
//
// Before a world is formed, a round is opened whenever the world needs one. If
// no world can be planned after it, it is repeated after a pause, a limited
// number of times, because a single failed connection has many causes and must
// not end the job.
//
// While a world runs, newcomers are probed before the world is ended for them,
// and all nodes are probed every ping_interval. Nodes may attend and leave any
// number of times, so there is a pause between two rounds.
//
// Rounds only keeps the times: Probing opens and evaluates a round, and Reach
// has the nodes that get no seat until they are reached.
//
// A pure value; any thread. It reads no clock.
#ifndef ROLLCALL_DAEMON_CORE_NETWORK_PLAN_PROBING_ROUNDS_H_
#define ROLLCALL_DAEMON_CORE_NETWORK_PLAN_PROBING_ROUNDS_H_

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "daemon/core/limits.h"

namespace rollcall {

class Rounds {
 public:
  static constexpr absl::Duration kOften = absl::Seconds(5);

  // A gathering begins or has ended: its former rounds do not count any more.
  void Reset();
  // Returns the nodes of the latest round, and forgets them.
  std::set<std::string> TakeNodes() { return std::exchange(nodes_, {}); }
  const std::set<std::string>& nodes() const { return nodes_; }
  // When the latest round was opened.
  absl::Time opened_at() const { return opened_at_; }

  // --- Before a world is formed ---

  // A round for these nodes is opened.
  void Open(std::set<std::string> nodes, absl::Time now);
  // Whether the latest round included this node, which attended at
  // `attended_at`.
  bool Covers(const std::string& node, absl::Time attended_at) const {
    return nodes_.contains(node) && attended_at <= opened_at_;
  }
  // Whether the round may be repeated if no world can be planned after it.
  bool MayRepeat() const;
  // The round will be repeated after a pause.
  void Repeat(absl::Time now);
  // When that pause ends or ended.
  absl::Time repeat_at() const { return repeat_at_; }

  // --- While a world runs ---

  // Probes newcomers at `at`, but not before the pause after the latest round
  // has ended. A round that is due earlier stays due.
  void ProbeBy(absl::Time at);
  // The latest round has ended: judges it at `at`, or earlier if probe_at_ is
  // earlier.
  void JudgeBy(absl::Time at) { probe_at_ = std::min(probe_at_, at); }
  // Probes all nodes after ping_interval, unless that is 0.
  void PingLater(absl::Time now, const Limits& limits);
  // Whether to probe all nodes now and then every kOften, whatever
  // ping_interval is.
  void PingOften(bool often, absl::Time now, const Limits& limits);
  // When newcomers or all nodes are probed next, or a round is judged.
  absl::Time due() const { return std::min(probe_at_, ping_at_); }
  bool PingDue(absl::Time now) const { return now >= ping_at_; }
  // Nothing is due before `until`; a round is due then.
  void PutOff(absl::Time until);
  // When the pause after the latest round ends or ended.
  absl::Time pause_ends() const { return pause_ends_; }
  // Opens a round for these newcomers, in a job of `present` nodes; with
  // `ping`, for all nodes. Returns false if the round would be for no node.
  bool OpenFor(std::set<std::string> newcomers, bool ping, size_t present,
               absl::Time now);
  // Judges the round at `until`, when it ends; InfiniteFuture: no round was
  // needed.
  void JudgeAt(absl::Time until) { probe_at_ = until; }
  // Returns the newcomers that were not judged.
  std::set<std::string> EndWorld();

 private:
  // The nodes of the latest round of this gathering; while a world runs, the
  // newcomers of the latest round until they are judged.
  std::set<std::string> nodes_;
  absl::Time opened_at_ = absl::InfinitePast();
  // How many rounds of this gathering were followed by no possible plan.
  int failed_ = 0;
  absl::Time repeat_at_ = absl::InfinitePast();
  absl::Time probe_at_ = absl::InfiniteFuture();
  absl::Time pause_ends_ = absl::InfinitePast();
  absl::Time ping_at_ = absl::InfiniteFuture();
  bool often_ = false;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_NETWORK_PLAN_PROBING_ROUNDS_H_
