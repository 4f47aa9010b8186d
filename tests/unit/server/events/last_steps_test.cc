// LastSteps: which step of which run is known after some events.
#include "daemon/server/events/last_steps.h"

#include <string>
#include <vector>

#include "daemon/server/events/log_line.h"
#include "gtest/gtest.h"

namespace rollcall {
namespace {

struct Line {
  const char* run;
  const char* text;
};

TEST(LastSteps, WhatIsKnown) {
  const Line reached = {"r1", "event=reached generation=1 step=64"};
  const Line abort = {"r1",
                      "event=abort generation=1 code=REASON_CODE_LOST_LEASE "
                      "reason=\"x\" step=90"};
  const Line requeue = {"r1",
                        "event=end exit_code=75 code=REASON_CODE_REQUEUE "
                        "reason=\"a notice\" step=100"};
  const Line finished = {"r1",
                         "event=end exit_code=0 code=REASON_CODE_FINISHED "
                         "reason=\"all ranks exited 0\" step=100"};
  const struct {
    std::vector<Line> lines;
    LastStep expect;
  } rows[] = {
      {{}, {}},
      {{reached}, {"r1", 64, 0, "r1", 1}},
      {{reached, abort}, {"r1", 90, 0, "r1", 1}},
      {{reached, abort, requeue}, {"r1", 100, 0, "r1", 1}},
      {{reached, {"r1", "event=checkpoint generation=1 step=80 saved=70"}},
       {"r1", 80, 70, "r1", 1}},
      {{{"r1", "event=abort step=90 saved=70"}}, {"r1", 90, 70}},
      {{{"r1", "event=abort step=90 saved=-7"}}, {"r1", 90}},
      // A run that began below its checkpoint.
      {{{"r1", "event=abort step=90 saved=91"}}, {"r1", 90, 91}},
      // A run that ended before its first step.
      {{requeue,
        {"r2", "event=start nodes=1:1"},
        {"r2", "event=end exit_code=1 code=REASON_CODE_RANK_EXIT"}},
       {"r1", 100}},
      {{requeue, {"r2", "event=reached step=70"}}, {"r2", 70}},
      {{reached, finished}, {}},
      {{finished, {"r2", "event=reached step=70"}}, {"r2", 70}},
      // Other events have other steps.
      {{requeue, {"r2", "event=resumed_below generation=2 step=1 was=100"}},
       {"r1", 100, 0, "r2", 2}},
      {{requeue, {"r2", "event=run generation=2 step=7"}}, {"r1", 100}},
      // Odd lines.
      {{requeue, {"r2", "event=end step=-1"}}, {"r1", 100}},
      {{requeue, {"r2", "event=end step=1e9"}}, {"r1", 100}},
      {{requeue, {"r2", "event=end step=99999999999999999999"}}, {"r1", 100}},
      {{requeue, {"r2", "event=end step=9007199254740993"}}, {"r1", 100}},
      {{requeue, {"r2", "event=end step=0"}}, {"r1", 100}},
      {{requeue, {"", "event=end step=7"}}, {"r1", 100}},
      {{requeue, {"r2", "event=end reason=\"x step=7\""}}, {"r1", 100}},
  };
  for (const auto& row : rows) {
    LastSteps steps;
    std::string text;
    for (const Line& line : row.lines) {
      steps.Take(line.run, ParseLogLine(line.text));
      text += std::string(line.text) + "\n";
    }
    EXPECT_EQ(steps.last().run, row.expect.run) << text;
    EXPECT_EQ(steps.last().step, row.expect.step) << text;
    EXPECT_EQ(steps.last().saved, row.expect.saved) << text;
    EXPECT_EQ(steps.last().world_run, row.expect.world_run) << text;
    EXPECT_EQ(steps.last().world_generation, row.expect.world_generation)
        << text;
  }
  LastSteps steps;
  steps.Take(std::string(65, 'x'), ParseLogLine(reached.text));
  EXPECT_EQ(steps.last(), LastStep());
}

}  // namespace
}  // namespace rollcall
