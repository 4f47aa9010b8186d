// When a rank counts as stalled, and when this is reported: a table.
#include "client/agent/core/agent/state/rank_watch.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/time_at.h"

namespace rollcall {
namespace {

using Event = std::function<bool(RankWatch&, double)>;
using Due = RankWatch::Due;

Event Starts(double stalled_at) {
  return [=](RankWatch& watch, double) {
    watch.Start(At(stalled_at));
    return watch.runs();
  };
}
Event Stops() {
  return [](RankWatch& watch, double) {
    const bool reported = watch.Stop();
    EXPECT_FALSE(watch.runs());
    return reported;
  };
}
Event Begins() {
  return [](RankWatch& watch, double) {
    const bool first = watch.Begin();
    EXPECT_TRUE(watch.begun());
    return first;
  };
}
Event Delayed(double seconds) {
  return [=](RankWatch& watch, double) {
    watch.Delay(absl::Seconds(seconds));
    return true;
  };
}
// For a daemon that was away for `seconds`, the first time for one second more;
// not beyond `latest`.
Event Waited(double seconds, double latest) {
  return [=](RankWatch& watch, double at) {
    watch.Waited(absl::Seconds(seconds), absl::Seconds(1), At(latest), At(at));
    return true;
  };
}
Event Ticks(Due due) {
  return [=](RankWatch& watch, double at) { return watch.Tick(At(at)) == due; };
}
// At step 7. `answer_by`: negative: the rank is not asked.
Event Stalls(double answer_by) {
  return [=](RankWatch& watch, double) {
    v1::RankStalled message;
    message.set_step(7);
    watch.Stalled(message,
                  answer_by < 0 ? absl::InfiniteFuture() : At(answer_by));
    return true;
  };
}
Event Answers(std::optional<uint64_t> entered = std::nullopt,
              std::optional<uint64_t> left = std::nullopt) {
  return [=](RankWatch& watch, double) {
    return watch.Answer(RankIsHere{1, 0, entered, left});
  };
}
Event Looked(const std::string& text) {
  return [=](RankWatch& watch, double) {
    RankLooked looked;
    looked.stopped = text == "stopped";
    looked.text = text;
    return watch.Look(looked);
  };
}
Event NewStream() {
  return [](RankWatch& watch, double) {
    watch.NewStream();
    return true;
  };
}

std::string ReportText(RankWatch& watch) {
  const v1::RankStalled* report = watch.TakeReport();
  if (report == nullptr) return "";
  EXPECT_EQ(report->stopped(), report->text() == "stopped");
  std::string text = absl::StrCat("step ", report->step(), " ", report->text());
  if (report->has_answered()) {
    absl::StrAppend(&text, report->answered() ? " answered" : " mute");
  }
  if (report->has_collective_entered()) {
    absl::StrAppend(&text, " in ", report->collective_entered());
  }
  if (report->has_collective_left()) {
    absl::StrAppend(&text, " out ", report->collective_left());
  }
  return text;
}

TEST(RankWatch, Table) {
  struct Step {
    double at;
    Event event;
    bool answer;
    std::string expect;  // The expected report.
  };
  const struct {
    std::string name;
    std::vector<Step> steps;
  } kRows[] = {
      {"only the first sign of life counts",
       {{0, Begins(), true, ""}, {1, Begins(), false, ""}}},
      {"no clock runs",
       {{9, Ticks(Due::kNothing), true, ""},
        {9, Looked("x"), false, ""},
        {9, Answers(), false, ""},
        {9, NewStream(), true, ""},
        {9, Stops(), false, ""}}},
      {"progress in time",
       {{0, Starts(10), true, ""},
        {9, Ticks(Due::kNothing), true, ""},
        {9, Starts(19), true, ""},
        {18, Ticks(Due::kNothing), true, ""},
        {18, Stops(), false, ""},
        {30, Ticks(Due::kNothing), true, ""}}},
      {"the answer, then the look",
       {{0, Starts(10), true, ""},
        {10, Ticks(Due::kExamine), true, ""},
        {10, Stalls(12), true, ""},
        {11, Ticks(Due::kNothing), true, ""},
        {11, Answers(5, 4), true, ""},
        {11, Answers(6, 6), false, ""},  // Only the first one counts.
        {11, Looked("stopped"), true, "step 7 stopped answered in 5 out 4"},
        {12, Ticks(Due::kNothing), true, ""},  // Reported once,
        {13, NewStream(), true, "step 7 stopped answered in 5 out 4"},
        {14, Stops(), true, ""},  // and the daemon hears that it goes on.
        {14, NewStream(), true, ""}}},
      {"the look, then no answer",
       {{0, Starts(10), true, ""},
        {10, Ticks(Due::kExamine), true, ""},
        {10, Stalls(12), true, ""},
        {11, Looked("x"), true, ""},
        {12, Ticks(Due::kNoAnswer), true, "step 7 x mute"},
        {13, Answers(1), false, ""},
        {13, Ticks(Due::kNothing), true, ""}}},
      {"a rank that is not asked",
       {{0, Starts(10), true, ""},
        {10, Ticks(Due::kExamine), true, ""},
        {10, Stalls(-1), true, ""},
        {11, Answers(1), false, ""},
        {12, Looked("x"), true, "step 7 x"}}},
      {"numbers that do not fit together",
       {{10, Stalls(12), true, ""},
        {10, Answers(3, 9), true, ""},
        {10, Looked("x"), true, "step 7 x answered in 3 out 3"}}},
      {"progress before the report",
       {{0, Starts(10), true, ""},
        {10, Stalls(12), true, ""},
        {11, Stops(), false, ""},
        {11, Looked("x"), false, ""}}},
      {"progress after the stream of the report",
       {{10, Stalls(-1), true, ""},
        {10, Looked("x"), true, "step 7 x"},
        {11, NewStream(), true, "step 7 x"},
        {12, Stops(), true, ""}}},
      {"the agent was delayed",
       {{0, Starts(10), true, ""},
        {20, Delayed(10), true, ""},
        {19, Ticks(Due::kNothing), true, ""},
        {20, Ticks(Due::kExamine), true, ""},
        {20, Stalls(22), true, ""},
        {30, Delayed(8), true, ""},
        {29, Ticks(Due::kNothing), true, ""},
        {30, Ticks(Due::kNoAnswer), true, ""}}},
      {"the daemon was away",
       {{0, Starts(10), true, ""},
        {9, Waited(2, 19), true, ""},
        {12, Ticks(Due::kNothing), true, ""},
        {12, Waited(30, 22), true, ""},
        {21, Ticks(Due::kNothing), true, ""},
        {22, Ticks(Due::kExamine), true, ""},
        {22, Stalls(-1), true, ""},
        // The stall began longer ago than that.
        {30, Waited(8, 40), true, ""},
        {30, Looked("x"), true, "step 7 x"},
        {31, Waited(10, 41), true, ""},
        {31, NewStream(), true, ""},
        {31, Ticks(Due::kNothing), true, ""},
        {32, Ticks(Due::kExamine), true, ""}}},
  };
  for (const auto& row : kRows) {
    RankWatch watch;
    for (const Step& step : row.steps) {
      SCOPED_TRACE(absl::StrCat(row.name, ", at ", step.at));
      EXPECT_EQ(step.event(watch, step.at), step.answer);
      EXPECT_EQ(ReportText(watch), step.expect);
    }
  }
}

}  // namespace
}  // namespace rollcall
