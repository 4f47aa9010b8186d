// From the first node that attends to a committed world.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/story/job/job_story.h"

namespace rollcall {
namespace {

// --- Gathering and forming ---------------------------------------------------

TEST(Forming, AFullWorldIsFormedAtOnceInTwoPhases) {
  JobStory story("2");
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.1, Attends("b"), "form g1 a,b"},
      {0.2, Prepares("b", 1), ""},
      {0.3, Prepares("a", 1), "run g1"},
      {0.4, Prepares("a", 1), ""},  // A retry changes nothing.
  });
}

// `status` shows who has prepared only while a world forms, and counts each
// change once.
TEST(Forming, StatusTellsWhoHasPrepared) {
  JobStory story("2");
  const auto prepared = [&] {
    std::string text;
    const v1::JobStatus status = story.job().Status(story.now());
    for (const v1::NodeStatus& node : status.nodes()) {
      absl::StrAppend(&text, node.node(), ":",
                      !node.has_prepared() ? "-"
                      : node.prepared()    ? "yes"
                                           : "no",
                      " ");
    }
    return text;
  };
  story.Tell({{0.0, Attends("a"), ""}, {0.1, Attends("s"), "form g1 a,s"}});
  EXPECT_EQ(prepared(), "a:no s:no ");
  story.Tell({{0.2, Attends("z"), ""}});
  const uint64_t revision = story.job().revision();
  story.Tell({{0.3, Prepares("s", 1), ""}});
  EXPECT_EQ(prepared(), "a:no s:yes z:- ");
  EXPECT_GT(story.job().revision(), revision);
  const uint64_t known = story.job().revision();
  story.Tell({{0.4, Prepares("s", 1), ""}});
  EXPECT_EQ(story.job().revision(), known);
  story.Tell({{0.5, Prepares("a", 1), "run g1"}});
  EXPECT_EQ(prepared(), "a:- s:- z:- ");
}

TEST(Forming, BetweenMinAndMaxTheLastCallDecides) {
  JobStory story("2:4");
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.1, Attends("b"), ""},
      {1.0, Ticks(), ""},
      {1.05, Attends("c"), ""},  // The last call starts again.
      {1.2, Ticks(), ""},
      {2.05, Ticks(), "form g1 a,b,c"},
  });
}

TEST(Forming, MaxIsNotWaitedAfter) {
  JobStory story("2:3");
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.1, Attends("b"), ""},
      {0.2, Attends("c"), "form g1 a,b,c"},
  });
}

TEST(Forming, AWorkerThatRetriesCountsOnce) {
  JobStory story("2");
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.1, Attends("a"), "refuse a REDIALED"},
      {0.2, Attends("a"), "refuse a REDIALED"},
      {0.3, Attends("b"), "form g1 a,b"},
  });
}

TEST(Forming, RanksFollowNaturalOrderWithTheLauncherFirst) {
  JobStory story("4");
  HelloOptions launcher;
  launcher.launcher = true;
  story.Tell({
      {0.0, Attends("node10"), ""},
      {0.1, Attends("node2"), ""},
      {0.2, Attends("zz", 1, launcher), ""},
      {0.3, Attends("node1"), "form g1 zz,node1,node2,node10"},
  });
}

TEST(Forming, WhoIsLateIsASpareUntilItIsPrepared) {
  JobStory story("2:3");
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.0, Attends("b"), ""},
      {0.0, Attends("c"), "form g1 a,b,c"},
      {0.1, PreparesAll({"a", "b"}, 1), ""},
      {10.0, BeatsAll({"a", "b", "c"}), ""},
      {30.0, Ticks(28), "abort g1 PREPARE_TIMEOUT; form g2 a,b"},
      // This is too late for generation 1, but c may be in the next world.
      {30.1, Prepares("c", 1), ""},
      {30.2, PreparesAll({"a", "b"}, 2), "run g2; notice 1 GROW"},
  });
}

TEST(Forming, WhoIsLateIsTakenBackWhenItHasStopped) {
  JobStory story("3");
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.0, Attends("b"), ""},
      {0.0, Attends("c"), "form g1 a,b,c"},
      {0.1, PreparesAll({"a", "b"}, 1), ""},
      {10.0, BeatsAll({"a", "b", "c"}), ""},
      {30.0, Ticks(28), "abort g1 PREPARE_TIMEOUT"},
      {31.0, BeatsAll({"a", "b", "c"}), ""},
      {34.0, BeatsAll({"a", "b"}), ""},
      {34.0, Stops("c", 1), "form g2 a,b,c"},
  });
}

