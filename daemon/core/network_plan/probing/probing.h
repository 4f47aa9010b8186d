// Probing: what the nodes of a job have found out about each other's addresses.
//
// Nodes probe each other before they share a world and, on request, again while
// it runs. This value draws which node probes which, compares the probers'
// reports with the answers that only the targets were given, and keeps the
// results until a node has another incarnation. A round covers the pairs that
// were not probed before, or all pairs.
//
// It sends nothing, chooses no address (see network_plan.h) and excludes no
// node.
//
// Invariants:
//   1. A report counts only for a pair that was drawn, and only for the two
//      incarnations for which it was drawn.
//   2. At most one round is open.
//
// Pure: randomness comes from the function that is passed in. Thread rule: one
// thread at a time.
#ifndef ROLLCALL_DAEMON_CORE_NETWORK_PLAN_PROBING_PROBING_H_
#define ROLLCALL_DAEMON_CORE_NETWORK_PLAN_PROBING_PROBING_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "daemon/core/limits.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// A node to probe. A node with port 0 takes no part in the round.
struct ProbeNode {
  std::string node;
  uint64_t incarnation = 0;
  // Best candidates first; addresses beyond probe_addresses_max are left out.
  std::vector<std::string> addresses;
  uint32_t port = 0;
  // The one of `addresses` that no interface of the node has (network address
  // translation): a connection to it arrives at the node under another address.
  // Empty: there is none.
  std::string translated = {};
};

// The node's answer to a connection to `address`, which is one of its own
// addresses in inet_ntop's form. Empty: it does not answer.
std::string AnswerAt(const v1::Probe& probe, const std::string& address);

// What one prober found at one address.
struct ProbeFinding {
  bool reached = false;
  absl::Duration round_trip = absl::InfiniteDuration();
  // Set if the address was not reached and the prober reported why.
  std::string error;
};

// What one prober found about one target.
struct ProbeReport {
  // The prober's incarnation.
  uint64_t incarnation = 0;
  bool answered = false;
  // When the round was opened; InfinitePast if the prober has not answered.
  absl::Time at = absl::InfinitePast();
  // By the target's address; an address that is missing was not reached.
  std::map<std::string, ProbeFinding> found;
};

class Probing {
 public:
  // Returns Limits::probe_bytes (16) bytes that cannot be guessed outside the
  // daemon. Equal arguments give equal bytes.
  using Draw = std::function<std::string(uint64_t round, const std::string&)>;
  enum class Pairs {
    kUnknown,  // Pairs that were not probed yet.
    kAll,      // Also pairs that were probed before.
  };

  // Whether some pairs have to be probed before these nodes can be planned.
  bool Needed(const std::vector<ProbeNode>& nodes) const;

  // Opens a round. Forgets nodes that are not in `nodes`, and earlier
  // incarnations. The last result of a pair stays until its prober reports.
  // Returns the Probe for each node of the round, by node name. The round ends
  // after `timeout`. In a large job, all Probes and reports pass through the
  // daemon, so the round ends after the time that these take, and not before
  // `timeout` has passed since the latest report, within a bound.
  std::vector<std::pair<std::string, v1::Probe>> Begin(
      const std::vector<ProbeNode>& nodes, const Draw& draw, absl::Time now,
      absl::Duration timeout, Pairs which = Pairs::kUnknown);

  // Takes a node's report. Ignores parts that the node was not asked for in the
  // latest round. A report after the round's end counts too. After any report,
  // the node is no longer silent.
  void Take(const std::string& node, const v1::Probed& probed, absl::Time now);

  // The node has left, or its Probe may have been lost with its stream. Forgets
  // all that it found and all that was found about it.
  void Forget(const std::string& node);

  // Removes all results. Later rounds still use new secrets.
  void Clear();

  // Stops waiting for the node. For the pairs that it was asked to probe, only
  // results of earlier rounds count.
  void Excuse(const std::string& node);

  // Whether some nodes have not answered and the round's end is not reached.
  bool Open(absl::Time now) const {
    return !unanswered_.empty() && now < until_;
  }
  // When the latest round ends or ended.
  absl::Time until() const { return until_; }
  // Whether the node was asked in the latest round and has not answered yet.
  bool Awaits(const std::string& node) const {
    return unanswered_.contains(node);
  }
  // Whether the node was asked in a round that has ended, and has not answered
  // since. It stays silent during later rounds that do not ask it.
  bool IsSilent(const std::string& node, absl::Time now) const {
    return silent_.contains(node) || (Awaits(node) && !Open(now));
  }
  // The nodes of the latest round and of earlier ones that have not answered.
  std::set<std::string> Unheard() const;
  // The nodes for which IsSilent is true. Cheap while a round is open, however
  // many nodes the round waits for.
  std::set<std::string> Silent(absl::Time now) const {
    return Open(now) ? silent_ : Unheard();
  }

  // The probers that were drawn for `node`, and the report of each; null: none.
  const std::map<std::string, ProbeReport>* Of(const std::string& node) const;

 private:
  struct Target {
    uint64_t incarnation = 0;
    // The latest round in which the node was a target.
    uint64_t round = 0;
    // Address -> answer.
    std::map<std::string, std::string> answers;
    std::string translated;
    // The reports about this target, by prober; at most as many as were drawn.
    std::map<std::string, ProbeReport> by;
  };
  // Indices of prober and target in `nodes`.
  using Pair = std::pair<size_t, size_t>;

  std::set<Pair> PairsOf(const std::vector<ProbeNode>& nodes, const Draw* draw,
                         Pairs which) const;
  bool Knows(const ProbeNode& prober, const ProbeNode& target) const;
  // Whether enough nodes were drawn to probe this one, in a world of `count`
  // nodes that is too large to probe all pairs.
  bool Knows(const ProbeNode& node, size_t count) const;
  void ForgetOthers(const std::vector<ProbeNode>& nodes);
  // How long a round of `nodes` nodes may take if their probes take `timeout`.
  static absl::Duration RoundTime(absl::Duration timeout, size_t nodes);

  uint64_t round_ = 0;
  absl::Time begun_ = absl::InfinitePast();
  absl::Time until_ = absl::InfinitePast();
  absl::Time longest_until_ = absl::InfinitePast();
  absl::Duration timeout_;
  // The nodes of the latest round that have not answered, each with the targets
  // that it was asked to probe.
  std::map<std::string, std::vector<std::string>> unanswered_;
  // The nodes of earlier rounds that have not answered.
  std::set<std::string> silent_;
  std::map<std::string, Target> targets_;
  // By prober: the targets that may have a report from it. So Forget does not
  // have to look at all targets.
  std::map<std::string, std::set<std::string>> drawn_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_NETWORK_PLAN_PROBING_PROBING_H_
