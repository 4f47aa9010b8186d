// How the steps of a job went: its speed, its losses, and which nodes are
// behind.
#include "client/admin/step_track.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "admin_states.h"

namespace rollcall {
namespace {

TEST(StepTrack, TheTimeLeft) {
  struct Told {
    double at;
    uint64_t step;
    uint64_t generation = 1;
  };
  struct {
    const char* what;
    std::vector<Told> told;
    uint64_t steps;
    double now;
    double left;  // -1: not known.
  } const kRows[] = {
      {"ten steps a second", {{0, 10}, {2, 30}, {4, 50}}, 100, 4, 5},
      {"it shrinks between two states", {{0, 10}, {4, 50}}, 100, 6, 3},
      {"and is never negative", {{0, 10}, {4, 50}}, 100, 12, 0},
      {"no step is done", {{0, 10}, {4, 50}}, 100, 14, -1},
      {"too short to say", {{0, 10}, {1, 20}}, 100, 1, -1},
      {"one state", {{0, 10}}, 100, 60, -1},
      {"the number of steps is not known", {{0, 10}, {4, 50}}, 0, 4, -1},
      {"more steps than were announced", {{0, 10}, {4, 50}}, 40, 4, -1},
      {"only the last half minute counts",
       {{0, 0}, {1, 1000}, {40, 1010}, {50, 1020}},
       1050,
       50,
       30},
      {"steps are repeated after a restart",
       {{0, 100}, {2, 120}, {4, 90}, {8, 98}},
       100,
       8,
       1},
      {"the time between two worlds is no speed",
       {{0, 10}, {20, 20, 2}, {24, 40, 2}},
       60,
       24,
       4},
  };
  for (const auto& row : kRows) {
    StepTrack track;
    for (const Told& told : row.told) {
      track.Heard(Training(told.step, row.steps, told.generation),
                  AtSecond(told.at));
    }
    const absl::Duration left = track.Left(AtSecond(row.now));
    EXPECT_EQ(
        left == absl::InfiniteDuration() ? -1 : absl::ToDoubleSeconds(left),
        row.left)
        << row.what;
  }
}

TEST(StepTrack, ABoundedNumberOfLossesIsKept) {
  StepTrack track;
  for (uint64_t step = 1; step <= 5000; ++step) {
    v1::JobStatus status = Training(step, 5000);
    status.mutable_pace()->set_loss(static_cast<double>(step));
    track.Heard(status, AtSecond(static_cast<double>(step)));
    ASSERT_LE(track.losses().size(), 512u);
  }
  EXPECT_GT(track.losses().size(), 256u);
  EXPECT_EQ(track.losses().front(), 1);
  EXPECT_GT(track.losses().back(), 4900);
  // The same step again adds nothing.
  const size_t known = track.losses().size();
  track.Heard(Training(5000, 5000), AtSecond(6000));
  EXPECT_EQ(track.losses().size(), known);
}

// There are ten rows a second. Nodes a and b make steps, and then b stops.
TEST(StepTrack, ANodeThatDoesNotMoveIsBehind) {
  StepTrack track;
  const auto told = [&](double at, uint64_t a, uint64_t b) {
    v1::JobStatus status = Training(a, 1000);
    AddNode(status, "a", v1::NODE_STATE_RUNNING, 0).set_step(a);
    AddNode(status, "b", v1::NODE_STATE_RUNNING, 1).set_step(b);
    // Node c publishes no step.
    AddNode(status, "c", v1::NODE_STATE_RUNNING, 2);
    track.Heard(status, AtSecond(at));
  };
  told(0, 1, 1);
  told(5, 50, 50);
  told(14, 140, 50);
  EXPECT_EQ(absl::StrJoin(track.Behind(AtSecond(14)), ","), "");
  told(15, 150, 50);
  EXPECT_EQ(absl::StrJoin(track.Behind(AtSecond(15)), ","), "b");
  EXPECT_EQ(track.Stalled(AtSecond(15)), absl::ZeroDuration());
  // While no node makes a step, no node counts as behind.
  EXPECT_EQ(absl::StrJoin(track.Behind(AtSecond(26)), ","), "");
  EXPECT_EQ(track.Stalled(AtSecond(26)), absl::Seconds(11));
  told(27, 151, 51);
  EXPECT_EQ(track.Stalled(AtSecond(28)), absl::ZeroDuration());
  EXPECT_EQ(absl::StrJoin(track.Behind(AtSecond(28)), ","), "");
  // A job whose world is being formed does not count as stalled.
  v1::JobStatus forming = Training(151, 1000);
  forming.set_state(v1::JOB_STATE_FORMING);
  track.Heard(forming, AtSecond(29));
  EXPECT_EQ(track.Stalled(AtSecond(99)), absl::ZeroDuration());
}

}  // namespace
}  // namespace rollcall
