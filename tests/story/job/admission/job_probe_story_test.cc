// Nodes probe each other before a world is formed.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/core/network_plan/probing/probing.h"
#include "tests/story/job/job_story.h"

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
      // No world is formed during the probes.
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
      // The next incarnation of c: only the pairs with c are probed.
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
      // c answers late, and what the others found is out of date.
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

// This holds if the node is silent, and if it dials again and again.
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
  // One of the two gets no seat, and its reason says why.
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
  // c is probed again later, because the network may work again.
  story.Tell({{2.4, PreparesAll({"a", "b"}, 1), "run g1"}});
  TellBeats(story, {"a", "b", "c"}, 32);
  story.Tell({
      {32.4, Ticks(), "a probes c; b probes c; c probes a,b"},
      {32.5, Reaches("a"), ""},
      {32.5, Reaches("b"), ""},
      {32.5, Reaches("c"), "notice 1 GROW"},
  });
}

// c was left out only because it could not reach b, and b has gone.
TEST(ProbeStory, ANodeIsTakenInOnceTheOneThatItCouldNotReachIsLost) {
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
        {at, Reaches("a"), ""},
        {at, Reaches("b"), ""},
        {at, Reaches("c", {"b"}), last ? "form g1 a,b" : ""},
    });
    if (last) break;
    story.Tell({{at + 1, Ticks(), "a probes c; b probes c; c probes a,b"}});
  }
  story.Tell({
      {2.4, PreparesAll({"a", "b"}, 1), "run g1"},
      {2.5, Breaks("b"), ""},
      {3.5, Ticks(), "abort g1 LOST_STREAM; a probes c; c probes a"},
      {3.6, Reaches("a"), ""},
      {3.6, Reaches("c"), "form g2 a,c"},
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

// A node with a worker's token claims the address of another node.
TEST(ProbeStory, AnAddressThatSomebodyElseAnswersAtIsNotGivenOut) {
  JobStory story("3");
  HelloOptions liar = Probable();
  liar.claims_address_of = "a";
  story.Tell({
      {0.0, Attends("a", 1, Probable()), ""},
      {0.0, Attends("b", 1, Probable()), ""},
      {0.0, Attends("c", 1, liar), "a probes b,c; b probes a,c; c probes a,b"},
  });
  // c's other address is a's, and a's agent answers there with its own answer.
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

// A node that the world does not need gets only one try, while the ranks wait.
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

}  // namespace
}  // namespace rollcall
