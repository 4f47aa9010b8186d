// Nodes probe each other before a world is formed.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/core/network_plan/probing.h"
#include "tests/story/job_story.h"

namespace rollcall {
namespace {

std::vector<JobStory::Row> TwoAttend() {
  return {
      {0.0, Attends("a", 1, Probable()), ""},
      {0.0, Attends("b", 1, Probable()), "a probes b; b probes a"},
  };
}

TEST(ProbeStory, AWorldIsFormedOnceAllHaveAnswered) {
  JobStory story("2");
  story.Tell(TwoAttend());
  story.Tell({
      {0.1, Reaches("a"), ""},
      // Nothing is formed meanwhile.
      {0.2, Beats("a"), ""},
      {0.3, Reaches("b"), "form g1 a,b"},
      {0.4, PreparesAll({"a", "b"}, 1), "run g1"},
  });
}

TEST(ProbeStory, EachNodeIsAskedForItsOwnAnswer) {
  JobStory story("2");
  story.Tell(TwoAttend());
  const v1::Probe& a = story.probes().at("a");
  const v1::Probe& b = story.probes().at("b");
  EXPECT_EQ(a.ask(), b.ask());
  ASSERT_EQ(a.answers_size(), 1);
  EXPECT_EQ(a.answers(0).address(), AddressOf("a"));
  EXPECT_NE(a.answers(0).answer(), b.answers(0).answer());
  EXPECT_EQ(a.answers(0).answer().size(), Limits::probe_bytes);
  EXPECT_EQ(a.targets(0).port(), 40000u);
  EXPECT_EQ(a.targets(0).addresses(0), AddressOf("b"));
}

TEST(ProbeStory, WhatIsKnownIsNotProbedAgain) {
  HelloOptions next = NextOf(1);
  next.probe_port = Probable().probe_port;
  JobStory story("2:3");
  story.Tell({
      {0.0, Attends("a", 1, Probable()), ""},
      {0.0, Attends("b", 1, Probable()), ""},
      {0.0, Attends("c", 1, Probable()),
       "a probes b,c; b probes a,c; c probes a,b"},
      {0.1, Reaches("a"), ""},
      {0.1, Reaches("b"), ""},
      {0.1, Reaches("c"), "form g1 a,b,c"},
      {0.2, PreparesAll({"a", "b", "c"}, 1), "run g1"},
      {0.3, Exits("c", 1, 1), "abort g1 RANK_EXIT; form g2 a,b,c"},
      {0.4, PreparesAll({"a", "b", "c"}, 2), "run g2"},
      // Another life of c: the pairs that it is part of, and no others.
      {0.6, Breaks("c"), ""},
      {0.7, Attends("c", 2, next),
       "abort g2 REPLACED; a probes c; b probes c; c probes a,b"},
      {0.8, Reaches("a"), ""},
      {0.8, Reaches("b"), ""},
      {0.8, Reaches("c"), "form g3 a,b,c"},
  });
}

TEST(ProbeStory, ANodeThatDoesNotAnswerGetsNoSeatUntilItDoes) {
  JobStory story("2:3");
  story.Tell({
      {0.0, Attends("a", 1, Probable()), ""},
      {0.0, Attends("b", 1, Probable()), ""},
      {0.0, Attends("c", 1, Probable()),
       "a probes b,c; b probes a,c; c probes a,b"},
      {0.1, Reaches("a", {"c"}), ""},
      {0.1, Reaches("b", {"c"}), ""},
      {1.9, Ticks(), ""},
      {2.0, Ticks(), "form g1 a,b"},
      {2.1, PreparesAll({"a", "b"}, 1), "run g1"},
      // Late, and what the others found of it is out of date.
      {2.2, Reaches("c"), ""},
      {3.3, Ticks(), "a probes c; b probes c; c probes a,b"},
      {3.4, Reaches("a"), ""},
      {3.4, Reaches("b"), ""},
      {3.4, Reaches("c"), "notice 1 GROW"},
  });
}

TEST(ProbeStory, TooFewWithoutTheSilentOneWaitForIt) {
  JobStory story("2");
  story.Tell(TwoAttend());
  story.Tell({
      {0.1, Reaches("a", {"b"}), ""},
      {2.0, Ticks(), ""},
      {2.5, Beats("a"), ""},
      {3.0, Beats("b"), ""},
  });
  EXPECT_TRUE(
      absl::StrContains(story.job().Status(story.now()).DebugString(), "b"));
  story.Tell({
      {3.1, Reaches("b"), "a probes b; b probes a"},
      {3.2, Reaches("a"), ""},
      {3.2, Reaches("b"), "form g1 a,b"},
  });
}

// Neither by saying nothing nor by dialling again and again.
TEST(ProbeStory, ASilentNodeDoesNotKeepOutTheOneThatTakesItsSeat) {
  for (const bool redials : {false, true}) {
    JobStory story("3");
    story.Tell({
        {0.0, Attends("a", 1, Probable()), ""},
        {0.0, Attends("b", 1, Probable()), ""},
        {0.0, Attends("g", 1, Probable()),
         "a probes b,g; b probes a,g; g probes a,b"},
        {0.1, Reaches("a", {"g"}), ""},
        {0.1, Reaches("b", {"g"}), ""},
        {2.0, Ticks(), ""},
        {2.5, Attends("z", 1, Probable()),
         "a probes z; b probes z; z probes a,b"},
        {2.6, Reaches("a"), ""},
    });
    if (redials) {
      HelloOptions again = Probable();
      again.run = "run1";
      again.by_credential = true;
      story.Tell({{2.7, Breaks("g"), ""}, {2.8, Attends("g", 1, again), ""}});
    }
    story.Tell({
        {2.9, Reaches("b"), ""},
        {3.0, Reaches("z"), "form g1 a,b,z"},
        {3.1, PreparesAll({"a", "b", "z"}, 1), "run g1"},
    });
  }
}

TEST(ProbeStory, AStreamThatBreaksMeanwhileIsAskedAgain) {
  JobStory story("2");
  story.Tell(TwoAttend());
  HelloOptions again = Probable();
  again.run = "run1";
  again.by_credential = true;
  story.Tell({
      {0.1, Reaches("a"), ""},
      {0.2, Breaks("b"), ""},
      {0.3, Attends("b", 1, again), "a probes b; b probes a"},
      {0.4, Reaches("a"), ""},
      {0.4, Reaches("b"), "form g1 a,b"},
  });
}

TEST(ProbeStory, AFailureIsLookedIntoThreeTimes) {
  JobStory story("2");
  story.Tell(TwoAttend());
  story.Tell({
      {0.1, Reaches("a"), ""},
      {0.1, Reaches("b", {"a"}), ""},
      {1.0, Ticks(), ""},
      {1.1, Ticks(), "a probes b; b probes a"},
      {1.2, Reaches("a"), ""},
      {1.2, Reaches("b", {"a"}), ""},
      {2.2, Ticks(), "a probes b; b probes a"},
      {2.3, Reaches("a"), ""},
      {2.3, Reaches("b", {"a"}), ""},
  });
  // One of the two gets no seat, with the reason.
  const std::string status = story.job().Status(story.now()).DebugString();
  EXPECT_TRUE(absl::StrContains(
      status, absl::StrCat("b cannot reach a at ", AddressOf("a"),
                           " (Connection refused)")))
      << status;
}

TEST(ProbeStory, ANodeThatCannotBeReachedIsLeftOut) {
  JobStory story("2:3");
  story.Tell({
      {0.0, Attends("a", 1, Probable()), ""},
      {0.0, Attends("b", 1, Probable()), ""},
      {0.0, Attends("c", 1, Probable()),
       "a probes b,c; b probes a,c; c probes a,b"},
  });
  double at = 0.1;
  for (int round = 1; round <= 3; ++round, at += 1.1) {
    const bool last = round == 3;
    story.Tell({
        {at, Reaches("a", {"c"}), ""},
        {at, Reaches("b", {"c"}), ""},
        {at, Reaches("c"), last ? "form g1 a,b" : ""},
    });
    if (last) break;
    story.Tell({{at + 1, Ticks(), "a probes c; b probes c; c probes a,b"}});
  }
  // It is tried again, in case it was mended.
  story.Tell({{2.4, PreparesAll({"a", "b"}, 1), "run g1"}});
  TellBeats(story, {"a", "b", "c"}, 32);
  story.Tell({
      {32.4, Ticks(), "a probes c; b probes c; c probes a,b"},
      {32.5, Reaches("a"), ""},
      {32.5, Reaches("b"), ""},
      {32.5, Reaches("c"), "notice 1 GROW"},
  });
}

TEST(ProbeStory, TooFewWithoutTheUnreachedTryAgain) {
  JobStory story("2");
  story.Tell(TwoAttend());
  story.Tell({
      {0.1, Reaches("a"), ""},
      {0.1, Reaches("b", {"a"}), ""},
      {1.1, Ticks(), "a probes b; b probes a"},
      {1.2, Reaches("a"), ""},
      {1.2, Reaches("b", {"a"}), ""},
      {2.2, Ticks(), "a probes b; b probes a"},
      {2.3, Reaches("a"), ""},
      {2.3, Reaches("b", {"a"}), ""},
  });
  TellBeats(story, {"a", "b"}, 7);
  story.Tell({
      {7.4, Ticks(), "a probes b; b probes a"},
      {7.5, Reaches("a"), ""},
      {7.5, Reaches("b"), "form g1 a,b"},
  });
}

// It holds a worker's token and says that it has another's address.
TEST(ProbeStory, AnAddressThatSomebodyElseAnswersAtIsNotGivenOut) {
  JobStory story("3");
  HelloOptions liar = Probable();
  liar.claims_address_of = "a";
  story.Tell({
      {0.0, Attends("a", 1, Probable()), ""},
      {0.0, Attends("b", 1, Probable()), ""},
      {0.0, Attends("c", 1, liar), "a probes b,c; b probes a,c; c probes a,b"},
  });
  // c's other address is a's, whose agent answers with its own answer.
  const auto honest = [](const std::string& node) {
    return [=](JobStory& story) {
      v1::AgentMessage message;
      v1::Probed& probed = *message.mutable_probed();
      const v1::Probe& probe = story.probes().at(node);
      probed.set_probe(probe.probe());
      for (const v1::ProbeTarget& target : probe.targets()) {
        for (const std::string& address : target.addresses()) {
          v1::ProbeResult& result = *probed.add_results();
          result.set_node(target.node());
          result.set_address(address);
          const std::string owner = address == AddressOf("a")   ? "a"
                                    : address == AddressOf("b") ? "b"
                                                                : "c";
          result.set_answer(AnswerAt(story.probes().at(owner), address));
        }
      }
      return story.Step(Said{story.SessionOf(node), message});
    };
  };
  story.Tell({
      {0.1, honest("a"), ""},
      {0.1, honest("b"), ""},
      {0.1, honest("c"), "form g1 a,b,c"},
  });
  const v1::World world = story.ProposedWorld();
  ASSERT_EQ(world.members_size(), 3);
  EXPECT_EQ(world.members(2).address(), AddressOf("c"));
  ASSERT_EQ(world.members(2).addresses_size(), 1);
  EXPECT_EQ(world.members(2).addresses(0), AddressOf("c"));
}

TEST(ProbeStory, ThoseWhoKeepAttendingDoNotPutTheWorldOff) {
  JobStory story("2:8");
  story.Tell({
      {0.0, Attends("a", 1, Probable()), ""},
      {0.0, Attends("b", 1, Probable()), ""},
      {1.0, Ticks(), "a probes b; b probes a"},
      {1.1, Attends("c", 1, Probable()), ""},
      {1.2, Reaches("a"), ""},
      {1.2, Attends("d", 1, Probable()), ""},
      {2.3, Reaches("b"), "form g1 a,b"},
  });
}

// --- While a world runs ------------------------------------------------------

// a and b run generation 1 from second 1.3 on.
std::vector<JobStory::Row> TwoRun() {
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
  const v1::JobStatus status = story.job().Status(story.now());
  for (const v1::NodeStatus& row : status.nodes()) {
    if (row.node() == node) return row.reason();
  }
  return "no such node";
}

TEST(ProbeStory, ANewcomerIsProbedBeforeTheWorldIsEndedForIt) {
  JobStory story("2:3");
  story.Tell(TwoRun());
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
  story.Tell(TwoRun());
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
      // Probed again 30 s after the verdict. What a and b know stands.
      {32.2, Ticks(), "a probes c; b probes c; c probes a,b"},
      {32.3, Reaches("a"), ""},
      {32.3, Reaches("b"), ""},
      {32.3, Reaches("c"), "notice 1 GROW"},
  });
  EXPECT_EQ(ReasonOf(story, "c"), "");
}

