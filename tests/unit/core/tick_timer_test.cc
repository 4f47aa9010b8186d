#include "daemon/core/tick_timer.h"

#include <gtest/gtest.h>

#include <optional>

#include "tests/unit/time_at.h"

namespace rollcall {
namespace {

TEST(TickTimer, ADeadlineAheadIsDueThen) {
  TickTimer timer;
  EXPECT_EQ(timer.due(), absl::InfiniteFuture());
  timer.Set(At(5), At(1));
  timer.Set(At(8), At(2));
  EXPECT_EQ(timer.due(), At(8));
  timer.Set(At(4), At(2));
  EXPECT_EQ(timer.due(), At(4));
  EXPECT_EQ(timer.Take(At(3)), std::nullopt);
  EXPECT_EQ(timer.Take(At(4.5)), absl::Milliseconds(500));
  EXPECT_EQ(timer.Take(At(9)), std::nullopt);
}

TEST(TickTimer, ADeadlineThatStaysInThePastIsDueAtIntervals) {
  TickTimer timer;
  for (int i = 0; i < 3; ++i) {
    const absl::Time now = At(7) + i * TickTimer::kPause;
    timer.Set(At(5), now);
    EXPECT_EQ(timer.Take(now), std::nullopt);
    EXPECT_EQ(timer.Take(now + TickTimer::kPause), absl::ZeroDuration());
  }
}

TEST(TickTimer, ADeadlineThatPassesBetweenTwoMessagesStaysDue) {
  TickTimer timer;
  timer.Set(At(5), At(4.999));
  EXPECT_EQ(timer.Take(At(4.999)), std::nullopt);
  timer.Set(At(5), At(5.001));
  EXPECT_EQ(timer.Take(At(5.001)), absl::Milliseconds(1));
}

TEST(TickTimer, ADeadlineThatAMessageHasMovedAheadIsNoLongerDue) {
  TickTimer timer;
  timer.Set(At(5), At(4.999));
  timer.Set(At(9), At(5.001));
  EXPECT_EQ(timer.Take(At(5.001)), std::nullopt);
  EXPECT_EQ(timer.due(), At(9));
}

TEST(TickTimer, MessagesInQuickSuccessionDoNotPutADeadlineOff) {
  TickTimer timer;
  absl::Time now = At(7);
  for (; !timer.Take(now).has_value(); now += absl::Milliseconds(1)) {
    ASSERT_LT(now, At(8));
    timer.Set(At(5), now);
  }
  EXPECT_EQ(now, At(7) + TickTimer::kPause);
}

}  // namespace
}  // namespace rollcall
