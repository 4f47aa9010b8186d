// NodeCheck: the check of nodes before they get a seat (--node-check).
//
// In the first round, neighbours form groups of two (of an odd number, the last
// three form one). Each node computes a fixed amount of matrix products, then
// the nodes of the group run an all-reduce. If the round found a node that
// failed or is slow, or if a node has no result, a second round pairs the
// fastest nodes with the slowest ones. A node that was found in both rounds is
// faulty or a straggler.
//
// A slow all-reduce, and an error that a node reports of another node, are
// properties of a pair. They count against a node only with different partners
// in the two rounds, and not if the partner itself was found to be slow or to
// fail. A node that itself failed and was not asked in the other round, because
// the first node of its group failed before, counts as faulty.
//
// A node that has passed, or that has been in a world, is not checked again. It
// is the partner of a single new node, and its time counts for the median.
//
// While a world runs, its spares are checked alone: a node computes the
// products only, twice if it failed or was slow. So a node whose check hangs is
// found while no rank waits for it. While the ranks of an earlier world wait,
// there is one round if the new nodes are not needed, and a node that it finds
// is checked again later.
//
// It sends nothing and excludes no node: it returns requests to send and a
// verdict that Job applies.
//
// Invariants:
//   1. An answer counts only from a node that was asked in the current round,
//      and only once.
//   2. Round numbers only grow.
//
// Pure: randomness comes from the function that is passed in. Thread rule: one
// thread at a time. It reads no clock.
#ifndef ROLLCALL_DAEMON_CORE_NODE_CHECK_NODE_CHECK_H_
#define ROLLCALL_DAEMON_CORE_NODE_CHECK_NODE_CHECK_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "daemon/core/limits.h"
#include "rollcall/v1/checks.pb.h"

namespace rollcall {

// A node that is about to get a seat.
struct NodeToCheck {
  std::string node;
  // At which its peers reach it.
  std::string address;
  // It is not checked again, in this way.
  bool checked = false;
  // The time of its products in its last check; nullopt: not known.
  std::optional<absl::Duration> product = std::nullopt;
  // It is never left out.
  bool launcher = false;
};

struct NodeCheckVerdict {
  struct Passed {
    std::string node;
    std::optional<absl::Duration> product;
  };
  struct Finding {
    std::string node;
    // What was found in each round, with the numbers.
    std::string text;
    // Empty: the node is left out. Otherwise why it takes part nevertheless.
    std::string stays;
    // It is left out of this world only: it was found in one round of pairs, so
    // another node may be the cause.
    bool again = false;
  };

  int rounds = 0;
  // The medians of the last round; nullopt: no node has a time.
  std::optional<absl::Duration> product;
  std::optional<absl::Duration> all_reduce;
  // All nodes that were checked, also those that were found, and those that
  // have no result because others of their groups failed in both rounds.
  std::vector<Passed> checked;
  // Failed nodes first, then the slowest.
  std::vector<Finding> findings;
};

class NodeCheck {
 public:
  // Returns Limits::probe_bytes bytes that cannot be guessed outside the
  // daemon. Equal arguments give equal bytes.
  using Draw =
      std::function<std::string(uint64_t round, const std::string& word)>;
  // Which node to send which request.
  using Requests = std::vector<std::pair<std::string, v1::GroupCheck>>;

  // A node is slow from this multiple of the median. A node that has half of
  // the CPU is twice as slow on average, so the bound is below that.
  static constexpr double kSlowFactor = 1.8;

  enum class Way {
    kPairs,
    kPairsOnce,  // One round only.
    kAlone,
  };

  // Unset: no node is checked.
  void UseKey(Draw draw) { draw_ = std::move(draw); }

  // A gathering begins, with the whole time for checks. Ends a check that is
  // under way without a verdict.
  void Begin() {
    round_at_ = -1;
    over_ = false;
    used_ = absl::ZeroDuration();
  }
  // The checks of this gathering have taken so long that none may begin.
  bool exhausted() const { return used_ >= Limits::node_check_total; }

  // Begins a check of those of `nodes` that are not checked yet; they are in
  // the order of their places in the network. If nothing can be checked, no
  // check is under way after the call. Requires that none is under way before.
  Requests Open(const std::vector<NodeToCheck>& nodes, Way way, absl::Time now);
  bool under_way() const { return round_at_ >= 0; }
  // The check that is under way, or whose verdict was not taken yet, is kAlone.
  bool alone() const { return way_ == Way::kAlone; }

