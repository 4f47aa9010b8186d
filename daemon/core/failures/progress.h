// Progress: the steps that ranks publish, and whether the running world has
// completed more of them than the world before.
//
// The steps of each node are in Node::step and Node::step_before.
//
// A pure value; any thread.
#ifndef ROLLCALL_DAEMON_CORE_FAILURES_PROGRESS_H_
#define ROLLCALL_DAEMON_CORE_FAILURES_PROGRESS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "daemon/core/membership/membership.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// The last step that ranks of a job have published, as far as it was recorded,
// and the run that it belongs to. 0: none is known.
struct LastStep {
  std::string run;
  uint64_t step = 0;

  bool operator==(const LastStep&) const = default;
};

class Progress {
 public:
  // This member of the running world has published Node::step. Sets
  // Node::step_before if it is not known. Returns whether its steps are those
  // to show.
  bool TakeStep(Node& node, const v1::World& world,
                const Membership& membership);
  // Node rank 0 reports the pace. Returns whether the pace differs from the
  // last one: while a world makes no progress, the same pace is reported
  // repeatedly.
  bool TakePace(const v1::Pace& pace);

  // The step to show. If node rank 0 publishes steps, only its steps count:
  // otherwise one wrong step of another node would stay in `status` for ever.
  uint64_t step() const { return step_; }
  const std::optional<v1::Pace>& pace() const { return pace_; }

 private:
  uint64_t step_ = 0;
  std::optional<v1::Pace> pace_;
};

// Whether most of the nodes whose ranks publish steps have published a higher
// step in the running world than before. So a single node's report neither
// refills the restart budget nor prevents a refill. At least one of these nodes
// must differ from the node whose rank fails (`failing`), or be node rank 0,
// which may publish for all.
bool HasProgressed(const Membership& membership, const Node* failing = nullptr);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_FAILURES_PROGRESS_H_
