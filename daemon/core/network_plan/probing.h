// Probing: what the nodes of a job found out about each other's addresses.
//
// Nodes try to reach each other before they share a world, and again while it
// runs where that was asked for. This value draws who probes whom, checks what
// probers report against the answers that only the targets were given, and
// keeps it until a node's next life. A round covers the pairs that were not
// probed before, or those as well.
//
// It sends nothing, chooses no address (see network_plan) and excludes nobody.
//
// Invariants:
//   1. A report counts only for a pair that was drawn, in the lives that it was
//      drawn for.
//   2. At most one round is open.
//
// Pure: randomness comes from the function that is passed in. Thread rule: one
// thread at a time.
#ifndef ROLLCALL_DAEMON_CORE_NETWORK_PLAN_PROBING_H_
#define ROLLCALL_DAEMON_CORE_NETWORK_PLAN_PROBING_H_

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

// A node as it can be probed. Nodes with port 0 take no part.
struct ProbeNode {
  std::string node;
  uint64_t incarnation = 0;
  // Best candidates first; those beyond probe_addresses_max are left out.
  std::vector<std::string> addresses;
  uint32_t port = 0;
  // Of `addresses`, one that none of the node's interfaces has (network address
  // translation): the node answers there as at another one. Empty: none.
  std::string translated = {};
};

// What the node answers to who has connected to this address of its; empty:
// nothing. `address` as inet_ntop writes it.
std::string AnswerAt(const v1::Probe& probe, const std::string& address);

// What one prober found of one address.
struct ProbeFinding {
  bool reached = false;
  absl::Duration round_trip = absl::InfiniteDuration();
  // Where it was not reached, and the prober said why.
  std::string error;
};

// What one prober found of one target.
struct ProbeReport {
  // The prober's life.
  uint64_t incarnation = 0;
  bool answered = false;
  // When the round was opened that it is of; of one that has not answered: no
  // time.
  absl::Time at = absl::InfinitePast();
  // By the target's addresses; one that is missing was not reached.
  std::map<std::string, ProbeFinding> found;
};

class Probing {
 public:
  // 16 bytes that nobody outside the daemon can guess, the same for the same
  // round and word: Limits::probe_bytes.
  using Draw = std::function<std::string(uint64_t round, const std::string&)>;
  enum class Pairs {
    kUnknown,  // Those that were not probed yet.
    kAll,      // Those that were probed as well.
  };

  // Whether there are pairs to probe before these nodes can be planned.
  bool Needed(const std::vector<ProbeNode>& nodes) const;

  // Opens a round. What was known of nodes that are not in `nodes`, and of
  // earlier lives, is forgotten; what was known of a pair stands until its
  // prober reports. Returns what each node of the round is asked, by node name.
  std::vector<std::pair<std::string, v1::Probe>> Begin(
      const std::vector<ProbeNode>& nodes, const Draw& draw, absl::Time now,
      absl::Duration timeout, Pairs which = Pairs::kUnknown);

  // What a node reports; what was not asked of it in the latest round is
  // ignored. Also counts after the round's end. Whatever it reports, it is not
  // silent any more.
  void Take(const std::string& node, const v1::Probed& probed);

  // The node has left, or its question may have been lost with its stream: all
  // that it found and that was found of it is forgotten.
  void Forget(const std::string& node);

  // All that is known. Later rounds have other secrets all the same.
  void Clear();

  // The node is no longer waited for: of what it was asked, only what is known
  // from earlier rounds counts.
  void Excuse(const std::string& node);

  // Some have not answered, and the round's end is not reached.
  bool Open(absl::Time now) const {
    return !unanswered_.empty() && now < until_;
  }
  // When the open round ends at the latest; may lie behind.
  absl::Time until() const { return until_; }
  // Asked in the latest round and has not answered yet.
  bool Awaits(const std::string& node) const {
    return unanswered_.contains(node);
  }
  // Asked in a round that has ended, and has said nothing since. It stays
  // silent in later rounds that do not ask it.
  bool IsSilent(const std::string& node, absl::Time now) const {
    return silent_.contains(node) || (Awaits(node) && !Open(now));
  }
  // Those of the latest round and of earlier ones that have not answered.
  std::set<std::string> Unheard() const;

  // Who was drawn to probe `node`, and what each reported; null: nobody.
  const std::map<std::string, ProbeReport>* Of(const std::string& node) const;

 private:
  struct Target {
    uint64_t incarnation = 0;
    // Of the latest round that it had part in.
    uint64_t round = 0;
    // Address -> answer.
    std::map<std::string, std::string> answers;
    std::string translated;
    // By prober. At most as many as were drawn.
    std::map<std::string, ProbeReport> by;
  };
  // Positions of prober and target in the nodes.
  using Pair = std::pair<size_t, size_t>;

  std::set<Pair> PairsOf(const std::vector<ProbeNode>& nodes, const Draw* draw,
                         Pairs which) const;
  bool Knows(const ProbeNode& prober, const ProbeNode& target) const;
  // Whether enough nodes were drawn to probe this one, of `count` nodes of
  // which not all pairs are probed.
  bool Knows(const ProbeNode& node, size_t count) const;
  void ForgetOthers(const std::vector<ProbeNode>& nodes);

  uint64_t round_ = 0;
  absl::Time begun_ = absl::InfinitePast();
  absl::Time until_ = absl::InfinitePast();
  // In the latest round, with the targets that each was asked for.
  std::map<std::string, std::vector<std::string>> unanswered_;
  // Of earlier rounds.
  std::set<std::string> silent_;
  std::map<std::string, Target> targets_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_NETWORK_PLAN_PROBING_H_
