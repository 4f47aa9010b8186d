// Quarantine: the checks of nodes that were blamed, and which nodes get no seat
// because they were to blame repeatedly.
//
// Nodes are quarantined only while enough others remain: a program that fails
// everywhere is not the fault of its nodes, and the restart budget ends it.
//
// The blame of each node is in Node::blames, Node::unfit and Node::quarantined.
//
// A pure value; any thread. It reads no clock.
#ifndef ROLLCALL_DAEMON_CORE_FAILURES_QUARANTINE_H_
#define ROLLCALL_DAEMON_CORE_FAILURES_QUARANTINE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "daemon/core/limits.h"
#include "daemon/core/membership/membership.h"

namespace rollcall {

class Quarantine {
 public:
  // A node was blamed.
  void NoteBlame() { judge_ = true; }
  // The nodes to quarantine, so that at least `nodes_min` others remain. None
  // if no node was blamed since the last call. A blamed node that was not
  // quarantined because too few others would remain is judged again later.
  std::vector<Node*> ToQuarantine(Membership& membership, size_t nodes_min,
                                  const Limits& limits);
  // The quarantined nodes to release: at most `missing` (how many nodes a world
  // still needs), least-blamed nodes first. A world with them may fail again,
  // which the restart budget limits; without them no world can be formed at
  // all. Nodes that failed their checks, and nodes that were asked to leave
  // (`leaves`), are not released.
  static std::vector<Node*> ToRelease(
      Membership& membership, size_t missing,
      const std::function<bool(const Node&)>& leaves);

  // Asks this node for its checks. Returns the id of the request.
  uint64_t Ask(Node& node, absl::Time now, const Limits& limits);
  // Whether this is the result of the node's latest request; true only once.
  bool TakeResult(Node& node, uint64_t request);
  // Until when results are waited for; InfinitePast: none is outstanding.
  absl::Time PendingUntil(const Membership& membership, absl::Time now) const;
  // The node has gone.
  void Forget(Node& node);
  // All nodes have gone.
  void Clear() { checking_.clear(); }
  size_t checking() const { return checking_.size(); }

 private:
  // Nodes whose results are outstanding.
  std::set<std::string> checking_;
  // A node was blamed since ToQuarantine last judged all nodes.
  bool judge_ = false;
  uint64_t last_request_ = 0;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_FAILURES_QUARANTINE_H_
