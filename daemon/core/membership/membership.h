// Membership: the nodes of a job, their streams, deadlines and exclusions.
//
// It keeps the entries and their indices consistent. It decides nothing about
// worlds: the functions of job/ read and change the fields of a Node, and
// decide which node is lost or excluded.
//
// Invariants:
//   1. A node with a session is in streams(), and no other node is.
//   2. Only nodes with a stream are excluded.
//   3. A suspect has no stream and is not gone.
//   4. A node in setting_up() has a stream and is no member of a world. It
//      leaves when its stream ends; the next Hello says whether its command
//      still runs.
//   5. A node is gone for good: its next incarnation starts with an empty Node.
//
// A value. Thread rule: one thread at a time; in practice the loop thread only.
// It reads no clock.
#ifndef ROLLCALL_DAEMON_CORE_MEMBERSHIP_MEMBERSHIP_H_
#define ROLLCALL_DAEMON_CORE_MEMBERSHIP_MEMBERSHIP_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "daemon/core/limits.h"
#include "daemon/core/membership/fact_changes.h"
#include "daemon/core/session_id.h"
#include "rollcall/v1/admin.pb.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

struct IssuedCredential {
  std::string bytes;  // Empty: none.
  absl::Time at = absl::InfinitePast();
};

// Which credential the node's agent has.
struct AgentCredential {
  // The agent has sent a message since its Welcome, so it has its credential.
  bool confirmed = false;
  // The agent attended with a credential, so its Welcome needs none.
  bool shown = false;
  // The latest credential that the agent was sent, and the one before it: the
  // latest may have been lost with its stream.
  IssuedCredential issued;
  IssuedCredential issued_before;
  // For a restored member: the incarnation with which its world was committed;
  // 0: not known.
  uint64_t committed_for = 0;
  // The incarnation of the credential with which the agent attended again.
  uint64_t attended_from = 0;
};

// How long the node is believed without being heard.
struct NodeLease {
  // When the node is lost unless it is heard before. Change it with
  // SetDeadline.
  absl::Time deadline = absl::InfiniteFuture();
  // When the node was last heard. For a restored node: when the wait for it
  // began.
  absl::Time heard_at = absl::InfinitePast();
  // When the lease ends, whatever happens to the node's stream.
  absl::Time until = absl::InfiniteFuture();
  // Set when the node came back with a new stream. Until this time, or until
  // its next heartbeat, it may repeat which of its ranks are stalled.
  absl::Time tells_until = absl::InfinitePast();
  // When the node's stream last broke.
  absl::Time suspect_since = absl::InfinitePast();
  // The node's stream broke together with many others, or the node has not come
  // back since the daemon was restarted. So its silence is no evidence against
  // it.
  bool broke_with_many = false;
};

// Why the node may get no seat.
struct NodeExclusion {
  bool quarantined = false;
  // It did not prepare in time.
  bool late = false;
  // Its facts differ from those of the others. This holds for the rest of this
  // incarnation.
  bool differs = false;
  // Its set-up command failed; its agent was told to exit.
  bool setup_failed = false;
  // Why it is quarantined or differs, or how its set-up failed.
  std::string why;
};

// The node's failures, and its check.
struct NodeRecord {
  // How many worlds it has refused.
  int refusals = 0;
  // The node failed its checks, whichever node is to blame.
  bool unfit = false;
  // How many failures in a row the node was to blame for.
  uint32_t blames = 0;
  // The id of the node's check request, and when the daemon stops waiting for
  // the result.
  uint64_t check = 0;
  absl::Time checked_until = absl::InfinitePast();
};

// The node's ranks.
struct NodeRanks {
  // Local ranks of the current generation that have exited 0.
  std::set<uint32_t> done;
  // How many are started in the current generation, counted from local rank 0.
  uint32_t started = 0;
  // The highest step that they have published, and its value when the running
  // world was committed. nullopt: an earlier daemon committed the world, and
  // the node has not reported a step since.
  uint64_t step = 0;
  std::optional<uint64_t> step_before;
  // The linked rank with the highest step, if a rank holds the whole state.
  std::optional<v1::RankState> state_held;
  // Set once they have linked or published a step: the longest time that a rank
  // took for that.
  std::optional<absl::Duration> start_took;
};

