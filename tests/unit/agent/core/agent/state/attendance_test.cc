// When an agent attends, and when its heartbeats are due: a table.
#include "client/agent/core/agent/state/attendance.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/unit/time_at.h"

namespace rollcall {
namespace {

// "down", "dialing", or the second of the next heartbeat.
std::string AttendanceText(const Attendance& attendance) {
  if (attendance.welcomed()) {
    return absl::StrCat(
        absl::ToDoubleSeconds(attendance.heartbeat_due() - At(0)));
  }
  EXPECT_EQ(attendance.heartbeat_due(), absl::InfiniteFuture());
  return attendance.down() ? "down" : "dialing";
}

std::function<bool(Attendance&, double)> WelcomedFor(double interval_s) {
  return [=](Attendance& attendance, double at) {
    return attendance.Welcome(absl::Seconds(interval_s), At(at));
  };
}

TEST(Attendance, Table) {
  const auto dial = [](Attendance& attendance, double) {
    attendance.Dial();
    return true;
  };
  const auto end = [](Attendance& attendance, double) {
    return attendance.End();
  };
  const auto beat = [](Attendance& attendance, double at) {
    return attendance.TakeHeartbeat(At(at));
  };
  const struct {
    double at;
    std::function<bool(Attendance&, double)> event;
    bool answer;
    std::string expect;
  } kRows[] = {
      {0, beat, false, "down"},
      {0, dial, true, "dialing"},
      {1, beat, false, "dialing"},
      {1, end, false, "down"},
      {2, dial, true, "dialing"},
      {3, WelcomedFor(2), true, "5"},
      {4, WelcomedFor(9), false, "5"},  // A second Welcome changes nothing.
      {4.5, beat, false, "5"},
      {5, beat, true, "7"},
      {5, beat, false, "7"},
      {20, beat, true, "22"},  // Delayed ones are not made up for.
      {20, beat, false, "22"},
      {21, end, true, "down"},
      {30, beat, false, "down"},
      {30, dial, true, "dialing"},
      {31, WelcomedFor(0), true, "31.01"},  // Never without a pause.
  };
  Attendance attendance;
  for (const auto& row : kRows) {
    SCOPED_TRACE(absl::StrCat("at ", row.at, ", then ", row.expect));
    EXPECT_EQ(row.event(attendance, row.at), row.answer);
    EXPECT_EQ(AttendanceText(attendance), row.expect);
  }
}

}  // namespace
}  // namespace rollcall
