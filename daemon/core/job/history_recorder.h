// HistoryRecorder: what a daemon has seen of one run: the latest changes of the
// job's state, and counts of the formed worlds, by reason.
//
// It decides nothing and is not journaled. After a restart of the daemon it
// begins empty, as a process's counters do.
//
// Thread rule: as for Job.
#ifndef ROLLCALL_DAEMON_CORE_JOB_HISTORY_RECORDER_H_
#define ROLLCALL_DAEMON_CORE_JOB_HISTORY_RECORDER_H_

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "rollcall/v1/admin.pb.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class HistoryRecorder {
 public:
  static constexpr int kChangesMax = 64;
  static constexpr size_t kReasonBytesMax = 200;

  // Whether Note has something to record; takes constant time.
  bool IsNew(v1::JobState state, uint64_t generation) const {
    return state != state_ || generation != generation_;
  }
  // `reform`: see Job::last_reform. `now`: the monotonic clock, to compute
  // durations. `wall_now`: the wall-clock time that is shown for the change.
  void Note(v1::JobState state, uint64_t generation, const v1::Reform& reform,
            absl::Time now, absl::Time wall_now);

  const v1::JobHistory& history() const { return history_; }

 private:
  v1::JobState state_ = v1::JOB_STATE_UNSPECIFIED;
  uint64_t generation_ = 0;
  // When the world that is being formed was first proposed.
  absl::Time forming_since_ = absl::InfinitePast();
  v1::JobHistory history_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_JOB_HISTORY_RECORDER_H_
