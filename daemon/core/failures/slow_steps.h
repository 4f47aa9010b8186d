// SlowSteps: whether the steps of the running world take at least twice as long
// as they used to.
//
// The time of a step is measured over spans of at least kSpan that end with a
// new step. Nodes report steps only with their heartbeats, so a span is known
// to within one interval of these. The median is that of the spans before,
// without those that were slow themselves, so a world that has become slow
// stays slow until its steps are fast again. One span alone never decides: a
// save or an evaluation makes one slow, and heartbeats may make one seem fast.
//
// A pure value; any thread. Bounded memory.
#ifndef ROLLCALL_DAEMON_CORE_FAILURES_SLOW_STEPS_H_
#define ROLLCALL_DAEMON_CORE_FAILURES_SLOW_STEPS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "absl/time/time.h"

namespace rollcall {

class SlowSteps {
 public:
  static constexpr absl::Duration kSpan = absl::Seconds(10);
  // A slow period is at least this long.
  static constexpr absl::Duration kSlowFor = absl::Minutes(1);
  // It is suspected after this time, which is longer than most saves.
  static constexpr absl::Duration kSuspectedFor = absl::Seconds(20);
  static constexpr double kFactor = 2;
  // Fewer spans have no median yet.
  static constexpr size_t kSpansMin = 6;
  static constexpr size_t kSpansMax = 60;

  // A slow period begins or ends.
  struct Change {
    bool slow;
    // The time of a step now, and the median before.
    absl::Duration step;
    absl::Duration median;
  };

  // A step that a rank of the running world has done; lower ones than before
  // are ignored, since another rank may report later.
  std::optional<Change> Take(uint64_t step, absl::Time now);

  // The slow period that goes on.
  const std::optional<Change>& slow() const { return slow_; }

  // Steps are slow, and a slow period begins if they stay so.
  bool suspected() const {
    return last_was_slow_ && !slow_.has_value() && slow_for_ >= kSuspectedFor;
  }

  // Another world runs: its steps take another time.
  void Reset() { *this = SlowSteps(); }

 private:
  std::optional<Change> TakeSpan(absl::Duration step, absl::Duration length);

  // The highest step so far, and the one that the last span ended with.
  std::optional<uint64_t> seen_;
  uint64_t since_step_ = 0;
  absl::Time since_;
  // Of the spans that were not slow, the oldest first.
  std::deque<absl::Duration> spans_;
  // Since the last two spans in succession that were not slow: the sum of the
  // slow ones, and their number.
  absl::Duration slow_for_ = absl::ZeroDuration();
  int slow_spans_ = 0;
  bool last_was_slow_ = false;
  std::optional<Change> slow_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_FAILURES_SLOW_STEPS_H_
