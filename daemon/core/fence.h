// Fence: whether a new world could run beside the last one.
//
// A world whose members are all out of the daemon's hearing may train on: they
// redial for daemon_grace before they stop their ranks. A next world that has a
// member of it cannot run beside it, because that member's ranks have ended
// before it is prepared, and a world does not train without one of its members.
// One that has none must wait, until one member's ranks are known to be gone or
// until a member that has not been heard must have stopped by itself.
//
// A pure value; any thread. It reads no clock.
#ifndef ROLLCALL_DAEMON_CORE_FENCE_H_
#define ROLLCALL_DAEMON_CORE_FENCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace rollcall {

// One life of a node's agent.
struct NodeLife {
  std::string node;
  uint64_t incarnation = 0;
};

class Fence {
 public:
  struct Member {
    std::string node;
    // 0: not known (a journal of an older daemon); the name decides, but for
    // which life is gone.
    uint64_t incarnation = 0;
    absl::Time heard_at;
    // What its agent calls itself since; 0: the same.
    uint64_t latest = 0;
  };

  // Nothing is waited for: no world of the run was committed yet.
  Fence() = default;
  // Of a world that has ended. `members`: those whose ranks may still run,
  // without those whose ranks had all exited 0 or are not started (--once): the
  // others go on without them.
  Fence(uint64_t generation, std::vector<Member> members);

  // The agent attends with a new incarnation (Hello.previous_incarnation).
  void GoesOn(const NodeLife& from, uint64_t incarnation);
  // The ranks of this life are known to be gone. Returns whether this opened
  // it.
  bool Gone(const NodeLife& life);
  // The ranks of whatever life of the node was a member are known to be gone.
  bool Gone(const std::string& node);

  // Whether the life is a member's.
  bool Has(const NodeLife& life) const;
  // Whether any life of the node is.
  bool HasNode(const std::string& node) const;
  // Whether no world has to wait.
  bool open() const { return members_.empty(); }
  // When any world may be formed: `unheard` after the member that was heard
  // first of all was heard; InfinitePast where nothing is waited for.
  absl::Time Opens(absl::Duration unheard) const;

  uint64_t generation() const { return generation_; }
  // In the order of their node ranks.
  const std::vector<Member>& members() const { return members_; }

 private:
  uint64_t generation_ = 0;
  // Empty: one of them is gone, or there was no world.
  std::vector<Member> members_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_FENCE_H_