TEST(Forming, WhoRefusesBecomesASpare) {
  JobStory story("2:3");
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.0, Attends("b"), ""},
      {0.0, Attends("c"), "form g1 a,b,c"},
      {0.1, Refuses("a", 1), "abort g1 REFUSED; form g2 b,c"},
      {0.2, PreparesAll({"b", "c"}, 2), "run g2"},
  });
  EXPECT_NE(story.job().Status(story.now()).nodes(0).reason().find("no free"),
            std::string::npos);
}

TEST(Forming, WhoRefusesIsAskedAgainThreeTimes) {
  JobStory story("2");
  story.Tell({{0.0, Attends("a"), ""},
              {0.0, Attends("b"), "form g1 a,b"},
              {0.1, Refuses("b", 1), "abort g1 REFUSED"},
              {2.0, BeatsAll({"a", "b"}), ""},
              {5.0, Ticks(), ""},
              {5.1, Ticks(), "form g2 a,b"},
              {5.2, Refuses("b", 2), "abort g2 REFUSED"},
              {8.0, BeatsAll({"a", "b"}), ""},
              {10.2, Ticks(), "form g3 a,b"},
              {10.3, Refuses("b", 3), "abort g3 REFUSED"},
              {12.0, BeatsAll({"a", "b"}), ""},
              {15.3, Ticks(), "form g4 a,b"},
              {15.4, Refuses("b", 4), "abort g4 REFUSED"}});
  TellBeats(story, {"a", "b"}, 60, 16);
}

TEST(Forming, APreparationOfASupersededWorldDoesNotCount) {
  JobStory story("2:3");
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.0, Attends("b"), ""},
      {0.0, Attends("c"), "form g1 a,b,c"},
      {0.1, Refuses("c", 1), "abort g1 REFUSED; form g2 a,b"},
      {0.2, PreparesAll({"a", "b"}, 1), ""},
      {0.3, Prepares("a", 2), ""},
      {0.4, Prepares("b", 2), "run g2"},
  });
}

TEST(Forming, ARefusalBelowMinGathersAgain) {
  JobStory story("2");
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.0, Attends("b"), "form g1 a,b"},
      {0.1, Refuses("b", 1), "abort g1 REFUSED"},
      {0.2, Attends("b", 1), "refuse b REDIALED; form g2 a,b"},
  });
  JobStory more("2:3");
  more.Tell({
      {0.0, Attends("a"), ""},
      {0.0, Attends("b"), ""},
      {1.0, Ticks(), "form g1 a,b"},
      {1.1, Refuses("b", 1), "abort g1 REFUSED"},
      {1.2, Attends("c"), ""},  // The last call starts again.
      {2.2, Ticks(), "form g2 a,c"},
  });
}

TEST(Forming, NodeRankZeroLostWhileFormingIsLikeAnyOther) {
  JobStory story("2:3");
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.0, Attends("b"), ""},
      {0.0, Attends("c"), "form g1 a,b,c"},
      {0.1, Breaks("a"), ""},
      {1.1, Ticks(), "abort g1 LOST_STREAM; form g2 b,c"},
  });
}

TEST(Forming, AMemberThatRedialsIsToldItsProposalAgain) {
  JobStory story("2");
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.0, Attends("b"), "form g1 a,b"},
      {0.1, Breaks("b"), ""},
      {0.2, Attends("b"), "form g1 a,b"},
      {0.3, PreparesAll({"a", "b"}, 1), "run g1"},
  });
}

TEST(Forming, MissingPeersAreNamedWhenTheTimeIsOver) {
  JobStory story("3");
  story.Tell({
      {0.0, Attends("a"), ""},
      {300.0, Ticks(300), ""},
      {599.0, Ticks(299), ""},
      {600.0, Ticks(1), "end 69 JOIN_TIMEOUT"},
      {600.1, SeesEnd("a"), "forget"},
  });
  EXPECT_NE(story.job().end()->reason().find("2 nodes that never attended"),
            std::string::npos);
}

