// Progress: the steps that ranks publish, the last checkpoint, and whether the
// running world has completed more steps than the world before.
//
// The steps of each node are in Node::step and Node::step_before.
//
// A pure value; any thread. It reads no clock.
#ifndef ROLLCALL_DAEMON_CORE_FAILURES_PROGRESS_H_
#define ROLLCALL_DAEMON_CORE_FAILURES_PROGRESS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "daemon/core/membership/membership.h"
#include "rollcall/v1/admin.pb.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// What was recorded of the steps of a job. 0: none is known.
struct LastStep {
  // The last step and the last checkpoint, and the run that they belong to.
  std::string run;
  uint64_t step = 0;
  uint64_t saved = 0;
  // The last world whose ranks have published a step.
  std::string world_run;
  uint64_t world_generation = 0;

  bool operator==(const LastStep&) const = default;
};

class Progress {
 public:
  // The first step that an event tells; then each one that is twice as high, so
  // that a run has few of these events, and the step that a killed daemon has
  // recorded is at least half of the one that it knew.
  static constexpr uint64_t kToldMin = 64;
  // Two events about checkpoints have at least this time between them.
  static constexpr absl::Duration kSavedApart = absl::Minutes(1);

  // What was recorded before this daemon's start. It counts until a rank
  // publishes a step or a checkpoint.
  void UseLast(LastStep last);

  struct Taken {
    // The event about the step is due.
    bool reached = false;
    // Set if the ranks of the world begin below the last checkpoint, or, where
    // none is known, with less than half of the steps before.
    std::optional<v1::Resumed> below;
  };
  // This member of the running world has published `step` there, and Node::step
  // in any world. Sets Node::step_before if it is not known. nullopt: its steps
  // are not those to show.
  std::optional<Taken> TakeStep(Node& node, uint64_t step,
                                const v1::World& world,
                                const Membership& membership);
  // The node of the last TakeStep, whose step is shown, has reported the
  // checkpoint of this step; 0: none. Returns whether an event about saved() is
  // due. A checkpoint above step() is ignored.
  bool TakeSaved(uint64_t saved, absl::Time now);
  // Node rank 0 reports the pace. Returns whether the pace differs from the
  // last one: while a world makes no progress, the same pace is reported
  // repeatedly.
  bool TakePace(const v1::Pace& pace);

  // The step to show: the last world's. If node rank 0 publishes steps, only
  // its steps and checkpoints count: otherwise one wrong step of another node
  // would stay in `status` for ever.
  uint64_t step() const { return step_; }
  // The last checkpoint of the world, or else of an earlier one; 0: none is
  // known.
  uint64_t saved() const { return saved_ > 0 ? saved_ : saved_before_; }
  const std::optional<v1::Pace>& pace() const { return pace_; }
  // The last Taken::below.
  const v1::Resumed& resumed() const { return resumed_; }

 private:
  std::optional<v1::Resumed> Below(const v1::World& world, uint64_t step) const;

  // Of the last world that has published a step, generation_.
  uint64_t generation_ = 0;
  uint64_t step_ = 0;
  uint64_t saved_ = 0;
  bool by_first_ = false;  // Node rank 0 has reported them.
  // The highest step and the last checkpoint of the worlds before.
  uint64_t step_before_ = 0;
  uint64_t saved_before_ = 0;
  LastStep last_;  // Counts until there is a step.
  // The step with which the next event says how far the run is.
  uint64_t tell_step_ = kToldMin;
  uint64_t told_saved_ = 0;
  absl::Time told_saved_at_ = absl::InfinitePast();
  std::optional<v1::Pace> pace_;
  v1::Resumed resumed_;
};

// Whether most of the nodes whose ranks publish steps have published a higher
// step in the running world than before. So a single node's report neither
// refills the restart budget nor prevents a refill. At least one of these nodes
// must differ from the node whose rank fails (`failing`), or be node rank 0,
// which may publish for all.
bool HasProgressed(const Membership& membership, const Node* failing = nullptr);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_FAILURES_PROGRESS_H_
