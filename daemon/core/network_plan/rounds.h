// Rounds: when the nodes of a job probe each other, and which nodes the latest
// round was for.
//
// Before a world is formed, a round is opened whenever the world needs one. If
// no world can be planned after it, it is repeated after a pause, a limited
// number of times: a single failed connection has many causes and ends no job.
//
// While a world runs, newcomers are probed before the world is ended for them,
// and all nodes are probed every ping_interval. Nodes may attend and leave as
// often as they like, so there is a pause between two rounds.
//
// It opens no round and evaluates none: see probing.h, and reach.h for the
// nodes that get no seat until they are reached.
//
// A pure value; any thread. It reads no clock.
#ifndef ROLLCALL_DAEMON_CORE_NETWORK_PLAN_ROUNDS_H_
#define ROLLCALL_DAEMON_CORE_NETWORK_PLAN_ROUNDS_H_

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
  // A gathering begins or has ended: its rounds so far do not count any more.
  void Reset();
  // Returns the nodes of the latest round, and forgets them.
  std::set<std::string> TakeNodes() { return std::exchange(nodes_, {}); }
  const std::set<std::string>& nodes() const { return nodes_; }
  // When the latest round was opened.
  absl::Time opened_at() const { return opened_at_; }

  // --- Before a world is formed ---

  // A round of these nodes is opened.
  void Open(std::set<std::string> nodes, absl::Time now);
  // Whether a node that attended then had part in the latest round.
  bool Covers(const std::string& node, absl::Time attended_at) const {
    return nodes_.contains(node) && attended_at <= opened_at_;
  }
  // Whether a round after which no world can be planned may be repeated.
  bool MayRepeat() const;
  // It is repeated after a pause.
  void Repeat(absl::Time now);
  // When that pause ends or ended.
  absl::Time repeat_at() const { return repeat_at_; }

  // --- While a world runs ---

  // Newcomers are probed at `at`, or when the pause is over.
  void ProbeBy(absl::Time at);
  // The latest round has ended, and is judged at `at`.
  void JudgeBy(absl::Time at) { probe_at_ = std::min(probe_at_, at); }
  // All nodes are probed after ping_interval, unless that is 0.
  void PingLater(absl::Time now, const Limits& limits);
  // When newcomers or all nodes are probed next, or a round is judged.
  absl::Time due() const { return std::min(probe_at_, ping_at_); }
  bool PingDue(absl::Time now) const { return now >= ping_at_; }
  // Nothing is due before `until`.
  void PutOff(absl::Time until);
  // When the pause after the latest round ends or ended.
  absl::Time pause_ends() const { return pause_ends_; }
  // Opens a round for these newcomers, in a job of `present` nodes; `ping`: of
  // all nodes. Returns false if it would be for none.
  bool OpenFor(std::set<std::string> newcomers, bool ping, size_t present,
               absl::Time now);
  // The round ends at `until`; InfiniteFuture: no round was needed.
  void JudgeAt(absl::Time until) { probe_at_ = until; }
  // Returns the newcomers that were not judged.
  std::set<std::string> EndWorld();

 private:
  // The nodes of the latest round of this gathering; while a world runs, the
  // newcomers of the latest round until they are judged.
  std::set<std::string> nodes_;
  absl::Time opened_at_ = absl::InfinitePast();
  // Rounds of this gathering after which no world could be planned.
  int failed_ = 0;
  absl::Time repeat_at_ = absl::InfinitePast();
  absl::Time probe_at_ = absl::InfiniteFuture();
  absl::Time pause_ends_ = absl::InfinitePast();
  absl::Time ping_at_ = absl::InfiniteFuture();
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_NETWORK_PLAN_ROUNDS_H_
