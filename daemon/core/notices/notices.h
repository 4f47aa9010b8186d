// Notices: what all ranks of the running world are asked to do (v1::Notice),
// and which nodes leave the job for good.
//
// Ranks are asked to reach a step boundary together. At the boundary a node
// leaves, newcomers are taken in, or the job ends. At most one notice is
// pending. Requests that come together make one notice, with the gravest kind
// and the earliest deadline. A notice that has changed gets a new number, and
// all members answer it again.
//
// The nodes that leave, and how the job ends at the boundary, are journaled.
// The pending notice is not: a restarted daemon asks again.
//
// A scheduler may drain a thousand nodes at once. So changes within kTogether
// are journaled once and sent as one notice. Sending one message to all nodes
// for each drained node would overload any network.
//
// It sends and journals nothing, and ends no generation: job/acts/notice_rounds
// and job/handlers/leaving do.
//
// A pure value; any thread. It reads no clock.
#ifndef ROLLCALL_DAEMON_CORE_NOTICES_NOTICES_H_
#define ROLLCALL_DAEMON_CORE_NOTICES_NOTICES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "daemon/core/limits.h"
#include "daemon/core/membership/membership.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// How long all ranks may wait for a boundary because this node leaves.
absl::Duration LeavingDeadline(const v1::Leaving& leaving,
                               const Limits& limits);

// The job's end if fewer than nodes_min nodes would be left.
v1::End RequeueEnd(const std::string& reason, uint32_t nodes_min,
                   const Limits& limits);

class Notices {
 public:
  static constexpr absl::Duration kTogether = absl::Milliseconds(100);

  // --- Which nodes leave, and how the job ends then ---

  // The node is asked to leave. Returns false if it was asked before.
  bool Leave(const std::string& node) { return leaving_.insert(node).second; }
  // What a request that a node leaves leads to.
  struct Request {
    // The node was not asked before.
    bool first = false;
    // Journal at once; see LeavingChanged.
    bool journal = false;
    enum class Then {
      kNothing,  // It was asked before, and not to be sooner than that.
      kAtOnce,   // No rank runs on the node: it leaves now.
      kAsk,      // Ask all ranks.
    };
    Then then = Then::kNothing;
  };
  // The node is asked to leave until this time, for this reason. `in_world`:
  // its ranks run. If too few nodes would be left in the world, the job ends at
  // the boundary.
  Request TakeRequest(const Node& node, bool in_world, absl::Time until,
                      const std::string& reason, const Membership& membership,
                      uint32_t nodes_min, const Limits& limits, absl::Time now);
  // Whether fewer than nodes_min nodes would be left without this one. Nodes
  // that already leave do not count.
  bool TooFewWithout(const std::string& node, const Membership& membership,
                     uint32_t nodes_min) const;
  // The node is not asked to leave any more. Returns whether it was asked.
  bool Forget(const std::string& node) { return leaving_.erase(node) > 0; }
  void ForgetAll() { leaving_.clear(); }
  bool Leaves(const std::string& node) const { return leaving_.contains(node); }
  const std::set<std::string>& leaving() const { return leaving_; }

  // All ranks are asked to end, and the job ends like this at the boundary.
  void EndThen(v1::End end) { end_then_ = std::move(end); }
  const std::optional<v1::End>& end_then() const { return end_then_; }
  // The kind of the notice that asks for these changes.
  v1::NoticeKind kind() const {
    return end_then_.has_value() ? v1::NOTICE_KIND_PREEMPT
                                 : v1::NOTICE_KIND_DRAIN;
  }

  // A node was asked to leave, or is not asked any more. Returns whether to
  // journal that at once; otherwise due() tells when.
  bool LeavingChanged(absl::Time now);
  // The record for the journal, as written now.
  v1::Notice TakeRecord(absl::Time now);
  bool unwritten() const { return unwritten_; }
  // Takes the number and the end from a journaled record; not the nodes.
  void TakeUp(const v1::Notice& record);

  // --- The pending notice ---

