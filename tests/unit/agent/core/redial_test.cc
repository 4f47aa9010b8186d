// When the agent dials again, when it gives up, and what it logs meanwhile.
#include "client/agent/core/redial.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "tests/unit/time_at.h"

namespace rollcall {
namespace {

Limits TestLimits() {
  Limits limits;
  limits.redial_first = absl::Seconds(1);
  limits.redial_max = absl::Seconds(8);
  limits.redial_leader = absl::Seconds(0.5);
  limits.daemon_grace = absl::Seconds(100);
  limits.lease = absl::Seconds(5);
  return limits;
}

StreamDown Unavailable(const std::string& why) {
  StreamDown down;
  down.status = absl::UnavailableError(why);
  down.endpoint = "a:1";
  return down;
}

StreamDown RefusedWith(v1::RefusalCode code, const std::string& text) {
  StreamDown down = Unavailable("refused");
  down.refusal.emplace().set_code(code);
  down.refusal->set_text(text);
  return down;
}

std::string TextOf(const std::optional<Report>& report) {
  return report.has_value() ? report->text : "";
}

TEST(Redial, DelaysGrowUpToABound) {
  const Limits limits = TestLimits();
  Redial redial(limits, absl::Seconds(1000), At(0));
  EXPECT_EQ(redial.dial_at(), At(0));
  for (const double wait : {1, 2, 4, 8, 8}) {
    redial.Schedule(1, limits, At(10));
    EXPECT_EQ(redial.dial_at(), At(10 + wait));
  }
  // Half of a delay is random.
  redial.Schedule(0, limits, At(10));
  EXPECT_EQ(redial.dial_at(), At(14));
  redial.Welcomed();
  redial.Schedule(1, limits, At(10));
  EXPECT_EQ(redial.dial_at(), At(11));
}

TEST(Redial, ALeaderIsSoughtSoonUntilADaemonWelcomes) {
  const Limits limits = TestLimits();
  Redial redial(limits, absl::Seconds(1000), At(0));
  redial.SeekLeader(limits);
  for (const double wait : {0.5, 1.0, 1.0}) {
    redial.Schedule(1, limits, At(10));
    EXPECT_EQ(redial.dial_at(), At(10 + wait));
  }
  redial.Welcomed();
  for (const double wait : {1, 2, 4}) {
    redial.Schedule(1, limits, At(10));
    EXPECT_EQ(redial.dial_at(), At(10 + wait));
  }
}

TEST(Redial, GivesUpAfterTheJoinTimeoutAndOnceWelcomedAfterDaemonGrace) {
  const Limits limits = TestLimits();
  Redial redial(limits, absl::Seconds(30), At(0));
  EXPECT_EQ(redial.give_up_at(), At(30));
  EXPECT_EQ(redial.GiveUpReason(),
            "could not attend the job in time; last: no answer");
  redial.Ended(Unavailable("refused\x1b"), false, limits, At(10));
  EXPECT_EQ(redial.give_up_at(), At(30));
  EXPECT_EQ(redial.GiveUpReason(),
            "could not attend the job in time; last: refused?");
  redial.Schedule(1, limits, At(29.5));
  EXPECT_EQ(redial.dial_at(), At(30)) << "not later than the end";
  redial.Welcomed();
  redial.Ended(Unavailable("reset"), true, limits, At(40));
  EXPECT_EQ(redial.give_up_at(), At(140));
  EXPECT_EQ(redial.GiveUpReason(),
            "the daemon did not come back in time; last: reset");
}

TEST(Redial, ATakenNameIsAwaitedForALeaseAndASecond) {
  const Limits limits = TestLimits();
  Redial redial(limits, absl::Seconds(1000), At(0));
  redial.Ended(RefusedWith(v1::REFUSAL_CODE_NAME_TAKEN, "b has it"), false,
               limits, At(1));
  std::optional<Report> news;
  EXPECT_TRUE(redial.AwaitName(limits, At(1), news));
  EXPECT_EQ(TextOf(news), "b has it; trying for 6s in case it is gone");
  news.reset();
  EXPECT_TRUE(redial.AwaitName(limits, At(6.9), news));
  EXPECT_FALSE(redial.AwaitName(limits, At(7), news));
  EXPECT_EQ(TextOf(news), "") << "said once";
  redial.Welcomed();
  EXPECT_TRUE(redial.AwaitName(limits, At(50), news)) << "another time";
}

TEST(Redial, ADaemonThatCannotGoOnIsReportedOncePerReason) {
  const Limits limits = TestLimits();
  Redial redial(limits, absl::Seconds(1000), At(0));
  const auto turned = [&](const StreamDown& down) {
    redial.Ended(down, true, limits, At(1));
    return TextOf(redial.TurnedAway(down, limits));
  };
  const StreamDown full =
      RefusedWith(v1::REFUSAL_CODE_UNSPECIFIED, "the disk is full");
  const std::string text =
      "the daemon cannot go on: the disk is full; redialling for 1m40s";
  EXPECT_EQ(turned(full), text);
  EXPECT_EQ(turned(full), "");
  EXPECT_EQ(turned(RefusedWith(v1::REFUSAL_CODE_UNSPECIFIED, "I/O error")),
            "the daemon cannot go on: I/O error; redialling for 1m40s");
  EXPECT_EQ(turned(full), text);
  EXPECT_EQ(turned(RefusedWith(v1::REFUSAL_CODE_LOST, "lost")), "");
  EXPECT_EQ(turned(full), "") << "still the same";
  EXPECT_EQ(turned(Unavailable("reset")), "");
  EXPECT_EQ(turned(full), text) << "it was gone meanwhile";
}

TEST(Redial, WhatIsSaidOfADaemonThatCannotBeReached) {
  const Limits limits = TestLimits();
  Redial redial(limits, absl::Seconds(1000), At(0));
  const auto unreachable = [&](StreamDown down, double at) {
    redial.Ended(down, false, limits, At(at));
    return TextOf(redial.Unreachable(down, At(at)));
  };
  EXPECT_EQ(unreachable(Unavailable("refused"), 0.5), "") << "it may start";
  EXPECT_EQ(unreachable(Unavailable("refused"), 2),
            "no daemon answers yet: refused");
  StreamDown other = Unavailable("another certificate");
  other.other_daemon = true;
  EXPECT_EQ(unreachable(other, 10), "not let in yet: another certificate");
  EXPECT_EQ(unreachable(RefusedWith(v1::REFUSAL_CODE_NO_JOB, "no job"), 20),
            "not let in yet: no job");
  redial.Welcomed();
  redial.Ended(Unavailable("reset"), true, limits, At(30));
  EXPECT_EQ(unreachable(Unavailable("refused"), 32),
            "the daemon does not answer: refused");
}

TEST(Redial, SilenceIsReportedOnce) {
  const Limits limits = TestLimits();
  Redial redial(limits, absl::Seconds(1000), At(0));
  EXPECT_EQ(redial.silent_until(), At(5));
  EXPECT_EQ(TextOf(redial.Silence(At(4.9))), "");
  EXPECT_EQ(TextOf(redial.Silence(At(5))).substr(0, 21),
            "no daemon answers yet");
  EXPECT_EQ(redial.silent_until(), absl::InfiniteFuture());
  EXPECT_EQ(TextOf(redial.Silence(At(60))), "");
}

}  // namespace
}  // namespace rollcall
