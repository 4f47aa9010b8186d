// How long a gathering waits for set-up commands: a table.
#include "daemon/core/formation/setup_wait.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/time_at.h"

namespace rollcall {
namespace {

TEST(SetupWait, Table) {
  // setup_wait() is 600 s + 15 s + 5 s.
  const Limits limits;
  ASSERT_EQ(limits.setup_wait(), absl::Seconds(620));
  struct Step {
    double at;
    bool some;
    double waited;
    bool on;
    double until;  // If it is on.
  };
  const struct {
    const char* name;
    std::vector<Step> steps;
  } kRows[] = {
      {"no node is set up", {{0, false, 0, false, 0}, {9, false, 0, false, 0}}},
      {"a node is",
       {{5, true, 0, true, 625},
        {15, true, 10, true, 625},
        {25, false, 10, false, 0},
        {35, false, 0, false, 0}}},
      {"not for longer than the bound",
       {{5, true, 0, true, 625},
        {700, true, 620, false, 0},
        {800, true, 0, false, 0}}},
      {"all nodes together",
       {{0, true, 0, true, 620},
        {400, false, 400, false, 0},
        {500, true, 0, true, 720},
        {730, true, 220, false, 0},
        {900, true, 0, false, 0}}},
  };
  for (const auto& row : kRows) {
    SCOPED_TRACE(row.name);
    SetupWait wait;
    for (const Step& step : row.steps) {
      EXPECT_EQ(wait.Note(step.some, At(step.at), limits),
                absl::Seconds(step.waited))
          << step.at;
      EXPECT_EQ(wait.on(), step.on) << step.at;
      EXPECT_EQ(wait.until(limits),
                step.on ? At(step.until) : absl::InfinitePast())
          << step.at;
    }
  }
}

}  // namespace
}  // namespace rollcall
