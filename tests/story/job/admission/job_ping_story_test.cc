// While a world runs, newcomers are probed, and members probe each other.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/story/job/job_story.h"

namespace rollcall {
namespace {

// --- Newcomers ---------------------------------------------------------------

// a and b run generation 1 from second 1.3 on.
std::vector<JobStory::Row> TwoRunProbed() {
  return {
      {0.0, Attends("a", 1, Probable()), ""},
      {0.0, Attends("b", 1, Probable()), ""},
      {1.0, Ticks(), "a probes b; b probes a"},
      {1.1, Reaches("a"), ""},
      {1.1, Reaches("b"), "form g1 a,b"},
      {1.3, PreparesAll({"a", "b"}, 1), "run g1"},
  };
}

std::string ReasonOf(JobStory& story, const std::string& node) {
  return RowOf(story.job().Status(story.now()), node).reason();
}

TEST(ProbeStory, ANewcomerIsProbedBeforeTheWorldIsEndedForIt) {
  JobStory story("2:3");
  story.Tell(TwoRunProbed());
  story.Tell({
      {2.0, Attends("c", 1, Probable()),
       "a probes c; b probes c; c probes a,b"},
      {2.1, Reaches("a"), ""},
      {2.1, Reaches("b"), ""},
      {2.2, Reaches("c"), "notice 1 GROW"},
      {2.3, Sees("a", 1), ""},
      {2.3, Sees("b", 1), "abort g1 GROW; form g2 a,b,c"},
  });
}

TEST(ProbeStory, ANewcomerThatCannotBeReachedEndsNoWorld) {
  JobStory story("2:3");
  story.Tell(TwoRunProbed());
  story.Tell({
      {2.0, Attends("c", 1, Probable()),
       "a probes c; b probes c; c probes a,b"},
      {2.1, Reaches("a"), ""},
      {2.1, Reaches("b", {"c"}), ""},
      {2.2, Reaches("c"), ""},
  });
  EXPECT_TRUE(absl::StartsWith(
      ReasonOf(story, "c"), absl::StrCat("b cannot reach c at ", AddressOf("c"),
                                         " (Connection refused)")))
      << ReasonOf(story, "c");
  TellBeats(story, {"a", "b", "c"}, 32);
  story.Tell({
      // c is probed again 30 s after the failure. What a and b found of each
      // other is kept.
      {32.2, Ticks(), "a probes c; b probes c; c probes a,b"},
      {32.3, Reaches("a"), ""},
      {32.3, Reaches("b"), ""},
      {32.3, Reaches("c"), "notice 1 GROW"},
  });
  EXPECT_EQ(ReasonOf(story, "c"), "");
}

// An unreachable newcomer does not keep out one that attended with it.
TEST(ProbeStory, ThoseThatAreReachedDoNotWaitForThoseThatAreNot) {
  JobStory story("2:4");
  story.Tell(TwoRunProbed());
  story.Tell({
      {2.0, Attends("c", 1, Probable()), ""},
      {2.0, Attends("d", 1, Probable()),
       "a probes c,d; b probes c,d; c probes a,b,d; d probes a,b,c"},
      {2.1, Reaches("a", {"c"}), ""},
      {2.1, Reaches("b", {"c"}), ""},
      {2.1, Reaches("c"), ""},
      {2.1, Reaches("d", {"c"}), "notice 1 GROW"},
      {2.2, Sees("a", 1), ""},
      {2.2, Sees("b", 1), "abort g1 GROW; form g2 a,b,d"},
  });
}

TEST(ProbeStory, ThoseOfARoundDoNotWaitForLaterOnes) {
  JobStory story("2:8");
  story.Tell(TwoRunProbed());
  story.Tell({
      {2.0, Attends("c", 1, Probable()), ""},
      {3.0, Ticks(), "a probes c; b probes c; c probes a,b"},
      {3.1, Attends("d", 1, Probable()), ""},
      {3.2, Reaches("a"), ""},
      {3.2, Reaches("b"), ""},
      {3.2, Reaches("c"),
       "a probes d; b probes d; c probes d; d probes a,b,c; notice 1 GROW"},
  });
}

TEST(ProbeStory, ASpareIsProbedBeforeItIsNeeded) {
  JobStory story("2");
  story.Tell({
      {0.0, Attends("a", 1, Probable()), ""},
      {0.0, Attends("b", 1, Probable()), "a probes b; b probes a"},
      {0.1, Reaches("a"), ""},
      {0.1, Reaches("b"), "form g1 a,b"},
      {0.2, Attends("c", 1, Probable()), ""},
      {0.3, PreparesAll({"a", "b"}, 1), "run g1"},
      {1.3, Ticks(), "a probes c; b probes c; c probes a,b"},
      {1.4, Reaches("a"), ""},
      {1.4, Reaches("b"), ""},
      {1.4, Reaches("c"), ""},
      {1.5, Leaves("b"), "notice 1 DRAIN b"},
      {1.6, Sees("a", 1), ""},
      {1.6, Sees("b", 1), "abort g1 LEAVING; form g2 a,c"},
  });
}

TEST(ProbeStory, ASilentNewcomerEndsNoWorld) {
  JobStory story("2:3");
  story.Tell(TwoRunProbed());
  story.Tell({
      {2.0, Attends("c", 1, Probable()),
       "a probes c; b probes c; c probes a,b"},
      {2.1, Reaches("a", {"c"}), ""},
      {2.1, Reaches("b", {"c"}), ""},
      {4.0, Ticks(), ""},
  });
  EXPECT_EQ(ReasonOf(story, "c"), "it has not answered a probe of addresses");
  // c answers late, and is probed again.
  story.Tell({
      {4.5, Reaches("c"), ""},
      {5.6, Ticks(), "a probes c; b probes c; c probes a,b"},
      {5.7, Reaches("a"), ""},
      {5.7, Reaches("b"), ""},
      {5.7, Reaches("c"), "notice 1 GROW"},
  });
}

TEST(ProbeStory, ANewcomerThatASilentMemberHasNotReachedWaits) {
  JobStory story("2:3");
  story.Tell(TwoRunProbed());
  story.Tell({
      {2.0, Attends("c", 1, Probable()),
       "a probes c; b probes c; c probes a,b"},
      {2.1, Reaches("a"), ""},
      {2.1, Reaches("c"), ""},
      {4.0, Beats("b"), ""},
      {4.1, Ticks(), ""},
  });
  EXPECT_TRUE(absl::StrContains(ReasonOf(story, "c"),
                                "b has not reported whether it reaches c"))
      << ReasonOf(story, "c");
}

// What members have found of each other may be out of date.
TEST(ProbeStory, MembersThatDidNotReachEachOtherAreProbedAgainForANewcomer) {
  JobStory story("2:3", absl::Seconds(100));
  story.Tell(TwoRunProbed());
  TellBeats(story, {"a", "b"}, 101);
  story.Tell({
      {101.3, Ticks(), "a probes b; b probes a"},
      {101.4, Reaches("a", {"b"}), ""},
      {101.5, Reaches("b"), ""},
      {102.0, Attends("c", 1, Probable()),
       "a probes c; b probes c; c probes a,b"},
      {102.1, Reaches("a"), ""},
      {102.1, Reaches("b"), ""},
      {102.2, Reaches("c"), ""},
  });
  EXPECT_TRUE(absl::StrContains(ReasonOf(story, "c"), "a cannot reach b"))
      << ReasonOf(story, "c");
  TellBeats(story, {"a", "b", "c"}, 132, 104);
  story.Tell({
      {132.2, Ticks(), "a probes b,c; b probes a,c; c probes a,b"},
      {132.3, Reaches("a"), ""},
      {132.3, Reaches("b"), ""},
      {132.4, Reaches("c"), "notice 1 GROW"},
  });
}

// A stream that breaks again and again does not cause one round after the
// other.
TEST(ProbeStory, ANewcomerThatRedialsKeepsNobodyOut) {
  JobStory story("2:8");
  HelloOptions again = Probable();
  again.run = "run1";
  again.by_credential = true;
  story.Tell(TwoRunProbed());
  story.Tell({
      {2.0, Attends("c", 1, Probable()), ""},
      {2.0, Attends("h", 1, Probable()), ""},
      {3.0, Ticks(),
       "a probes c,h; b probes c,h; c probes a,b,h; h probes a,b,c"},
      {3.1, Reaches("a"), ""},
      {3.1, Reaches("b"), ""},
      {3.2, Reaches("c"), ""},
      {3.3, Breaks("h"), "notice 1 GROW"},
      {3.4, Attends("h", 1, again), ""},
      {5.0, Ticks(), ""},
      {6.0, Ticks(), ""},
  });
}

// The latest round says nothing about nodes that were not part of it.
TEST(ProbeStory, AWorldThatEndsFindsOutWhatARoundHasNot) {
  JobStory story("2:3");
  story.Tell(TwoRunProbed());
  story.Tell({
      {2.0, Attends("c", 1, Probable()),
       "a probes c; b probes c; c probes a,b"},
      {2.1, Exits("b", 1, 1),
       "abort g1 RANK_EXIT; a probes c; b probes c; c probes a,b"},
      {2.2, Reaches("a", {"c"}), ""},
      {2.2, Reaches("b", {"c"}), ""},
      // There is only one try, because the ranks of a and b wait.
      {2.3, Reaches("c"), "form g2 a,b"},
  });
}

// --- Members -----------------------------------------------------------------

// a and b run generation 1 and are asked for pings at second 11.
void TellUntilPinged(JobStory& story) {
  story.Tell({
      {0.0, Attends("a", 1, Probable()), ""},
      {0.0, Attends("b", 1, Probable()), "a probes b; b probes a"},
      {0.1, Reaches("a"), ""},
      {0.1, Reaches("b"), "form g1 a,b"},
      {1.0, PreparesAll({"a", "b"}, 1), "run g1"},
      {4.0, BeatsAll({"a", "b"}), ""},
      {8.0, BeatsAll({"a", "b"}), ""},
      {11.0, Ticks(), "a probes b; b probes a"},
  });
}

TEST(ProbeStory, MembersProbeEachOtherAgain) {
  JobStory story("2", absl::Seconds(10));
  TellUntilPinged(story);
  story.Tell({{11.1, Reaches("a", {"b"}), ""}, {11.2, Reaches("b"), ""}});
  const v1::Pings pings = story.job().Pings(story.now());
  EXPECT_EQ(pings.pairs(), 2u);
  EXPECT_EQ(pings.unreached(), 1u);
  EXPECT_EQ(pings.pings(0).error(), "Connection refused");
  story.Tell({
      // The ranks run on. Members are probed again before the next world.
      {12.0, Exits("b", 1, 1), "abort g1 RANK_EXIT"},
      {13.0, Ticks(), "a probes b; b probes a"},
      {13.1, Reaches("a"), ""},
      {13.1, Reaches("b"), "form g2 a,b"},
  });
}

// Steps of a, b and c become slow at second 62, and c's round trips with them.
TEST(ProbeStory, InASlowPeriodANodeWhosePathsStandOutIsNamed) {
  JobStory story("3");
  const std::vector<std::string> nodes = {"a", "b", "c"};
  for (const std::string& node : nodes) {
    story.Tell(
        {{0.0, Attends(node, 1, Probable()),
          node == "c" ? "a probes b,c; b probes a,c; c probes a,b" : ""}});
  }
  story.Tell({{0.1, ReachesIn("a", 0.3, "", 0), ""},
              {0.1, ReachesIn("b", 0.3, "", 0), ""},
              {0.1, ReachesIn("c", 0.3, "", 0), "form g1 a,b,c"},
              {0.2, PreparesAll(nodes, 1), "run g1"}});
  double at = 2;
  uint64_t step = 0;
  std::vector<double> rounds;
  const auto train = [&](double until, double step_s) {
    for (; at < until; at += 1) {
      step += step_s <= 1 || static_cast<uint64_t>(at) % 5 == 0;
      for (const std::string& node : nodes) {
        const uint64_t round = story.probes().at("a").probe();
        v1::AgentMessage beat;
        beat.mutable_heartbeat()->set_generation(1);
        beat.mutable_heartbeat()->set_step(step);
        const Told says = Says(node, beat);
        story.Tell({{at, [&](JobStory& told) { return says(told), ""; }, ""}});
        if (story.probes().at("a").probe() == round) continue;
        rounds.push_back(at);
        for (const std::string& each : nodes) {
          story.Tell({{at, ReachesIn(each, 0.4, "c", 80), ""}});
        }
      }
    }
  };
  train(62, 1);
  EXPECT_TRUE(rounds.empty());
  train(160, 5);
  // None before the steps have been slow for 20 s, and none in the period.
  ASSERT_FALSE(rounds.empty());
  EXPECT_GE(rounds.front(), 82);
  EXPECT_LE(rounds.back(), 142);
  for (size_t i = 1; i < rounds.size(); ++i) {
    EXPECT_GE(rounds[i] - rounds[i - 1], 5);
  }
  EXPECT_TRUE(absl::StrContains(
      story.logs(),
      "changed=\"c: \\\"round trips of 80.0 ms or more, median of the other "
      "nodes 0.4 ms\\\"\""))
      << story.logs();
}

// There are three nodes, so that the world without b would have two.
TEST(ProbeStory, AMemberThatNeverAnswersPingsKeepsItsSeat) {
  JobStory story("3", absl::Seconds(5));
  story.Tell({
      {0.0, Attends("a", 1, Probable()), ""},
      {0.0, Attends("b", 1, Probable()), ""},
      {0.0, Attends("c", 1, Probable()),
       "a probes b,c; b probes a,c; c probes a,b"},
      {0.1, Reaches("a"), ""},
      {0.1, Reaches("b"), ""},
      {0.1, Reaches("c"), "form g1 a,b,c"},
      {1.0, PreparesAll({"a", "b", "c"}, 1), "run g1"},
  });
  for (double at = 6; at < 18; at += 5) {
    TellBeats(story, {"a", "b", "c"}, at - 1.5, at - 2.5);
    story.Tell({
        {at, Ticks(), "a probes b,c; b probes a,c; c probes a,b"},
        {at + 0.1, Reaches("a"), ""},
        {at + 0.1, Reaches("c"), ""},
        {at + 2.0, Beats("b"), ""},
    });
  }
  story.Tell({{18.1, Exits("a", 1, 1), "abort g1 RANK_EXIT; form g2 a,b,c"}});
}

TEST(ProbeStory, NoWorldWaitsForARoundOfPings) {
  JobStory story("2", absl::Seconds(10));
  TellUntilPinged(story);
  // For members that have not answered, the results of the round before count.
  story.Tell({{11.1, Reaches("a"), ""},
              {11.2, Exits("b", 1, 1), "abort g1 RANK_EXIT; form g2 a,b"}});
}

TEST(ProbeStory, AMemberThatAnswersNoPingKeepsItsSeat) {
  JobStory story("2", absl::Seconds(10));
  TellUntilPinged(story);
  story.Tell({
      {11.1, Reaches("a"), ""},
      {11.5, Beats("b"), ""},
      {13.0, Ticks(), ""},
      {13.1, Exits("b", 1, 1), "abort g1 RANK_EXIT; form g2 a,b"},
  });
}

}  // namespace
}  // namespace rollcall