  // Asks all ranks. `again`: the same node has asked before. Returns whether to
  // send the notice at once; otherwise due() tells when.
  bool Ask(v1::NoticeKind kind, absl::Time until, const std::string& reason,
           bool again, absl::Time now);
  // The pending notice with a new number, to be sent to all members now.
  // Requires that a notice is pending. `missing`: node ranks and names of the
  // members whose ranks have not all ended. `is_here`: whether a node that
  // leaves is still here.
  const v1::Notice& Tell(uint64_t generation,
                         std::map<uint32_t, std::string> missing,
                         const std::function<bool(const std::string&)>& is_here,
                         absl::Time now);
  // The pending notice with the time that is left. Requires that one is
  // pending.
  v1::Notice Now(absl::Time now) const;

  // What an agent's answer to a notice means.
  enum class Answer {
    kNothing,  // Nothing is to be done now.
    // The agent's ranks wait at the boundary of the pending notice.
    kReached,
    // The agent's ranks wait at the boundary of a later notice, which an
    // earlier daemon sent: send the pending notice, whose number is now higher.
    kTell,
    // As kTell, but no notice is pending: ask all ranks.
    kAsk,
  };
  // `taken_up`: an earlier daemon committed the running world, so its ranks may
  // wait for a notice that this daemon does not know.
  Answer Seen(uint64_t notice, bool taken_up, absl::Time now);

  // A rank waits at the boundary, or has ended because of the notice. The other
  // ranks are at most a step behind, unless something is wrong with them. So
  // the boundary gets a deadline if it has none.
  void Bound(absl::Time now, const Limits& limits);
  // All ranks of the member with this node rank are at the boundary or have
  // ended. Returns whether no other member is missing.
  bool Reached(uint32_t node_rank, absl::Time now, const Limits& limits);
  // The rank was killed at the deadline.
  void Killed(uint32_t rank, const std::string& node);

  bool pending() const { return pending_.has_value(); }
  // The deadline; InfiniteFuture: none, or nothing is pending.
  absl::Time until() const {
    return pending_.has_value() ? pending_->until : absl::InfiniteFuture();
  }
  // When the boundary ends even if members are missing; InfiniteFuture: never.
  // While the daemon is isolated, it aborts no member because of a deadline,
  // except to end the job.
  absl::Time BoundaryEnds(bool isolated) const;

  // What happens at the boundary.
  struct Outcome {
    // Set if the job ends. Otherwise the next generation is formed, and `code`,
    // `reason` and `node` give the reason.
    std::optional<v1::End> end;
    v1::ReasonCode code = v1::REASON_CODE_UNSPECIFIED;
    std::string reason;
    std::string node;  // May be empty.
  };
  // Requires that a notice is pending.
  Outcome AtBoundary() const;

  // The generation has ended. Records that are due stay due.
  void Drop() { pending_.reset(); }
  // The job has ended: nothing is journaled or sent any more.
  void DropAll();

  // --- When to journal and tell ---

  struct Due {
    bool journal = false;
    bool tell = false;
  };
  // What is due now.
  Due TakeDue(absl::Time now);
  // When something is due; InfiniteFuture: nothing is.
  absl::Time due() const { return due_; }

 private:
  struct Pending {
    v1::Notice notice;
    absl::Time until = absl::InfiniteFuture();
    absl::Time told = absl::InfinitePast();
    // The notice has changed since it was last sent.
    bool untold = false;
    // Members that have not reached the boundary: node rank and name.
    std::map<uint32_t, std::string> missing;
    // Ranks that were killed at the deadline, and their nodes.
    std::map<uint32_t, std::string> killed;
  };

  bool TellSoon(absl::Time now);
  std::string KilledText() const;

  std::set<std::string> leaving_;
  std::optional<v1::End> end_then_;
  std::optional<Pending> pending_;
  // The highest number of a notice that was sent.
  uint64_t last_ = 0;
  // Whether leaving_ has changed since written_, when it was last journaled.
  bool unwritten_ = false;
  absl::Time written_ = absl::InfinitePast();
  absl::Time due_ = absl::InfiniteFuture();
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_NOTICES_NOTICES_H_
