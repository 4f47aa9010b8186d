// JobHistory: the steps and the last generations of a job since a viewer began
// to watch it.
//
// A daemon reports only the latest generation, so what happened before the
// first state is not known.
//
// Pure: the time comes in. Bounded memory. Thread rule: one thread.
#ifndef ROLLCALL_CLIENT_ADMIN_JOB_HISTORY_H_
#define ROLLCALL_CLIENT_ADMIN_JOB_HISTORY_H_

#include <cstdint>
#include <deque>
#include <string>

#include "absl/time/time.h"
#include "client/admin/step_track.h"
#include "rollcall/v1/admin.pb.h"

namespace rollcall {

class JobHistory {
 public:
  struct Generation {
    uint64_t number = 0;
    // Why it was formed.
    std::string reason;
    absl::Time began;
    // The generation was already running in the first state, so it began
    // earlier.
    bool older = false;
    absl::Time ended = absl::InfiniteFuture();
  };

  void Heard(const v1::JobStatus& status, absl::Time now);

  const StepTrack& steps() const { return steps_; }
  // The generations that ran, the oldest first.
  const std::deque<Generation>& generations() const { return generations_; }

 private:
  StepTrack steps_;
  std::deque<Generation> generations_;
  bool first_ = true;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_ADMIN_JOB_HISTORY_H_
