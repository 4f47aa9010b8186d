// Fence: whether a new world could run beside the last one.
//
// Even if the daemon no longer hears the members of a world, the world may
// still train: its agents redial for daemon_grace before they stop their ranks.
// A next world with one of its members cannot run beside it: that member's
// ranks end before the next world is prepared, and no world trains without one
// of its members. A next world with none of its members must wait until the
// ranks of one member are known to be gone, or until the member that was not
// heard for longest must have stopped its ranks by itself.
#ifndef ROLLCALL_DAEMON_CORE_FORMATION_FENCE_H_
#define ROLLCALL_DAEMON_CORE_FORMATION_FENCE_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "daemon/core/membership/membership.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// One incarnation of a node's agent.
struct NodeIncarnation {
  std::string node;
  uint64_t incarnation = 0;
};

class Fence {
 public:
  struct Member {
    std::string node;
    // 0: not known (a journal of an older daemon). Then only the node name is
    // compared, and Gone(NodeIncarnation) does not match.
    uint64_t incarnation = 0;
    absl::Time heard_at;
    // The agent's current incarnation; 0: the same.
    uint64_t latest = 0;
  };

  // An open fence: no world of the run was committed yet.
  Fence() = default;
  // For an ended world that was committed with this world commit. `finished`:
  // node ranks of the members whose ranks have all exited 0. If a member is no
  // longer in `membership`, or its entry was not in this world, it counts as
  // heard at `now`, the latest possible time.
  Fence(const v1::World& world, const v1::WorldCommit& world_commit,
        const std::set<uint32_t>& finished, const Membership& membership,
        absl::Time now);
  // For an ended world. `members`: the members whose ranks may still run.
  // Members whose ranks had all exited 0 or are not started (--once) must be
  // left out, because the others continue without them.
  Fence(uint64_t generation, std::vector<Member> members);

  // The agent of `from` attends with a new incarnation
  // (Hello.previous_incarnation).
  void GoesOn(const NodeIncarnation& from, uint64_t incarnation);
  // The ranks of this incarnation are known to be gone. Returns whether this
  // opened the fence.
  bool Gone(const NodeIncarnation& node_incarnation);
  // The ranks of the member on this node are known to be gone, whatever its
  // incarnation. Returns whether this opened the fence.
  bool Gone(const std::string& node);

  // Whether this is the incarnation of a member, or its agent's current one.
  bool Has(const NodeIncarnation& node_incarnation) const;
  // Whether this node's agent had ranks in the world. An incarnation is not a
  // secret. So it counts only if the agent has attended with a credential, or
  // if this daemon has seen it in the world.
  bool IsOf(const Node& node) const;
  // Whether another agent now has the name of a member. False for a restored
  // node: it is not known which agent will come back.
  bool IsTakenOver(const std::string& node, const Membership& membership) const;
  // Whether any incarnation of the node is a member.
  bool HasNode(const std::string& node) const;
  // Whether the fence is open: the next world need not wait.
  bool open() const { return members_.empty(); }
  // When any world may be formed: `unheard` after the earliest of the times at
  // which a member was last heard. InfinitePast: at once.
  absl::Time Opens(absl::Duration unheard) const;

  // Text for a person: why the next world waits, how long at most, and what to
  // do. Requires that the fence is not open.
  std::string Text(absl::Duration left, const Membership& membership) const;

  uint64_t generation() const { return generation_; }
  // In the order of their node ranks.
  const std::vector<Member>& members() const { return members_; }

 private:
  uint64_t generation_ = 0;
  // Empty (open): the ranks of one member are gone, or there was no world.
  std::vector<Member> members_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_FORMATION_FENCE_H_