// It does not keep out one that came with it.
TEST(ProbeStory, ThoseThatAreReachedDoNotWaitForThoseThatAreNot) {
  JobStory story("2:4");
  story.Tell(TwoRun());
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
  story.Tell(TwoRun());
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
  story.Tell(TwoRun());
  story.Tell({
      {2.0, Attends("c", 1, Probable()),
       "a probes c; b probes c; c probes a,b"},
      {2.1, Reaches("a", {"c"}), ""},
      {2.1, Reaches("b", {"c"}), ""},
      {4.0, Ticks(), ""},
  });
  EXPECT_EQ(ReasonOf(story, "c"), "it has not answered a probe of addresses");
  // It answers late, and is asked once more.
  story.Tell({
      {4.5, Reaches("c"), ""},
      {5.6, Ticks(), "a probes c; b probes c; c probes a,b"},
      {5.7, Reaches("a"), ""},
      {5.7, Reaches("b"), ""},
      {5.7, Reaches("c"), "notice 1 GROW"},
  });
}

// a and b run generation 1 and are asked for pings at second 11.
void TellUntilPinged(JobStory& story) {
  story.Tell({
      {0.0, Attends("a", 1, Probable()), ""},
      {0.0, Attends("b", 1, Probable()), "a probes b; b probes a"},
      {0.1, Reaches("a"), ""},
      {0.1, Reaches("b"), "form g1 a,b"},
      {1.0, PreparesAll({"a", "b"}, 1), "run g1"},
      {4.0, Beats("a"), ""},
      {4.0, Beats("b"), ""},
      {8.0, Beats("a"), ""},
      {8.0, Beats("b"), ""},
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
      // Training goes on. The next world looks into it first.
      {12.0, Exits("b", 1, 1), "abort g1 RANK_EXIT"},
      {13.0, Ticks(), "a probes b; b probes a"},
      {13.1, Reaches("a"), ""},
      {13.1, Reaches("b"), "form g2 a,b"},
  });
}