  // A spare may not have been checked alone yet.
  void NoteSpare() { spares_ = true; }
  // Whether NoteSpare was called since the last call.
  bool TakeSpares() { return std::exchange(spares_, false); }
  // When to call Advance at the latest; InfiniteFuture: no check is under way.
  absl::Time until() const {
    return under_way() ? until_ : absl::InfiniteFuture();
  }
  // The first node of a group listens. Returns the requests to the others.
  Requests TakeListening(const std::string& node,
                         const v1::GroupListening& listening, absl::Time now);
  // Whether the node was asked in this round and has not answered.
  bool Awaits(const std::string& node) const {
    return Awaited(node, number_).has_value();
  }
  // The nodes that were asked in this round and have not answered.
  std::vector<std::string> AwaitedNodes() const;
  // Returns whether the answer counts. If the node itself has failed, its group
  // is not waited for any longer.
  bool TakeChecked(const std::string& node, const v1::GroupChecked& checked);
  // The node has gone, or its stream broke and its agent has ended the round.
  void Gone(const std::string& node);
  // Ends the round if all nodes have answered or its time is over. Returns the
  // requests of the second round.
  Requests Advance(absl::Time now);
  // The verdict of a check that is over; nullopt: there is none. It is returned
  // once. `spare`: how many nodes may be left out.
  std::optional<NodeCheckVerdict> TakeVerdict(size_t spare);
  // Ends the check without a verdict.
  void Stop() { round_at_ = -1; }

  // For waiting nodes: why no world is formed; empty: not because of a check.
  std::string WaitingText() const;

 private:
  // With fewer times there is no median that could tell which node is slow.
  static constexpr size_t kTimesMin = 3;

  enum class State {
    kNone,     // Not asked, or the round has no result of this node.
    kAwaited,  // Asked.
    kOk,
    kFailed,      // The node itself.
    kPeerFailed,  // It reported another node of its group.
  };
  struct Result {
    State state = State::kNone;
    absl::Duration product;
    absl::Duration all_reduce;
    std::string error;
    int group = -1;
    // Set when the round has ended: the node itself was found, or its pair.
    bool own = false;
    bool shared = false;
  };
  struct Member {
    NodeToCheck node;
    bool gone = false;
    std::array<Result, 2> rounds;
  };
  struct Group {
    std::vector<size_t> members;
    bool listening = false;
  };

  Result& Now(size_t member) { return members_[member].rounds[round_at_]; }
  const Result& Now(size_t member) const {
    return members_[member].rounds[round_at_];
  }
  // The node, if it was asked in this round and has not answered.
  std::optional<size_t> Awaited(const std::string& node, uint64_t round) const;
  void Await(size_t member);
  void Answered(size_t member, State state);
  // The other members of its group.
  std::vector<size_t> PartnersOf(size_t member, size_t round) const;
  Requests BeginRound(std::vector<std::vector<size_t>> groups, absl::Time now);
  v1::GroupCheck RequestFor(const Group& group, size_t place,
                            absl::Duration limit) const;
  std::vector<std::vector<size_t>> SecondGroups() const;
  std::vector<std::vector<size_t>> FoundAlone() const;
  bool ShareFirstGroup(size_t a, size_t b) const;
  void ShareTimes();
  void JudgeRound();
  std::vector<NodeCheckVerdict::Finding> Findings(size_t spare) const;
  bool IsFound(size_t member) const;
  std::string TextOf(size_t member) const;
  std::string TextOf(size_t member, size_t round) const;

  Draw draw_;
  uint64_t number_ = 0;
  absl::Time began_;
  absl::Duration used_;
  // Index of the round under way; -1: none.
  int round_at_ = -1;
  Way way_ = Way::kPairs;
  bool over_ = false;  // The verdict has not been taken yet.
  bool spares_ = false;
  absl::Time until_;
  // New nodes first, then the checked ones that may be partners.
  std::vector<Member> members_;
  size_t new_ = 0;
  std::map<std::string, size_t> index_;  // Into members_, by name.
  size_t awaited_ = 0;                   // Members in State::kAwaited.
  std::array<std::vector<Group>, 2> groups_;
  // Of the rounds that have ended.
  std::array<std::optional<absl::Duration>, 2> products_;
  std::array<std::optional<absl::Duration>, 2> all_reduces_;
  int rounds_ = 0;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_NODE_CHECK_NODE_CHECK_H_
