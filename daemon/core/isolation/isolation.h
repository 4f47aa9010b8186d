// Isolation: whether the nodes that are not heard are lost, or the daemon is
// cut off.
//
// One stream that breaks is its node's fault. Where streams of over a tenth of
// a world break within mass_break_window, a switch or a load balancer broke
// them: those nodes are waited for until their leases end. Where over half of a
// world is silent, the daemon takes itself to be cut off (isolated) and gives
// nobody up, until at most half are silent or daemon_grace is over.
//
// A pure value; any thread. It reads no clock.
#ifndef ROLLCALL_DAEMON_CORE_ISOLATION_ISOLATION_H_
#define ROLLCALL_DAEMON_CORE_ISOLATION_ISOLATION_H_

#include <cstddef>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "daemon/core/limits.h"

namespace rollcall {

class Isolation {
 public:
  // The stream of a member of a world of this many broke. Returns the nodes,
  // this one included, that are waited for until their leases end because of
  // it; none where few streams broke. Each node counts once a window.
  std::vector<std::string> NoteBreak(const std::string& node, size_t members,
                                     absl::Time now, const Limits& limits);

  // The daemon takes itself to be cut off, since these members are silent.
  void Begin(std::set<std::string> silent, absl::Time until);
  // A node was heard, or it is known what became of it. Returns whether it was
  // one of the silent.
  bool NoteHeard(const std::string& node) { return silent_.erase(node) > 0; }
  // Whether at most half of a world of this many is silent.
  bool FewAreSilent(size_t members) const {
    return silent_.size() * 2 <= members;
  }
  // It is over. Returns who is silent still.
  std::set<std::string> End();

  bool on() const { return on_; }
  // When daemon_grace is over; InfiniteFuture: it is not isolated.
  absl::Time until() const { return until_; }
  // The daemon itself was held up for that long.
  void PutOff(absl::Duration late) { until_ += late; }
  size_t silent() const { return silent_.size(); }

 private:
  // `told`: its node was returned by NoteBreak.
  struct Break {
    absl::Time at;
    std::string node;
    bool told = false;
  };

  // Those within the last window, each node once, the oldest first;
  // Limits::nodes_max at most.
  std::deque<Break> breaks_;
  std::set<std::string> broke_;
  bool on_ = false;
  absl::Time until_ = absl::InfiniteFuture();
  std::set<std::string> silent_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_ISOLATION_ISOLATION_H_