// Of three, so that the others are no world of one machine.
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

TEST(ProbeStory, ANewcomerThatASilentMemberHasNotReachedWaits) {
  JobStory story("2:3");
  story.Tell(TwoRun());
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
  story.Tell(TwoRun());
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

// A stream that breaks again and again does not cause round after round.
TEST(ProbeStory, ANewcomerThatRedialsKeepsNobodyOut) {
  JobStory story("2:8");
  HelloOptions again = Probable();
  again.run = "run1";
  again.by_credential = true;
  story.Tell(TwoRun());
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

// What the latest round found counts for those alone that it was about.
TEST(ProbeStory, AWorldThatEndsFindsOutWhatARoundHasNot) {
  JobStory story("2:3");
  story.Tell(TwoRun());
  story.Tell({
      {2.0, Attends("c", 1, Probable()),
       "a probes c; b probes c; c probes a,b"},
      {2.1, Exits("b", 1, 1),
       "abort g1 RANK_EXIT; a probes c; b probes c; c probes a,b"},
      {2.2, Reaches("a", {"c"}), ""},
      {2.2, Reaches("b", {"c"}), ""},
      // One try, while the ranks of a and b wait.
      {2.3, Reaches("c"), "form g2 a,b"},
  });
}

// Others get one try, while the ranks of a world wait.
TEST(ProbeStory, ANewcomerThatTheWorldNeedsIsProbedAgain) {
  JobStory story("2");
  story.Tell(TwoAttend());
  story.Tell({
      {0.1, Reaches("a"), ""},
      {0.1, Reaches("b"), "form g1 a,b"},
      {0.2, PreparesAll({"a", "b"}, 1), "run g1"},
      {1.0, Breaks("b"), ""},
      {2.0, Ticks(), "abort g1 LOST_STREAM"},
      {2.1, Attends("c", 1, Probable()), "a probes c; c probes a"},
      {2.2, Reaches("a"), ""},
      {2.2, Reaches("c", {"a"}), ""},
      {3.2, Ticks(), "a probes c; c probes a"},
      {3.3, Reaches("a"), ""},
      {3.3, Reaches("c"), "form g2 a,c"},
  });
}

TEST(ProbeStory, NoWorldWaitsForARoundOfPings) {
  JobStory story("2", absl::Seconds(10));
  TellUntilPinged(story);
  // What was found before counts for those that have not answered.
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
