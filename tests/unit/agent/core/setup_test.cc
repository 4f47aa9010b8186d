// The set-up command's tries, retries and time limit: a table.
#include "client/agent/core/setup.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/time_at.h"

namespace rollcall {
namespace {

// setup_timeout is 600 s, setup_retry_delay 1 s, stop_grace 15 s.
const Limits kLimits;

using Event = std::function<void(Setup&, double)>;

Event Ends(int code, int signal = 0) {
  return [=](Setup& setup, double at) {
    setup.ShellEnded(code, signal, "why");
    setup.Gone(At(at), kLimits);
  };
}
Event ShellEnds(int code) {
  return [=](Setup& setup, double) { setup.ShellEnded(code, 0, ""); };
}
Event Gone() {
  return [](Setup& setup, double at) { setup.Gone(At(at), kLimits); };
}
Event Ticks(Setup::Due due) {
  return [=](Setup& setup, double at) { EXPECT_EQ(setup.Tick(At(at)), due); };
}
Event Stops(absl::Duration grace, bool news) {
  return [=](Setup& setup, double at) {
    EXPECT_EQ(setup.Stop(grace, At(at)), news);
  };
}
Event Abandoned() {
  return [](Setup& setup, double) { setup.Abandon(); };
}

// "running", "pausing", "succeeded", "given up", or how it has failed.
std::string TextOf(const Setup& setup) {
  if (setup.running()) return "running";
  if (!setup.ended().has_value()) {
    return setup.pending() ? "pausing" : "given up";
  }
  const v1::SetupEnded& ended = *setup.ended();
  EXPECT_EQ(setup.pending(), setup.failed());
  if (!setup.failed()) return absl::StrCat("succeeded in ", ended.tries());
  return absl::StrCat(ended.timed_out() ? "timed out " : "failed ",
                      ended.code(), "/", ended.signal(), " in ", ended.tries());
}

TEST(Setup, Table) {
  using Due = rollcall::Setup::Due;
  struct Step {
    double at;
    Event event;
    std::string expect;
  };
  const struct {
    const char* name;
    uint32_t retries;
    std::vector<Step> steps;
  } kRows[] = {
      {"it succeeds", 0, {{10, Ends(0), "succeeded in 1"}}},
      {"it fails", 0, {{10, Ends(7), "failed 7/0 in 1"}}},
      {"a signal ends it", 0, {{10, Ends(0, 9), "failed 0/9 in 1"}}},
      {"its children count until they are gone",
       0,
       {{10, ShellEnds(0), "running"},
        {700, Ticks(Due::kNothing), "running"},
        {701, Gone(), "succeeded in 1"}}},
      {"two retries",
       2,
       {{10, Ends(7), "pausing"},
        {10.9, Ticks(Due::kNothing), "pausing"},
        {11, Ticks(Due::kStart), "running"},
        {12, Ends(8), "pausing"},
        {13, Ticks(Due::kStart), "running"},
        {14, Ends(0), "succeeded in 3"}}},
      {"the last try counts",
       1,
       {{10, Ends(7), "pausing"},
        {11, Ticks(Due::kStart), "running"},
        {12, Ends(8), "failed 8/0 in 2"}}},
      {"its time is over",
       3,
       {{599.9, Ticks(Due::kNothing), "running"},
        {600, Ticks(Due::kStop), "running"},
        {600, Ticks(Due::kNothing), "running"},
        // The shell handles SIGTERM and exits 0.
        {601, Ends(0), "timed out 124/0 in 1"}}},
      {"all tries have one limit",
       3,
       {{300, Ends(7), "pausing"},
        {301, Ticks(Due::kStart), "running"},
        {600, Ticks(Due::kStop), "running"},
        {601, Ends(0, 15), "timed out 124/0 in 2"}}},
      {"no try begins after the limit",
       3,
       {{599.5, Ends(7), "failed 7/0 in 1"}}},
      {"the agent leaves",
       3,
       {{10, Stops(absl::Seconds(15), true), "running"},
        {11, Stops(absl::Seconds(20), false), "running"},
        {12, Stops(absl::ZeroDuration(), true), "running"},
        {600, Ticks(Due::kNothing), "running"},
        {601, Gone(), "given up"}}},
      {"the agent leaves between two tries",
       3,
       {{10, Ends(7), "pausing"},
        {10.5, Stops(absl::Seconds(15), false), "given up"},
        {11, Ticks(Due::kNothing), "given up"}}},
      {"the job has failed and lingers: it goes on, without another try",
       3,
       {{10, Abandoned(), "running"}, {11, Ends(7), "failed 7/0 in 1"}}},
  };
  for (const auto& row : kRows) {
    SCOPED_TRACE(row.name);
    rollcall::Setup setup(true, row.retries);
    EXPECT_TRUE(setup.pending());
    EXPECT_EQ(setup.due(), absl::InfiniteFuture());
    EXPECT_TRUE(setup.Begin(At(0), kLimits));
    EXPECT_FALSE(setup.Begin(At(0), kLimits));
    for (const Step& step : row.steps) {
      step.event(setup, step.at);
      EXPECT_EQ(TextOf(setup), step.expect) << "at " << step.at;
    }
  }
}

TEST(Setup, TellsItsResultOnceOnEachStreamOfADaemonThatAwaitsIt) {
  rollcall::Setup setup(true, 0);
  EXPECT_TRUE(setup.Announce());
  EXPECT_TRUE(setup.Begin(At(0), kLimits));
  EXPECT_FALSE(setup.TakeResult().has_value());
  Ends(7)(setup, 1);
  EXPECT_EQ(setup.TakeResult()->code(), 7);
  EXPECT_FALSE(setup.TakeResult().has_value());

  EXPECT_TRUE(setup.Announce());
  EXPECT_TRUE(setup.awaited());
  EXPECT_EQ(setup.TakeResult()->code(), 7);
  EXPECT_FALSE(setup.awaited());

  EXPECT_TRUE(setup.Announce());
  setup.NotAwaited();  // A daemon of an older version.
  EXPECT_FALSE(setup.TakeResult().has_value());
}

TEST(Setup, WithoutACommandThereIsNone) {
  rollcall::Setup setup(false, 3);
  EXPECT_FALSE(setup.pending());
  EXPECT_FALSE(setup.Begin(At(0), kLimits));
  EXPECT_FALSE(setup.failed());
  EXPECT_FALSE(setup.Announce());
  EXPECT_FALSE(setup.TakeResult().has_value());
}

}  // namespace
}  // namespace rollcall
