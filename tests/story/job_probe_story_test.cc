// Nodes probe each other before a world is formed.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/core/world.h"
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
  EXPECT_NE(a.answer(), b.answer());
  EXPECT_EQ(a.answer().size(), Limits::probe_bytes);
  EXPECT_EQ(a.targets(0).port(), 40000u);
  EXPECT_EQ(a.targets(0).addresses(0), AddressOf("b"));
}

TEST(ProbeStory, WhatIsKnownIsNotProbedAgain) {
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
      {0.7, Attends("c", 2, Probable()),
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
      {2.2, Reaches("c"), "notice 1 GROW"},
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
          result.set_answer(story.probes().at(owner).answer());
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
  v1::Proposal proposal;
  ASSERT_TRUE(proposal.ParseFromString(
      story.journal().at(Journal::Kind::kProposed).body));
  const auto world = DecodeWorld(proposal.world());
  ASSERT_TRUE(world.ok()) << world.status();
  EXPECT_EQ(world->members(2).address(), AddressOf("c"));
  ASSERT_EQ(world->members(2).addresses_size(), 1);
  EXPECT_EQ(world->members(2).addresses(0), AddressOf("c"));
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

}  // namespace
}  // namespace rollcall