struct Node {
  v1::Hello hello;
  // Facts that the node sent while its world ran.
  std::optional<v1::Facts> told_facts;
  FactChanges changes;
  std::string observed_address;
  // The daemon's address to which it connected; see Attend.
  std::string arrived_at;
  // Its clock minus the daemon's; see Attend.
  std::optional<absl::Duration> clock_offset;
  AgentCredential credential;
  // 0: it has no open stream.
  SessionId session = 0;
  // When this incarnation first attended; InfinitePast: before this daemon
  // started.
  absl::Time attended_at = absl::InfinitePast();
  // When the first world with this node was committed; InfiniteFuture: none was
  // yet.
  absl::Time joined_at = absl::InfiniteFuture();
  // A world was ended to take the node in, and the next world is not formed
  // yet.
  bool called = false;
  NodeLease lease;
  v1::NodeState state = v1::NODE_STATE_ATTENDING;
  int seat = -1;
  // The node rank in the current world; -1: not a member.
  int node_rank = -1;
  bool prepared = false;
  bool stopped = false;
  NodeExclusion exclusion;
  // The latest warning about the node's network plan.
  std::string plan_warning;
  NodeRecord record;
  NodeRanks ranks;
  // The generation of the last world that ran with this node; 0: none.
  uint64_t served_in = 0;
  // The node is lost, or has left for good. The entry is kept only so that
  // messages can name the node.
  bool gone = false;
  std::string reason;

  const std::string& name() const { return hello.node(); }
  // Whether this is a member of a journaled or adopted world that has not come
  // back. Only its row of the world is known.
  bool restored() const { return hello.incarnation() == 0; }
  bool member() const { return node_rank >= 0; }
  // Whether the rank has exited 0 or was not started.
  bool over(uint32_t local_rank) const {
    return local_rank >= ranks.started || ranks.done.contains(local_rank);
  }
  // Whether all of its started ranks have exited 0. False if none was started.
  bool finished() const {
    return ranks.started > 0 && ranks.done.size() == ranks.started;
  }
  // Whether the job's end waits for none of its ranks: all started ranks, if
  // there are any, have exited 0.
  bool ended() const { return member() && ranks.done.size() == ranks.started; }
};

class Membership {
 public:
  using Nodes = std::map<std::string, Node>;

  // How many nodes may be known: nodes that are here, and gone nodes whose
  // names messages may use.
  static constexpr size_t kKnownMax =
      Limits::nodes_max + Limits::lost_names_max;

  // --- Nodes, by name -------------------------------------------------------

  Nodes& nodes() { return nodes_; }
  const Nodes& nodes() const { return nodes_; }
  // nullptr: not known. The node may be gone.
  Node* Find(const std::string& name);
  const Node* Find(const std::string& name) const;
  // Requires that the node is known.
  Node& At(const std::string& name) { return nodes_.at(name); }
  const Node& At(const std::string& name) const { return nodes_.at(name); }
  // The node's entry; a new entry if the node is not known. The caller must set
  // hello.node of a new entry before any other call for it, because the other
  // functions use that name as a key.
  Node& Add(const std::string& name) { return nodes_[name]; }
  // Whether the node is known and not gone.
  bool Has(const std::string& name) const;
  // The node is gone. Its entry stays until lost_names_max later nodes are
  // gone. If the node was gone before and came back, that is counted from the
  // first time. Returns the names whose entries were removed. The node's own
  // entry may be one of them, so do not use `node` after this call.
  std::vector<std::string> Remove(Node& node);
  void Clear() { *this = Membership(); }

  // --- Streams --------------------------------------------------------------

