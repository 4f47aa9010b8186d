// StepAccount: what a job knows of its training: the steps and checkpoints that
// ranks publish, their pace, slow periods with what may have caused them, and
// the peak of a rank's memory.
//
// It combines Progress, SlowSteps and SlowPaths. It sends nothing: it returns
// the lines for the log, and whether probes of the network are wanted.
//
// A value. Thread rule: one thread at a time; in practice the loop thread only.
// It reads no clock.
#ifndef ROLLCALL_DAEMON_CORE_FAILURES_STEP_ACCOUNT_H_
#define ROLLCALL_DAEMON_CORE_FAILURES_STEP_ACCOUNT_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "daemon/core/events.h"
#include "daemon/core/failures/progress.h"
#include "daemon/core/failures/slow_steps.h"
#include "daemon/core/membership/membership.h"
#include "daemon/core/network_plan/probing/probing.h"
#include "daemon/core/network_plan/probing/slow_paths.h"
#include "rollcall/v1/admin.pb.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class StepAccount {
 public:
  // See Progress::UseLast.
  void UseLast(LastStep last) { progress_.UseLast(std::move(last)); }

  // Another world has begun to run: its steps take another time. `probing`: the
  // probes of its nodes so far.
  void Begin(const v1::World& world, const Probing& probing);

  struct Taken {
    // For the log, without the job's name.
    std::vector<Log> lines;
    // Status shows something new.
    bool changed = false;
  };
  // A member of the running world reports its step, which is not 0, and its
  // checkpoint. Node::step is up to date; sets Node::step_before if it is not
  // known.
  Taken Take(Node& node, const v1::Heartbeat& heartbeat, const v1::World& world,
             const Membership& membership, absl::Time now);
  // Node rank 0 of the latest world reports its pace. Returns whether status
  // shows another one now.
  bool TakePace(const v1::Pace& pace) { return progress_.TakePace(pace); }
  // A rank of this node has ended. A peak counts only from a node that has been
  // in a world, and only if a machine can have it.
  void TakeExit(const Node& node, const v1::RankExited& exited);
  // The latest round of probes in the running world has ended.
  void TakeRound(const v1::World& world, const Probing& probing) {
    slow_paths_.Take(world, probing, probes_wanted());
  }
  // Steps are slow, so the members should probe each other often: one of their
  // paths may be the cause.
  bool probes_wanted() const { return slow_steps_.suspected(); }

  // " step=80 saved=64", for an event that may be the last one that is recorded
  // of the run; empty: no step is known.
  std::string Text() const;
  // Sets the fields of steps, pace and memory. `generation`: the current one.
  void Show(uint64_t generation, bool running, v1::JobStatus& status) const;

 private:
  std::string ChangesOfMembers(const Membership& membership,
                               absl::Time now) const;

  Progress progress_;
  SlowSteps slow_steps_;
  SlowPaths slow_paths_;
  // What had changed when the slow period was noticed.
  std::string slow_changes_;
  v1::RankMemory peak_memory_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_FAILURES_STEP_ACCOUNT_H_
