// Vetting: what a node passes before it gets a seat, and while it waits for
// one: probes of its addresses, comparison of its facts, and --node-check.
//
// It combines Probes, Preflight and NodeCheck, and keeps what is known of each
// node's checks. It decides which nodes are probed or checked next, which are
// left out, and why. It sends nothing and excludes no node: it returns Acts,
// which CarryOutVetting (job/handlers/forming.h) carries out in their order.
//
// Invariants:
//   1. At most one check is under way.
//   2. A node that was checked, or that has been in a world, is not checked
//      again, unless a check has found it.
//
// A value. Thread rule: one thread at a time; in practice the loop thread only.
// It reads no clock.
#ifndef ROLLCALL_DAEMON_CORE_VETTING_VETTING_H_
#define ROLLCALL_DAEMON_CORE_VETTING_VETTING_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "daemon/core/events.h"
#include "daemon/core/limits.h"
#include "daemon/core/membership/membership.h"
#include "daemon/core/network_plan/network_plan.h"
#include "daemon/core/network_plan/plan_node.h"
#include "daemon/core/network_plan/preflight.h"
#include "daemon/core/network_plan/probes.h"
#include "daemon/core/node_check/node_check.h"
#include "daemon/core/ranking.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class Vetting {
 public:
  // What the decisions read.
  struct View {
    const Membership& membership;
    const v1::JobSettings& settings;
    const Limits& limits;
    absl::Time now;
    bool gathering;  // The job gathers nodes for a world.
    bool running;    // A world runs.
    bool isolated;   // See Isolation.
    // Ranks of an earlier world may wait for the next one.
    bool ranks_wait;
  };

  struct Act {
    enum class Kind {
      kSend,  // `message`.
      kSay,   // `text`, a line for the log. `node`: it causes the line.
      // Give the node no seat, with the reason `text`.
      kLeaveOut,    // It is probed again later: see Probes::Unreached.
      kDiffers,     // Until its next incarnation.
      kQuarantine,  // A check has found it.
      // Its new reason for waiting, if it has none.
      kExplain,
      // Nodes that wait while a world runs.
      kUnreached,  // Their new reason.
      kReached,
      kPassed,  // Their check.
      kGrow,    // The world may grow by nodes that have passed now.
    };
    Kind kind;
    std::string node = {};
    std::string text = {};
    Log::Level level = Log::Level::kInfo;
    v1::DaemonMessage message = {};
    std::set<std::string> partners = {};  // See Probes::Unreached.
  };

  struct Decision {
    enum class Next {
      kGoOn,
      kWait,     // For answers.
      kWithout,  // Try a world without the nodes that are left out.
    };
    Next next = Next::kGoOn;
    std::vector<Act> acts;
    bool changed = false;  // Status shows something new.
  };

  // The reason that a spare shows while it waits for its check.
  static constexpr char kCheckedAlone[] =
      "--node-check checks it before it is called in";
  // The reason of a node that gets no seat because it is silent.
  static constexpr char kSilentText[] =
      "it has not answered a probe of addresses";

  // See Probes::UseKey.
  void UseKey(const Probing::Draw& draw);

  // --- The course of the job ------------------------------------------------

  // A gathering begins; a world may have ended.
  void Gather();
  // The job continues another run, with other nodes.
  void Clear();
  // A world with this node has begun to run.
  void Joined(const std::string& name);
  // The node's stream broke. Its agent has ended its part of a check.
  void StreamBroke(const Node& node, const View& view);
  // Another incarnation has this name now, or the node's entry was removed.
  void Forget(const std::string& name) { nodes_.erase(name); }

  // --- Before a world is proposed -------------------------------------------

  // For PlanNetwork. The facts are those in `view.membership`.
  std::vector<PlanNode> PlanNodes(const std::vector<Seated>& seated,
                                  const View& view) const;
  // Opens a round of probes if one is needed.
  Decision Probe(const std::vector<PlanNode>& nodes, Probing::Pairs which,
                 const View& view);
  // No plan is possible, because of the nodes `without`: see PlanNetwork.
  // kGoOn: none is possible without them either, so the job fails.
  Decision NoPlan(const std::vector<PlanNode>& nodes,
                  const std::vector<std::string>& without,
                  const std::string& reason, const View& view);
  // Reports new differences in what all nodes should share. In a strict job,
  // nodes that differ are left out; in every job, nodes with another folder of
  // --shared.
  Decision Compare(const std::vector<PlanNode>& nodes, const NetworkPlan& plan,
                   const View& view);
  // Begins a check if one of these nodes was not checked yet.
  Decision Check(const std::vector<PlanNode>& nodes, const NetworkPlan& plan,
                 const View& view);

  // --- While a world runs ---------------------------------------------------

  // A node that would differ from the running world gets no seat.
  Decision CompareNewcomer(const Node& node, const v1::World& world,
                           const View& view);
  // Judges the latest round of probes and opens the next one. Call it if
  // Probes::MayOpen. See Probes::TakeNext.
  Decision NextRound(size_t places,
                     const std::function<bool(const std::string&)>& leaves,
                     const View& view);
  // Checks each spare by itself, so that a node whose check fails or hangs does
  // not end a world. The growth of the world waits for it.
  Decision CheckSpares(const View& view);
  // A spare may not have been checked yet.
  void NoteSpare() { check_.NoteSpare(); }
  // Whether the node has still to be checked before it gets a seat.
  bool IsUnchecked(const Node& node, const View& view) const;

  // --- Answers and time -----------------------------------------------------

  // A message of a group's check.
  Decision TakeGroupMessage(const Node& node, const v1::AgentMessage& message,
                            const View& view);
  // Begins the second round of a check, applies its verdict, or stops it if the
  // phase of the job has changed. Call it after each event.
  Decision Advance(const View& view);
  // The node's probe results are outdated. `moved`: it has other addresses. If
  // this happens repeatedly, the node is left out; otherwise it would be probed
  // each time while all others wait.
  Decision Outdated(const Node& node, bool moved, const View& view);
  // Nodes that were not reached and are probed again now, because the cause may
  // be gone.
  std::vector<std::string> TakeExpired(const View& view);
  // When to call TakeExpired.
  absl::Time NextExpiry(const View& view) const;
  // When to call Advance; InfiniteFuture: no check is under way.
  absl::Time check_until() const { return check_.until(); }
  bool checks() const { return check_.under_way(); }
  // Whether a world has to wait for answers.
  bool UnderWay(absl::Time now) const {
    return probes_.UnderWay(now) || checks();
  }
  // Whether the node was asked for something and has not answered.
  bool Awaits(const std::string& name) const {
    return probes_.Awaits(name) || check_.Awaits(name);
  }
  // The reason, for waiting nodes, why no world is formed, or which spares are
  // checked. Empty: there is none.
  std::string WaitingText(bool gathering) const;

  Probes& probes() { return probes_; }
  const Probes& probes() const { return probes_; }
  const std::vector<v1::Difference>& differences() const {
    return preflight_.differences();
  }
  // Of how many nodes something is known.
  size_t nodes() const { return nodes_.size(); }

 private:
  // Of the current incarnation of a node.
  struct Vetted {
    // It was checked together with other nodes, or a warning has said that it
    // cannot be; and what its matrix products took.
    bool checked = false;
    bool checked_alone = false;  // The same, without other nodes.
    std::optional<absl::Duration> product;
    // How often a check in one round of pairs found it.
    uint32_t found_in_pairs = 0;
    // Its check alone had no answer when the world ended.
    bool cut = false;
    // How many times its probe results became outdated since its last world.
    int outdated = 0;
  };

  Decision Begin(const std::vector<NodeToCheck>& nodes, NodeCheck::Way way,
                 absl::Time now);
  Decision LeaveCut(const std::vector<NodeToCheck>& nodes);
  Decision LeaveUnchecked(const std::vector<NodeToCheck>& nodes, size_t seated,
                          const View& view);
  void TakeVerdict(const NodeCheckVerdict& verdict, Decision& decision);
  void JudgeRound(const View& view, Decision& decision);
  absl::Duration Sooner(const View& view) const;
  const Vetted& Of(const std::string& name) const;

  Probes probes_;
  Preflight preflight_;
  NodeCheck check_;
  std::map<std::string, Vetted> nodes_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_VETTING_VETTING_H_
