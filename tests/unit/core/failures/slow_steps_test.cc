// SlowSteps: when a world's steps count as slow.
#include "daemon/core/failures/slow_steps.h"

#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "gtest/gtest.h"

namespace rollcall {
namespace {

// For `seconds`, steps take `step` seconds.
struct Phase {
  double seconds;
  double step;
};

// A heartbeat every `beat` seconds reports the last step. `slow STEP after
// MEDIAN at TIME`, `fast ...`.
std::string Told(const std::vector<Phase>& phases, double beat) {
  SlowSteps slow;
  std::string told;
  double begin = 0;
  double beat_at = beat;
  uint64_t step = 100;
  slow.Take(step, absl::UnixEpoch());
  for (const Phase& phase : phases) {
    const double end = begin + phase.seconds;
    for (; beat_at < end; beat_at += beat) {
      const auto done = static_cast<uint64_t>((beat_at - begin) / phase.step);
      const auto change =
          slow.Take(step + done, absl::UnixEpoch() + absl::Seconds(beat_at));
      if (!change.has_value()) continue;
      absl::StrAppendFormat(
          &told, "%s%s %.2g after %.2g at %.0f", told.empty() ? "" : "; ",
          change->slow ? "slow" : "fast", absl::ToDoubleSeconds(change->step),
          absl::ToDoubleSeconds(change->median), beat_at);
    }
    step += static_cast<uint64_t>(phase.seconds / phase.step);
    begin = end;
  }
  return told;
}

TEST(SlowSteps, TakeAMinuteOfStepsTwiceAsLong) {
  const struct {
    std::vector<Phase> phases;
    double beat;
    const char* expect;
  } kRows[] = {
      {{{600, 1}}, 1.67, ""},
      {{{600, 1}, {300, 2.4}}, 1.67, "slow 2.5 after 1 at 666"},
      {{{600, 1}, {300, 2.4}}, 0.2, "slow 2.4 after 1 at 674"},
      {{{600, 1}, {300, 1.6}}, 1.67, ""},
      {{{600, 4}, {300, 9.9}}, 1.67, "slow 10 after 3.9 at 670"},
      {{{600, 4}, {300, 9.9}}, 0.2, "slow 9.9 after 4 at 669"},
      {{{600, 0.01}, {300, 0.05}}, 1.67, "slow 0.05 after 0.01 at 661"},
      {{{600, 10}, {300, 25}}, 1.67, "slow 25 after 10 at 676"},
      {{{600, 40}, {300, 100}}, 1.67, "slow 1e+02 after 40 at 802"},
      {{{600, 1}, {120, 4}, {60, 1}},
       1.67,
       "slow 3.9 after 1 at 661; fast 1 after 1 at 741"},
      // Not for a minute.
      {{{600, 1}, {40, 3}, {60, 1}, {40, 3}, {60, 1}}, 1.67, ""},
      // Saves, and one that takes long.
      {{{100, 1}, {30, 30}, {100, 1}, {30, 30}, {100, 1}}, 1.67, ""},
      {{{600, 1}, {90, 90}, {100, 1}}, 1.67, ""},
      // It stays slow, however long that takes, and is told once.
      {{{100, 1}, {3000, 4}}, 1.67, "slow 3.9 after 1 at 160"},
      // Too few spans have no median.
      {{{20, 1}, {300, 3}}, 1.67, ""},
      // A gradual change is none.
      {{{600, 1}, {600, 1.5}, {600, 2.2}}, 1.67, ""},
  };
  for (const auto& row : kRows)
    EXPECT_EQ(Told(row.phases, row.beat), row.expect);
}

TEST(SlowSteps, AreSuspectedFrom20SecondsUntilAPeriodBeginsOrStepsAreFast) {
  SlowSteps slow;
  uint64_t step = 0;
  double t = 0;
  const auto spans = [&](int count, uint64_t steps) {
    std::string suspected;
    for (int i = 0; i < count; ++i) {
      slow.Take(step += steps, absl::UnixEpoch() + absl::Seconds(t += 10));
      suspected += slow.suspected() ? '+' : '-';
    }
    return suspected;
  };
  EXPECT_EQ(spans(10, 10), "----------");
  EXPECT_EQ(spans(3, 4), "-++");
  EXPECT_EQ(spans(2, 10), "--");
  EXPECT_EQ(spans(7, 4), "-++++--");
  EXPECT_TRUE(slow.slow().has_value());
}

TEST(SlowSteps, BeginsAgainInAnotherWorld) {
  SlowSteps slow;
  const auto at = [](double s) { return absl::UnixEpoch() + absl::Seconds(s); };
  double t = 0;
  for (uint64_t step = 0; step < 20; ++step) {
    EXPECT_FALSE(slow.Take(step, at(t += 6)).has_value());
  }
  EXPECT_FALSE(slow.Take(5, at(t += 300)).has_value());  // Another rank's.
  slow.Reset();
  for (uint64_t step = 5; step < 30; ++step) {
    EXPECT_FALSE(slow.Take(step, at(t += 60)).has_value());
  }
}

}  // namespace
}  // namespace rollcall
