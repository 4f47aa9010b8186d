// FactChangeQueue: the changed facts of this node that the daemon has not heard
// yet, oldest first.
//
// Invariants:
//   1. At most Limits::fact_changes_per_node are kept; the oldest is dropped.
//   2. A daemon of an older version, which knows no such message, gets none.
//
// Pure; one thread.
#ifndef ROLLCALL_CLIENT_AGENT_CORE_AGENT_STATE_FACT_CHANGE_QUEUE_H_
#define ROLLCALL_CLIENT_AGENT_CORE_AGENT_STATE_FACT_CHANGE_QUEUE_H_

#include <deque>
#include <utility>

#include "daemon/core/limits.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class FactChangeQueue {
 public:
  void Add(const v1::FactChange& change) {
    if (changes_.size() == Limits::fact_changes_per_node) changes_.pop_front();
    changes_.push_back(change);
  }

  // `taken`: Welcome.takes_fact_changes of the current stream.
  void Welcomed(bool taken) { taken_ = taken; }

  // Returns what to send on the current stream, and forgets it.
  std::deque<v1::FactChange> Take() {
    std::deque<v1::FactChange> changes = std::exchange(changes_, {});
    if (!taken_) changes.clear();
    return changes;
  }

 private:
  std::deque<v1::FactChange> changes_;
  bool taken_ = false;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_AGENT_STATE_FACT_CHANGE_QUEUE_H_