  // nullptr: the stream has already ended.
  Node* OfStream(SessionId session);
  bool Attends(SessionId session) const { return streams_.contains(session); }
  // The node has this stream from now on and is no suspect any more. It must
  // have no other stream: see Disconnect.
  void Connect(Node& node, SessionId session);
  // The node has no stream from now on and is not excluded any more: by the
  // time it attends again, the cause of the exclusion may be fixed.
  void Disconnect(Node& node);
  // The node's stream broke, but the node is not given up yet. It must have no
  // stream: see Disconnect.
  void Suspect(const Node& node) { suspects_.insert(node.name()); }
  size_t suspects() const { return suspects_.size(); }
  bool IsSuspect(const std::string& name) const {
    return suspects_.contains(name);
  }
  // Whether a suspect has a seat. A suspect keeps its seat until its grace is
  // over: a world without it would have to end again if the node came back a
  // moment later.
  bool HasSeatedSuspect() const;
  // Open streams, each with the name of its node.
  const std::map<SessionId, std::string>& streams() const { return streams_; }
  std::vector<SessionId> Streams() const;
  // The streams of the members of this world, in the order of their node ranks.
  std::vector<SessionId> StreamsOf(const v1::World& world) const;
  // Nodes that have a stream or may come back soon.
  size_t attached() const { return streams_.size() + suspects_.size(); }
  // Whether no member has a stream, so that no member can be asked for
  // anything.
  bool AllMembersAreAway() const;

  // --- Exclusion ------------------------------------------------------------

  // If the node has a stream, it gets no seat from now on; otherwise no effect.
  void Exclude(const Node& node);
  // Returns whether the node was excluded.
  bool Readmit(const std::string& name) { return excluded_.erase(name) > 0; }
  bool IsExcluded(const std::string& name) const {
    return excluded_.contains(name);
  }
  bool IsExcluded(const Node& node) const { return IsExcluded(node.name()); }
  // Whether the node has a stream, is not excluded and does not run its set-up
  // command.
  bool IsEligible(const Node& node) const {
    return node.session != 0 && !IsExcluded(node) && !IsSettingUp(node);
  }
  const std::set<std::string>& excluded() const { return excluded_; }
  // How many nodes are eligible.
  size_t present() const;

  // --- Set-up commands (--setup) --------------------------------------------

  // The node, which has a stream and is no member, runs its set-up command.
  void BeginSetup(const Node& node) { setting_up_.insert(node.name()); }
  // Returns whether the node ran it.
  bool EndSetup(const Node& node) { return setting_up_.erase(node.name()) > 0; }
  bool IsSettingUp(const Node& node) const {
    return setting_up_.contains(node.name());
  }
  const std::set<std::string>& setting_up() const { return setting_up_; }

  // --- Deadlines ------------------------------------------------------------

  void SetDeadline(Node& node, absl::Time deadline);
  // Returns the node with the earliest deadline if that has come; nullptr:
  // none.
  Node* Overdue(absl::Time now);
  // InfiniteFuture: no node has a deadline.
  absl::Time NextDeadline() const;
  // The daemon itself was delayed by this time, so all leases end later.
  void PutOff(absl::Duration late);
  // No node has a deadline any more.
  void EndDeadlines();

  // --- About all nodes ------------------------------------------------------

  // The nodes of this world that are still members, in the order of their node
  // ranks.
  std::vector<Node*> MembersOf(const v1::World& world);
  std::vector<const Node*> MembersOf(const v1::World& world) const;
  // Names of absent nodes: first those that the settings expect, then lost and
  // suspect nodes. At most nodes_max minus the number of present nodes.
  std::vector<std::string> Missing(const v1::JobSettings& settings) const;

  // Checks the sizes. If `all`, also checks that the stream of every node is
  // known and that every seat is below `seats` and held by one node.
  void CheckInvariants(bool all, uint32_t seats) const;

 private:
  Nodes nodes_;
  std::map<SessionId, std::string> streams_;
  std::set<std::string> excluded_;
  std::set<std::string> setting_up_;
  std::set<std::string> suspects_;
  std::set<std::pair<absl::Time, std::string>> deadlines_;
  std::deque<std::string> gone_;  // Oldest first; may repeat a name.
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_MEMBERSHIP_MEMBERSHIP_H_