// --- A job that no node attends ----------------------------------------------

TEST(Unattended, AJobOfAHelloThatHasNeverRunEndsWithoutNodes) {
  JobStory story("3");
  story.job().EndUnattended();
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.5, Breaks("a"), ""},
      {1.5, Ticks(), ""},  // Lost: no node attends from here on.
      {61.4, Ticks(), ""},
      {61.4, Attends("b"), ""},  // The time starts again.
      {61.5, Breaks("b"), ""},
      {62.5, Ticks(), ""},
      {122.4, Ticks(), ""},
  });
  EXPECT_EQ(story.job().NextDeadline(),
            absl::UnixEpoch() + absl::Seconds(122.5));
  story.Tell({{122.5, Ticks(), "forget"}});
  ASSERT_TRUE(story.job().end().has_value());
  EXPECT_EQ(story.job().end()->exit_code(), 69);
  EXPECT_EQ(story.job().end()->code(), v1::REASON_CODE_JOIN_TIMEOUT);
}

TEST(Unattended, AJobThatHasRunWaitsForItsNodes) {
  JobStory story("1");
  story.job().EndUnattended();
  story.Tell({
      {0.0, Attends("a"), "form g1 a"},
      {0.1, Prepares("a", 1), "run g1"},
      {0.5, Breaks("a"), ""},
      {1.5, Ticks(), ""},
      {599.0, Ticks(), ""},
      {601.5, Ticks(), "forget"},  // join_timeout is over.
  });
}

TEST(Unattended, ALaunchersJobWaitsForItsFirstNode) {
  JobStory story("3");
  story.Tell({{0.0, Ticks(), ""}, {599.0, Ticks(), ""}});
  EXPECT_FALSE(story.job().end().has_value());
}

// --- Addresses ---------------------------------------------------------------

TEST(Addresses, ANodeTakesNoOtherNodesAddressAway) {
  JobStory story("2");
  story.Tell(
      {{0.0, Attends("a"), ""},
       {0.0, Attends("b", 1, {.claims_address_of = "a"}), "form g1 a,b"}});
  const v1::World world = story.ProposedWorld();
  ASSERT_EQ(world.members_size(), 2);
  EXPECT_EQ(world.members(0).address(), AddressOf("a"));
  EXPECT_EQ(world.members(1).address(), AddressOf("b"));
  ASSERT_EQ(world.members(1).addresses_size(), 1);
  EXPECT_EQ(world.members(1).addresses(0), AddressOf("b"));
}

TEST(Addresses, ANodeWithoutOneEndsNoJobThatHasEnoughOthers) {
  JobStory story("2:4");
  story.Tell({{0.0, Attends("a"), ""},
              {0.0, Attends("b"), ""},
              {0.1, Attends("c", 1, {.no_address = true}), ""},
              {1.2, Ticks(), "form g1 a,b"}});
  EXPECT_TRUE(absl::StrContains(story.logs(), "event=spare node=c"))
      << story.logs();
}

TEST(Addresses, ANodeWithoutOneEndsNoJobThatHasTooFew) {
  JobStory story("2");
  story.Tell({{0.0, Attends("a"), ""},
              {0.1, Attends("b", 1, {.no_address = true}), ""},
              {0.2, Attends("c"), "form g1 a,c"}});
  // No other node attends. The reason of the end says why b was not enough.
  JobStory late("2");
  late.Tell({{0.0, Attends("a"), ""},
             {0.1, Attends("b", 1, {.no_address = true}), ""}});
  for (double at = 1.5; at < 599; at += 1.5) {
    late.Tell({{at, Beats("a"), ""}, {at, Beats("b"), ""}});
  }
  late.Tell({{600, Ticks(), "end 69 JOIN_TIMEOUT"}});
  EXPECT_TRUE(absl::StrContains(late.job().end()->reason(),
                                "no address that peers could use on b"))
      << late.job().end()->reason();
}

// The launcher's own agent always has a seat, so no world can be formed.
TEST(Addresses, AJobWhoseLauncherHasNoneEnds) {
  JobStory story("2");
  story.Tell({{0.0, Attends("a"), ""},
              {0.1, Attends("l", 1, {.launcher = true, .no_address = true}),
               "end 69 NO_ADDRESS"}});
}

}  // namespace
}  // namespace rollcall
