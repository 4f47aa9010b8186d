// FactChanges: what has changed lately at one node.
//
// It keeps the latest changes, and only counts those that come faster than an
// agent may send them. It decides nothing: `status` shows the changes, and a
// root cause of the node has them in its text.
//
// Invariant: at most Limits::fact_changes_per_node are kept.
//
// A value; it reads no clock.
#ifndef ROLLCALL_DAEMON_CORE_MEMBERSHIP_FACT_CHANGES_H_
#define ROLLCALL_DAEMON_CORE_MEMBERSHIP_FACT_CHANGES_H_

#include <cstdint>
#include <deque>
#include <string>

#include "absl/time/time.h"
#include "daemon/core/limits.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class FactChanges {
 public:
  struct Kept {
    v1::FactChange change;
    absl::Time at;
  };

  // Returns whether the change was kept.
  bool Take(const v1::FactChange& change, absl::Time now);

  // Oldest first.
  const std::deque<Kept>& latest() const { return latest_; }
  // How many were not kept because they came too fast.
  uint64_t dropped() const { return dropped_; }

  // The changes of the last fact_changes_window, latest first, at most three:
  // "interface eth1: up -> down 3 s before", or "... 1 s after". The first Xid
  // is one of them, since it is usually the cause of those that follow. Empty:
  // there were none.
  std::string TextAround(absl::Time failure) const;

 private:
  std::deque<Kept> latest_;
  uint64_t dropped_ = 0;
  // How many may be taken at `since_`; one more in each fact_changes_between.
  uint32_t left_ = Limits::fact_changes_burst;
  absl::Time since_ = absl::InfinitePast();
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_MEMBERSHIP_FACT_CHANGES_H_
