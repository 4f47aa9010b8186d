// StepTrack: the steps of a job, from the states that were received: the speed,
// the remaining time, the losses, and the nodes that have not moved for long.
//
// Pure: the time is an argument. The memory is bounded, with one entry per node
// of the latest state. Thread rule: one thread.
#ifndef ROLLCALL_CLIENT_ADMIN_STEP_TRACK_H_
#define ROLLCALL_CLIENT_ADMIN_STEP_TRACK_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "rollcall/v1/admin.pb.h"

namespace rollcall {

class StepTrack {
 public:
  void Heard(const v1::JobStatus& status, absl::Time now);

  // The time that the remaining steps take at the speed of the last half
  // minute; infinite: not known, or no step is being made.
  absl::Duration Left(absl::Time now) const;

  // For how long the running world has made no step; zero: for less than some
  // seconds, or no step was ever published.
  absl::Duration Stalled(absl::Time now) const;

  // The names of the running nodes whose own step has not changed for some
  // seconds while the job's step has. Nodes that publish no steps are not
  // judged.
  std::vector<std::string> Behind(absl::Time now) const;

  // The losses since the first state, the oldest first. The more losses were
  // reported, the more of them one entry stands for.
  const std::vector<double>& losses() const { return losses_; }

 private:
  struct Moved {
    uint64_t step = 0;
    absl::Time at;
  };

  void TakeStep(const v1::JobStatus& status, absl::Time now);
  void TakeNodes(const v1::JobStatus& status, absl::Time now);
  void TakeLoss(double loss);

  uint64_t generation_ = 0;
  bool running_ = false;
  uint64_t steps_ = 0;
  // The job's steps of the last half minute, the oldest first.
  std::deque<Moved> moves_;
  // The time of the running world's last step.
  absl::Time moved_at_ = absl::InfiniteFuture();
  // The running nodes that publish steps.
  std::map<std::string, Moved> nodes_;
  std::vector<double> losses_;
  // The number of reported losses that one entry stands for, and the number
  // left out since the last entry.
  size_t stride_ = 1;
  size_t skipped_ = 0;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_ADMIN_STEP_TRACK_H_
