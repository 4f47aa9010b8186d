// The daemon's side of the protocol, sentence by sentence.
#include "tests/story/job_story.h"

#include <gtest/gtest.h>

#include <csignal>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/unit/heap.h"

namespace rollcall {
namespace {

using Row = JobStory::Row;

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

TEST(Forming, BetweenMinAndMaxTheLastCallDecides) {
  JobStory story("2:4");
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.1, Attends("b"), ""},
      {1.0, Ticks(), ""},
      {1.05, Attends("c"), ""},  // The call begins anew.
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
      {10.0, Beats("a"), ""},
      {10.0, Beats("b"), ""},
      {10.0, Beats("c"), ""},
      {30.0, Ticks(28), "abort g1 PREPARE_TIMEOUT; form g2 a,b"},
      // Too late for generation 1, and the next one may have it again.
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
      {10.0, Beats("a"), ""},
      {10.0, Beats("b"), ""},
      {10.0, Beats("c"), ""},
      {30.0, Ticks(28), "abort g1 PREPARE_TIMEOUT"},
      {31.0, Beats("a"), ""},
      {31.0, Beats("b"), ""},
      {31.0, Beats("c"), ""},
      {34.0, Beats("a"), ""},
      {34.0, Beats("b"), ""},
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
              {2.0, Beats("a"), ""},
              {2.0, Beats("b"), ""},
              {5.0, Ticks(), ""},
              {5.1, Ticks(), "form g2 a,b"},
              {5.2, Refuses("b", 2), "abort g2 REFUSED"},
              {8.0, Beats("a"), ""},
              {8.0, Beats("b"), ""},
              {10.2, Ticks(), "form g3 a,b"},
              {10.3, Refuses("b", 3), "abort g3 REFUSED"},
              {12.0, Beats("a"), ""},
              {12.0, Beats("b"), ""},
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
      {1.2, Attends("c"), ""},  // The last call counts again.
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

// --- A job that nobody attends -----------------------------------------------

TEST(Unattended, AJobOfAHelloThatHasNeverRunEndsWithoutNodes) {
  JobStory story("3");
  story.job().EndUnattended();
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.5, Breaks("a"), ""},
      {1.5, Ticks(), ""},  // Lost; from here on it is unattended.
      {61.4, Ticks(), ""},
      {61.4, Attends("b"), ""},  // The time begins anew.
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
      {601.5, Ticks(), "forget"},  // By join_timeout.
  });
}

TEST(Unattended, ALaunchersJobWaitsForItsFirstNode) {
  JobStory story("3");
  story.Tell({{0.0, Ticks(), ""}, {599.0, Ticks(), ""}});
  EXPECT_FALSE(story.job().end().has_value());
}

// --- Names, lives, runs ------------------------------------------------------

TEST(Identity, ALivingNameIsTakenAndALostOneIsNot) {
  JobStory story("3");
  story.Tell({
      {0.0, Attends("a", 1), ""},
      {0.1, Attends("a", 2), "refuse a NAME_TAKEN"},
  });
  JobStory broken("1:2");
  broken.Tell({
      {0.0, Attends("a", 1), ""},
      {0.1, Breaks("a"), ""},
      {0.2, Attends("a", 2), "refuse a UNSPECIFIED"},
      {1.1, Ticks(), ""},
      {1.2, Attends("a", 2), ""},
      {2.2, Ticks(), "form g1 a"},
  });
}

// Any worker's token could take the place in the moment in which a stream
// breaks. Its own agent comes back with a credential.
TEST(Identity, ATokenTakesNoNameWhoseAgentMayComeBack) {
  JobStory story("2:3");
  story.Tell(ThreeRun());
  story.Tell({
      {1.0, Breaks("b"), ""},
      {1.0, Attends("b", 2), "refuse b UNSPECIFIED"},
      {1.9, Attends("b", 2), "refuse b UNSPECIFIED"},
      {1.9, Attends("b", 1, Holds(0, 1)), ""},
      {2.0, Attends("b", 2), "refuse b NAME_TAKEN"},
  });
  EXPECT_EQ(story.job().state(), v1::JOB_STATE_RUNNING);
  JobStory lost("2:3");
  lost.Tell(ThreeRun());
  lost.Tell({
      {1.0, Breaks("b"), ""},
      {1.9, Attends("b", 2), "refuse b UNSPECIFIED"},
      {2.0, Ticks(), "abort g1 LOST_STREAM; form g2 a,c"},
      {2.1, Attends("b", 2), ""},
  });
}

// The launcher's agent comes back by its admin's token, too.
TEST(Identity, TheLaunchersAgentWaitsForNoGrace) {
  HelloOptions launcher;
  launcher.launcher = true;
  JobStory story("2");
  story.Tell({
      {0.0, Attends("a", 1, launcher), ""},
      {0.0, Attends("b"), "form g1 a,b"},
      {0.1, PreparesAll({"a", "b"}, 1), "run g1"},
      {0.2, Breaks("a"), ""},
      {0.3, Attends("a", 2, launcher), "abort g1 REPLACED; form g2 a,b"},
  });
}

// A worker's token keeps no launcher from its own node's name.
TEST(Identity, TheLaunchersAgentTakesItsNameFromAWorkers) {
  HelloOptions launcher;
  launcher.launcher = true;
  // The answer is to the one whose name it was.
  const auto takes = [&](uint64_t incarnation) -> Told {
    return [=](JobStory& story) {
      Attend attend;
      attend.hello = HelloOf("a", incarnation, launcher);
      attend.observed_address = AddressOf("a");
      attend.session = story.NewSession("a");
      return story.Step(attend);
    };
  };
  JobStory story("2");
  story.Tell({
      {0.0, Attends("a", 1), ""},
      {0.0, Attends("b"), "form g1 a,b"},
      {0.1, PreparesAll({"a", "b"}, 1), "run g1"},
      {0.2, takes(2), "refuse a NAME_TAKEN; abort g1 REPLACED; form g2 a,b"},
      {0.3, PreparesAll({"a", "b"}, 2), "run g2"},
      // A second launcher does not take it from the first.
      {0.4, takes(3), "refuse a NAME_TAKEN"},
  });
}

TEST(Identity, TheLaunchersNameStaysItsOwnWhileItIsAway) {
  HelloOptions launcher;
  launcher.launcher = true;
  JobStory story("1:2");
  story.Tell({
      {0.0, Attends("a", 1, launcher), ""},
      {0.0, Attends("b"), "form g1 a,b"},
      {0.1, PreparesAll({"a", "b"}, 1), "run g1"},
      {0.2, Breaks("a"), ""},
      {1.2, Ticks(), "abort g1 LOST_STREAM; form g2 b"},
      {1.3, Attends("a", 2), "refuse a NAME_TAKEN"},
      {1.4, Attends("a", 3, launcher), ""},
  });
}

TEST(Identity, TheNextLifeOfAMemberEndsItsGeneration) {
  JobStory story("2");
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.0, Attends("b", 1), "form g1 a,b"},
      {0.1, PreparesAll({"a", "b"}, 1), "run g1"},
      {0.2, Breaks("b"), ""},
      {0.3, Attends("b", 2, NextOf(1)), "abort g1 REPLACED; form g2 a,b"},
  });
}

TEST(Identity, WhoComesBackWithoutItsWorldWaitsLongerEachTime) {
  JobStory story("2:3");
  story.Tell(ThreeRun());
  story.Tell({
      {0.5, Attends("b", 1, Holds(0, 0)),
       "refuse b REDIALED; abort g1 LOST_STREAM; form g2 a,c"},
      {0.6, PreparesAll({"a", "c"}, 2), "run g2"},
      {0.7, Stops("b", 1), "notice 1 GROW"},
      {1.8, Sees("a", 1, 2), ""},
      {1.8, Sees("c", 1, 2), "abort g2 GROW; form g3 a,b,c"},
      {1.9, PreparesAll({"a", "b", "c"}, 3), "run g3"},
      {2.0, Attends("b", 1, Holds(0, 0)),
       "refuse b REDIALED; abort g3 LOST_STREAM; form g4 a,c"},
      {2.1, PreparesAll({"a", "c"}, 4), "run g4"},
      {2.2, Stops("b", 3), ""},
      {2.9, Beats("a"), ""},
      {3.0, Beats("b"), "notice 2 GROW"},
  });
}

TEST(Identity, AReplacedLifeThatWakesUpIsToldSo) {
  JobStory story("2");
  HelloOptions known;
  known.run = "run1";
  story.Tell({
      {0.0, Attends("b", 1), ""},
      {0.1, Breaks("b"), ""},
      {0.2, Attends("b", 2, NextOf(1)), ""},
      {0.3, Attends("b", 1, known), "refuse b REPLACED"},
  });
}

TEST(Identity, ALifeDoesNotChangeItsRanks) {
  JobStory story("2");
  HelloOptions two;
  two.ranks = 2;
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.1, Attends("a", 1, two), "refuse a INVALID"},
  });
}

TEST(Identity, AnotherRunIsFenced) {
  JobStory story("2");
  HelloOptions other;
  other.run = "run0";
  story.Tell({{0.0, Attends("a", 1, other), "refuse a OTHER_RUN"}});
}

TEST(Identity, ContradictingSettingsAreRefused) {
  JobStory story("2");
  HelloOptions other;
  other.settings.set_nodes_max(5);
  HelloOptions same;
  same.settings.set_nodes_max(2);
  story.Tell({
      {0.0, Attends("a", 1, other), "refuse a SETTINGS"},
      {0.1, Attends("a", 1, same), ""},
  });
}

TEST(Identity, GenerationsGoOnAboveTheHighestSeen) {
  JobStory story("1");
  HelloOptions seen;
  seen.generation_seen = 41;
  story.Tell({{0.0, Attends("a", 1, seen), "form g42 a"}});
}

// --- Loss --------------------------------------------------------------------

TEST(Loss, ABrokenStreamIsLostAfterTheGrace) {
  JobStory story("2:3");
  story.Tell(ThreeRun());
  story.Tell({
      {1.0, Breaks("b"), ""},
      {1.9, Ticks(), ""},
      {2.0, Ticks(), "abort g1 LOST_STREAM; form g2 a,c"},
      {2.1, PreparesAll({"a", "c"}, 2), "run g2"},
  });
  const v1::JobStatus status = story.job().Status(story.now());
  EXPECT_EQ(status.last_reform().node(), "b");
  EXPECT_EQ(status.last_reform().code(), v1::REASON_CODE_LOST_STREAM);
  EXPECT_EQ(status.nodes(1).state(), v1::NODE_STATE_LOST);
  EXPECT_EQ(status.restarts_charged(), 0u);
}

TEST(Loss, AStreamThatIsBackInTimeCostsNothing) {
  JobStory story("2:3");
  story.Tell(ThreeRun());
  HelloOptions held;
  held.run = "run1";
  held.held.set_running_generation(1);
  story.Tell({
      {1.0, Breaks("b"), ""},
      {1.5, Attends("b", 1, held), ""},
      {2.5, Ticks(), ""},
  });
  EXPECT_EQ(story.job().state(), v1::JOB_STATE_RUNNING);
}

TEST(Loss, SilenceIsLostWhenTheLeaseEnds) {
  JobStory story("2:3");
  story.Tell(ThreeRun());
  story.Tell({
      {4.0, Beats("a"), ""},
      {4.0, Beats("c"), ""},
      {5.05, Ticks(), ""},
      {5.1, Ticks(), "refuse b LOST; abort g1 LOST_LEASE; form g2 a,c"},
      {5.2, Attends("b", 1), "refuse b LOST"},  // It must draw a new life,
      {5.3, Attends("b", 2), ""},               // and is a spare then.
  });
}

TEST(Loss, ALateLoopBlamesNobody) {
  JobStory story("2:3");
  story.Tell(ThreeRun());
  story.Tell({
      {60.0, Ticks(55), ""},  // 5 s of it were the agents' own.
      {60.0, Beats("a"), ""},
      {60.0, Beats("b"), ""},
      {60.0, Beats("c"), ""},
  });
  EXPECT_EQ(story.job().state(), v1::JOB_STATE_RUNNING);
}

TEST(Loss, BelowMinTheRestGathersAndTheLostAreNamed) {
  JobStory story("3");
  story.Tell(ThreeRun());
  story.Tell({
      {1.0, Breaks("b"), ""},
      {2.0, Ticks(), "abort g1 LOST_STREAM"},
      {3.0, Ticks(), ""},
      {300.0, Ticks(297), ""},
      {602.0, Ticks(302), "end 69 JOIN_TIMEOUT"},
  });
  EXPECT_NE(story.job().end()->reason().find("missing: b"), std::string::npos)
      << story.job().end()->reason();
}

TEST(Loss, SeatsAreStickyAndASpareTakesTheEmptyOne) {
  JobStory story("2:3");
  story.Tell(ThreeRun());
  HelloOptions held;
  held.run = "run1";
  story.Tell({
      {0.2, Attends("d"), ""},  // A spare: the world is full.
      {1.0, Breaks("a"), ""},
      {2.0, Ticks(), "abort g1 LOST_STREAM; form g2 d,b,c"},
      {2.1, PreparesAll({"d", "b", "c"}, 2), "run g2"},
      {3.0, Attends("a", 2), ""},  // Who comes back has no claim.
      {3.0, Beats("b"), ""},
      {3.1, Breaks("c"), ""},
      {4.1, Ticks(), "abort g2 LOST_STREAM; form g3 d,b,a"},
  });
}

// --- Failure -----------------------------------------------------------------

TEST(Failure, ARankThatFailsIsRestartedUntilTheBudgetIsEmpty) {
  JobStory story("1", /*max_restarts=*/1);
  story.Tell({
      {0.0, Attends("a"), "form g1 a"},
      {0.1, Prepares("a", 1), "run g1"},
      {0.2, Exits("a", 1, 3), "abort g1 RANK_EXIT; form g2 a"},
      {0.3, Stops("a", 1), ""},
      {0.4, Prepares("a", 2), "run g2"},
      {0.5, Exits("a", 2, 4), "abort g2 RANK_EXIT"},
      {0.6, Stops("a", 2), "end 4 RESTART_BUDGET"},
      {0.7, SeesEnd("a"), "forget"},
  });
  EXPECT_EQ(story.job().end()->causes_size(), 2);
  EXPECT_EQ(story.job().end()->root_cause().node(), "a");
  EXPECT_EQ(story.job().end()->root_cause().value(), 4);
}

TEST(Failure, WithoutABudgetItsOwnCodeIsTheEnd) {
  JobStory story("2", 0);
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.0, Attends("b"), "form g1 a,b"},
      {0.1, PreparesAll({"a", "b"}, 1), "run g1"},
      {0.2, Exits("b", 1, 0, SIGSEGV), "abort g1 RANK_SIGNAL"},
      {0.3, Stops("b", 1), ""},
      {0.4, Stops("a", 1), "end 139 RANK_SIGNAL"},
  });
}

TEST(Failure, TheHeavierCauseWithinALeaseTakesTheBlame) {
  JobStory story("2", 0);
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.0, Attends("b"), "form g1 a,b"},
      {0.1, PreparesAll({"a", "b"}, 1), "run g1"},
      {0.2, Exits("a", 1, 1, 0, 0, "Connection reset by peer"),
       "abort g1 RANK_COMMUNICATION"},
      {0.3, Stops("a", 1), ""},
      {0.4, Exits("b", 1, 0, SIGKILL), ""},
      {0.5, Stops("b", 1), "end 137 RANK_SIGNAL"},
  });
  EXPECT_EQ(story.job().end()->root_cause().node(), "b");
}

TEST(Failure, ALostNodeOutranksAFailureAndCostsNothing) {
  JobStory story("1:2", 0);
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.0, Attends("b"), "form g1 a,b"},
      {0.1, PreparesAll({"a", "b"}, 1), "run g1"},
      {0.2, Exits("a", 1, 1, 0, 0, "ncclRemoteError"),
       "abort g1 RANK_COMMUNICATION"},
      {0.3, Stops("a", 1), ""},
      {0.4, Breaks("b"), ""},
      {1.4, Ticks(), "form g2 a"},
  });
  EXPECT_EQ(story.job().Status(story.now()).root_cause().node(), "b");
}

TEST(Failure, TheReformIsBlamedOnTheLostNodeAndNotOnWhoNoticed) {
  JobStory story("1:2", 3);
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.0, Attends("b"), "form g1 a,b"},
      {0.1, PreparesAll({"a", "b"}, 1), "run g1"},
      {0.2, Breaks("b"), ""},
      // a's collective fails long before b's grace is over.
      {0.3, Exits("a", 1, 1, 0, 0, "Connection closed by peer"),
       "abort g1 RANK_COMMUNICATION"},
      {1.2, Ticks(), "form g2 a"},
  });
  const v1::JobStatus status = story.job().Status(story.now());
  EXPECT_EQ(status.last_reform().node(), "b");
  EXPECT_EQ(status.last_reform().code(), v1::REASON_CODE_LOST_STREAM);
  EXPECT_EQ(status.root_cause().node(), "b");
  EXPECT_EQ(status.restarts_charged(), 0u);
}

TEST(Failure, AChargeIsGivenBackWhenANodeWasLost) {
  JobStory story("1:2", 3);
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.0, Attends("b"), "form g1 a,b"},
      {0.1, PreparesAll({"a", "b"}, 1), "run g1"},
      {0.2, Exits("a", 1, 1), "abort g1 RANK_EXIT; form g2 a,b"},
      {0.4, Breaks("b"), ""},
      {1.4, Ticks(), "abort g2 LOST_STREAM; form g3 a"},
  });
  EXPECT_EQ(story.job().Status(story.now()).restarts_charged(), 0u);
}

TEST(Failure, ProgressRefillsTheBudget) {
  JobStory story("1", 1);
  story.Tell({
      {0.0, Attends("a"), "form g1 a"},
      {0.1, Prepares("a", 1), "run g1"},
      {0.2, Exits("a", 1, 3), "abort g1 RANK_EXIT; form g2 a"},
      {0.4, Prepares("a", 2), "run g2"},
      {0.5, Beats("a", 7), ""},
      {0.6, Exits("a", 2, 3), "abort g2 RANK_EXIT; form g3 a"},
      {0.7, Prepares("a", 3), "run g3"},
      {0.8, Beats("a", 7), ""},  // The same step again is none.
      {0.9, Exits("a", 3, 3), "abort g3 RANK_EXIT"},
  });
}

TEST(Failure, ASparesStepsRefillNoBudget) {
  JobStory story("1", 1);
  story.Tell({
      {0.0, Attends("a"), "form g1 a"},
      {0.1, Prepares("a", 1), "run g1"},
      {0.1, Attends("s"), ""},
      {0.2, Exits("a", 1, 3), "abort g1 RANK_EXIT; form g2 a"},
      {0.4, Prepares("a", 2), "run g2"},
      {0.5, Beats("s", 7), ""},
      {0.6, Exits("a", 2, 3), "abort g2 RANK_EXIT"},
  });
}

TEST(Failure, ACommandThatCannotRunIsNotTriedAgain) {
  JobStory story("1", 3);
  story.Tell({
      {0.0, Attends("a"), "form g1 a"},
      {0.1, Prepares("a", 1), "run g1"},
      {0.2, Exits("a", 1, 127), "abort g1 NOT_STARTED"},
      {0.3, Stops("a", 1), "end 127 NOT_STARTED"},
  });
}

TEST(Failure, WhatWouldFailAgainIsNotTriedAgain) {
  JobStory story("2", 3);
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.1, Attends("b"), "form g1 a,b"},
      {0.2, PreparesAll({"a", "b"}, 1), "run g1"},
      {0.3, ExitsForGood("b", 1, 30), "abort g1 RANK_EXIT"},
      {0.4, ExitsForGood("a", 1, 30), ""},
      {0.5, Stops("a", 1), ""},
      {0.6, Stops("b", 1), "end 30 RANK_EXIT"},
  });
}

TEST(Failure, OldGenerationsSpeakInVain) {
  JobStory story("1", 3);
  story.Tell({
      {0.0, Attends("a"), "form g1 a"},
      {0.1, Prepares("a", 1), "run g1"},
      {0.2, Exits("a", 1, 3), "abort g1 RANK_EXIT; form g2 a"},
      {0.4, Prepares("a", 2), "run g2"},
      {0.5, Exits("a", 1, 3), ""},
      {0.6, Refuses("a", 1), ""},
      {0.7, Prepares("a", 1), ""},
  });
  EXPECT_EQ(story.job().state(), v1::JOB_STATE_RUNNING);
}

// --- The end -----------------------------------------------------------------

TEST(Ending, AllRanksExitZero) {
  JobStory story("2");
  HelloOptions two;
  two.ranks = 2;
  story.Tell({
      {0.0, Attends("a", 1, two), ""},
      {0.0, Attends("b"), "form g1 a,b"},
      {0.1, PreparesAll({"a", "b"}, 1), "run g1"},
      {0.2, Exits("a", 1, 0, 0, 0), ""},
      {0.2, Exits("a", 1, 0, 0, 0), ""},  // A retry is not a second rank.
      {0.3, Exits("b", 1, 0), ""},
      {0.4, Exits("a", 1, 0, 0, 1), "end 0 FINISHED"},
      {0.5, SeesEnd("a"), ""},
      {0.6, SeesEnd("b"), "forget"},
  });
}

TEST(Ending, ANodeWhoseWorkIsDoneMayGo) {
  JobStory story("2");
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.0, Attends("b"), "form g1 a,b"},
      {0.1, PreparesAll({"a", "b"}, 1), "run g1"},
      {0.2, Exits("a", 1, 0), ""},
      {0.3, Breaks("a"), ""},
      {1.3, Ticks(), ""},
      {1.4, Exits("b", 1, 0), "end 0 FINISHED"},
  });
}

TEST(Ending, WhoComesAfterTheEndIsToldIt) {
  JobStory story("1");
  story.Tell({
      {0.0, Attends("a"), "form g1 a"},
      {0.1, Prepares("a", 1), "run g1"},
      {0.2, Exits("a", 1, 0), "end 0 FINISHED"},
      {0.3, Attends("b"), "end 0 FINISHED"},
      {0.4, SeesEnd("b"), ""},
      {0.5, SeesEnd("a"), "forget"},
  });
}

TEST(Ending, WhoHasHeardOfItCountsAmongThoseThatAreRemembered) {
  JobStory story("1");
  story.Tell({{0.0, Attends("a"), "form g1 a"},
              {0.1, StopIsAsked(3), "end 3 STOPPED"}});
  constexpr size_t kMost = Limits::nodes_max + Limits::lost_names_max;
  for (size_t i = 1; i < kMost; ++i) {
    const std::string name = absl::StrCat("n", i);
    ASSERT_EQ(Attends(name)(story), "end 3 STOPPED");
    ASSERT_EQ(SeesEnd(name)(story), "");
  }
  EXPECT_EQ(Attends("late")(story), "refuse late LIMIT");
}

TEST(Ending, LingersForTheDeafOneLeaseAtMost) {
  JobStory story("1");
  story.Tell({
      {0.0, Attends("a"), "form g1 a"},
      {0.1, Prepares("a", 1), "run g1"},
      {0.2, Exits("a", 1, 0), "end 0 FINISHED"},
      {5.1, Ticks(), ""},
      {5.2, Ticks(), "forget"},
  });
}

// While ranks stop, those that attend have their grace for it; who is away has
// one lease to come back and hear of it, and nobody waits longer for him.
TEST(Ending, WhoIsAwayIsWaitedForOneLeaseAlone) {
  JobStory story("2");
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.0, Attends("b"), "form g1 a,b"},
      {0.1, PreparesAll({"a", "b"}, 1), "run g1"},
      {0.5, Breaks("b"), ""},
      {0.9, StopIsAsked(143), "notice 1 PREEMPT"},
      {1.0, StopIsAskedNow(143), "end 143 STOPPED"},
      {2.0, SeesEnd("a"), ""},
      {5.9, Ticks(), ""},
      {6.0, Ticks(), "forget"},
  });
}

TEST(Ending, StopEndsTheJobWithItsCode) {
  JobStory story("2");
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.1, StopIsAsked(130), "end 130 STOPPED"},
      {0.2, StopIsAsked(1), ""},
  });
}

TEST(Ending, WhoHasNoPatienceIsHeardTwice) {
  JobStory story("2");
  const auto stop = [](bool now) {
    return [now](JobStory& s) {
      return s.Step(StopAsked{130, v1::REASON_CODE_STOPPED, "asked", now});
    };
  };
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.1, stop(false), "end 130 STOPPED"},
      {0.2, stop(true), "end 130 STOPPED"},
      {0.3, stop(true), ""},
  });
}

TEST(Ending, ALeavingNodeGoesAndTheRestGoesOn) {
  JobStory story("2:3");
  story.Tell(ThreeRun());
  story.Tell({
      {1.0, Leaves("b"), "notice 1 DRAIN b"},
      {1.0, Sees("a", 1), ""},
      {1.0, Sees("b", 1), ""},
      {1.0, Sees("c", 1), "abort g1 LEAVING; form g2 a,c"},
      {1.1, Stops("b", 1), "end 0 LEAVING"},
      {1.2, Breaks("b"), ""},
      {1.3, PreparesAll({"a", "c"}, 2), "run g2"},
  });
}

TEST(Ending, ASpareThatWasNeverUsedExitsZero) {
  JobStory story("2", 0);
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.0, Attends("b"), "form g1 a,b"},
      {0.1, PreparesAll({"a", "b"}, 1), "run g1"},
      {0.2, Attends("c"), ""},
      {0.3, Exits("a", 1, 3), "abort g1 RANK_EXIT"},
      {0.4, Stops("a", 1), ""},
      {0.5, Stops("b", 1), "end 3 RANK_EXIT; end 0 RANK_EXIT"},
  });
}

// b served, was given up and attends again by the same agent: a spare now.
std::vector<JobStory::Row> ServedAndSpare() {
  return {
      {0.0, Attends("a"), ""},
      {0.0, Attends("b"), "form g1 a,b"},
      {0.1, PreparesAll({"a", "b"}, 1), "run g1"},
      {0.2, Attends("c"), ""},
      {1.0, Breaks("b"), ""},
      {2.0, Ticks(), "abort g1 LOST_STREAM; form g2 a,c"},
      {2.1, PreparesAll({"a", "c"}, 2), "run g2"},
      {2.2, Attends("b", 2, NextOf(1)), ""},
  };
}

TEST(Ending, ASpareThatHasServedExitsAsTheJob) {
  JobStory story("2");
  story.Tell(ServedAndSpare());
  story.Tell({{2.3, StopIsAskedNow(7), "end 7 STOPPED"}});
}

TEST(Ending, ASpareThatServedBeforeADaemonsRestartExitsAsTheJob) {
  JobStory before("2");
  before.Tell(ServedAndSpare());
  const auto end = [&](uint64_t generation_seen) {
    JobStory story(Job::Restore("demo", StateOf(before, true), Limits(),
                                absl::UnixEpoch()),
                   before);
    HelloOptions spare = Holds(0, 0);
    spare.generation_seen = generation_seen;
    story.Tell({
        {0.1, Attends("a", 1, Holds(0, 2)), ""},
        {0.1, Attends("c", 1, Holds(0, 2)), ""},
        {0.1, Attends("b", 2, spare), ""},
    });
    return StopIsAskedNow(7)(story);
  };
  EXPECT_EQ(end(1), "end 7 STOPPED");
  EXPECT_EQ(end(0), "end 7 STOPPED; end 0 STOPPED");
}

TEST(Ending, LeavingBetweenGenerationsEndsTheJobForRequeueToo) {
  JobStory story("2:3");
  story.Tell(ThreeRun());
  story.Tell({
      {1.0, Breaks("a"), ""},
      {1.5, Breaks("b"), ""},
      // a's verdict is in; b's is waited for, and nothing is formed.
      {2.0, Ticks(), "abort g1 LOST_STREAM"},
      {2.1, Leaves("c"), "end 75 REQUEUE"},
  });
}

TEST(Ending, ANodeThatIsDoneLeavesWithoutHarm) {
  JobStory story("2");
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.0, Attends("b"), "form g1 a,b"},
      {0.1, PreparesAll({"a", "b"}, 1), "run g1"},
      {0.2, Exits("a", 1, 0), ""},
      {0.3, Leaves("a"), "end 0 LEAVING"},
      {0.4, Breaks("a"), ""},
      {0.5, Exits("b", 1, 0), "end 0 FINISHED"},
  });
}

TEST(Ending, BelowMinALeavingNodeEndsTheJobForRequeue) {
  JobStory story("3");
  story.Tell(ThreeRun());
  story.Tell({
      {1.0, Leaves("b"), "notice 1 PREEMPT b"},
      {1.1, Sees("a", 1), ""},
      {1.1, Sees("b", 1), ""},
      {1.1, Sees("c", 1), "end 75 REQUEUE"},
  });
}

// --- Exchange ----------------------------------------------------------------

TEST(Exchange, AllInThenAllOut) {
  JobStory story("2");
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.0, Attends("b"), "form g1 a,b"},
      {0.1, Gives("a", 1, "k", "x"), ""},  // Nothing runs yet.
      {0.1, PreparesAll({"a", "b"}, 1), "run g1"},
      {0.2, Gives("a", 1, "k", "x"), ""},
      {0.3, Gives("a", 1, "k", "x"), ""},
      {0.4, Gives("b", 1, "k", "y"), "exchange k=x,y"},
      {0.5, Gives("b", 1, "k", "y"), "exchange k=x,y"},  // Asked again.
      // The ranks' mistake fails their call and nothing else.
      {0.6, Gives("b", 1, "k", "z"), "exchange k refused"},
      {0.7, Gives("a", 9, "k", "x"), ""},
  });
}

// --- A daemon that was restarted ---------------------------------------------

TEST(Restart, ACommittedGenerationRunsOn) {
  JobStory before("2:3");
  before.Tell(ThreeRun());
  JobStory after(
      Job::Restore("demo", StateOf(before, true), Limits(), absl::UnixEpoch()),
      before);
  after.Tell({
      {0.1, Attends("a", 1, Holds(0, 1)), ""},
      {0.1, Attends("b", 1, Holds(0, 1)), ""},
      // This one had not heard of the commit.
      {0.1, Attends("c", 1, Holds(1, 0)), "run g1"},
      {0.2, Exits("a", 1, 0), ""},
      {0.2, Exits("b", 1, 0), ""},
      {0.2, Exits("c", 1, 0), "end 0 FINISHED"},
  });
}

TEST(Restart, ExitsThatHappenedMeanwhileCountOnceTheyAreSaidAgain) {
  JobStory before("2:3");
  before.Tell(ThreeRun());
  JobStory after(
      Job::Restore("demo", StateOf(before, true), Limits(), absl::UnixEpoch()),
      before);
  after.Tell({
      {0.1, Attends("a", 1, Holds(0, 1)), ""},
      {0.1, Exits("a", 1, 0), ""},
      {0.1, Attends("b", 1, Holds(0, 1)), ""},
      {0.1, Exits("b", 1, 0), ""},
      {0.1, Attends("c", 1, Holds(0, 1)), ""},
      {0.1, Exits("c", 1, 0), "end 0 FINISHED"},
  });
}

// Their work is done, whether they come back or not.
TEST(Restart, WhoHadFinishedIsNotMissed) {
  JobStory before("2:3");
  before.Tell(ThreeRun());
  before.Tell({{0.2, Exits("b", 1, 0), ""}, {0.3, Ticks(), ""}});
  JobStory after(
      Job::Restore("demo", StateOf(before, true), Limits(), absl::UnixEpoch()),
      before);
  after.Tell({{0.1, Attends("a", 1, Holds(0, 1)), ""},
              {0.1, Attends("c", 1, Holds(0, 1)), ""}});
  for (double t = 1.5; t <= 61; t += 1.5) {
    after.Tell({{t, Beats("a"), ""}, {t, Beats("c"), ""}, {t, Ticks(), ""}});
  }
  after.Tell(
      {{61, Exits("a", 1, 0), ""}, {61, Exits("c", 1, 0), "end 0 FINISHED"}});
  // It may come back, and say again what is known.
  JobStory back(
      Job::Restore("demo", StateOf(before, true), Limits(), absl::UnixEpoch()),
      before);
  back.Tell({{0.1, Attends("b", 1, Holds(0, 1)), ""},
             {0.1, Exits("b", 1, 0), ""},
             {0.1, Attends("a", 1, Holds(0, 1)), ""},
             {0.1, Exits("a", 1, 0), ""},
             {0.1, Attends("c", 1, Holds(0, 1)), ""},
             {0.1, Exits("c", 1, 0), "end 0 FINISHED"}});
}

// A worker's token is good for a node of its own: it takes no member's place in
// a world that a restarted daemon waits for, and so ends no job with success.
TEST(Restart, ATokenIsNoMember) {
  JobStory before("2:3");
  before.Tell(ThreeRun());
  JobStory after(
      Job::Restore("demo", StateOf(before, true), Limits(), absl::UnixEpoch()),
      before);
  HelloOptions token = Holds(0, 1);
  token.by_credential = false;
  after.Tell({
      {0.1, Attends("a", 1, Holds(0, 1)), ""},
      {0.1, Attends("b", 1, Holds(0, 1)), ""},
      {0.1, Exits("a", 1, 0), ""},
      {0.1, Exits("b", 1, 0), ""},
      // By its name, life and world: it is a stranger all the same, and has to
      // wait until c is lost.
      {0.2, Attends("c", 1, token), "refuse c UNSPECIFIED"},
      {0.2, Attends("c", 2, token), "refuse c UNSPECIFIED"},
      {0.3, Attends("c", 1, Holds(0, 1)), ""},
      {0.4, Exits("c", 1, 0), "end 0 FINISHED"},
  });
}

TEST(Restart, ATokenTakesAMembersNameOnceItIsLost) {
  JobStory before("2:3");
  before.Tell(ThreeRun());
  JobStory after(
      Job::Restore("demo", StateOf(before, true), Limits(), absl::UnixEpoch()),
      before);
  after.Tell({
      {0.1, Attends("a", 1, Holds(0, 1)), ""},
      {0.1, Attends("b", 1, Holds(0, 1)), ""},
  });
  for (double t = 1.5; t <= 59; t += 1.5) {
    after.Tell({{t, Beats("a"), ""}, {t, Beats("b"), ""}});
  }
  after.Tell({
      {59.9, Attends("c", 2), "refuse c UNSPECIFIED"},
      {60.0, Ticks(), "abort g1 LOST_STREAM; form g2 a,b"},
      {60.1, PreparesAll({"a", "b"}, 2), "run g2"},
      {60.2, Attends("c", 2), "notice 1 GROW"},
  });
}

TEST(Restart, AnEarlierLifesCredentialIsNoMember) {
  JobStory before("2:3");
  before.Tell({
      {0.0, Attends("a", 7), ""},
      {0.0, Attends("b", 8), ""},
      {0.0, Attends("c", 9), "form g1 a,b,c"},
      {0.1, PreparesAll({"a", "b", "c"}, 1), "run g1"},
  });
  JobStory after(
      Job::Restore("demo", StateOf(before, true), Limits(), absl::UnixEpoch()),
      before);
  after.Tell({
      {0.1, Attends("a", 7, Holds(0, 1)), ""},
      {0.1, Attends("b", 6, Holds(0, 1)), "refuse b UNSPECIFIED"},
      {0.2, Attends("b", 8, Holds(0, 1)), ""},
      {0.3, Attends("b", 6, Holds(0, 1)), "refuse b REPLACED"},
  });
  EXPECT_EQ(after.job().state(), v1::JOB_STATE_RUNNING);
}

TEST(Restart, WhoDoesNotComeBackIsLost) {
  JobStory before("2:3");
  before.Tell(ThreeRun());
  JobStory after(
      Job::Restore("demo", StateOf(before, true), Limits(), absl::UnixEpoch()),
      before);
  after.Tell({
      {0.1, Attends("a", 1, Holds(0, 1)), ""},
      {0.1, Attends("c", 1, Holds(0, 1)), ""},
  });
  for (double t = 1.5; t <= 59; t += 1.5) {
    after.Tell({{t, Beats("a"), ""}, {t, Beats("c"), ""}, {t, Ticks(), ""}});
  }
  after.Tell({
      {59.9, Ticks(), ""},
      {60.0, Ticks(), "abort g1 LOST_STREAM; form g2 a,c"},
  });
}

TEST(Restart, AProposalThatWasNotCommittedIsDropped) {
  JobStory before("2");
  before.Tell({
      {0.0, Attends("a"), ""},
      {0.0, Attends("b"), "form g1 a,b"},
  });
  JobStory after(
      Job::Restore("demo", StateOf(before, false), Limits(), absl::UnixEpoch()),
      before);
  after.Tell({
      {0.1, Attends("a", 1, Holds(1, 0)), ""},
      {0.2, Attends("b", 1, Holds(0, 0)), "form g2 a,b"},
  });
}

TEST(Restart, AMembersNextLifeIsNotTheMember) {
  JobStory before("2:3");
  before.Tell(ThreeRun());
  JobStory after(
      Job::Restore("demo", StateOf(before, true), Limits(), absl::UnixEpoch()),
      before);
  HelloOptions next = Holds(0, 1);
  next.previous_incarnation = 1;
  after.Tell({
      {0.1, Attends("a", 1, Holds(0, 1)), ""},
      {0.1, Attends("b", 1, Holds(0, 1)), ""},
      {0.1, Attends("c", 7, next),
       "abort g1 REPLACED; abort g1 REPLACED; form g2 a,b,c"},
  });
}

Told BeatsWith(std::string node, uint64_t step, double loss) {
  v1::AgentMessage message;
  message.mutable_heartbeat()->set_generation(1);
  message.mutable_heartbeat()->set_step(step);
  message.mutable_heartbeat()->mutable_pace()->set_loss(loss);
  return Says(std::move(node), message);
}

TEST(Status, ThePaceOfRankZeroIsNewsOnlyWhenItIs) {
  JobStory story("3");
  story.Tell(ThreeRun());
  story.Tell(
      {{1.0, BeatsWith("a", 5, 1.5), ""}, {1.0, BeatsWith("b", 5, 9.0), ""}});
  v1::JobStatus status = story.job().Status(story.now());
  EXPECT_EQ(status.pace().loss(), 1.5);
  const uint64_t revision = status.revision();
  story.Tell({
      {2.0, BeatsWith("a", 5, 1.5), ""},
      {2.0, BeatsWith("b", 5, 9.5), ""},  // Not of rank 0.
  });
  EXPECT_EQ(story.job().Status(story.now()).revision(), revision);
  story.Tell({{3.0, BeatsWith("a", 6, 1.25), ""}});
  status = story.job().Status(story.now());
  EXPECT_GT(status.revision(), revision);
  EXPECT_EQ(status.pace().loss(), 1.25);
}

// --- What is kept ------------------------------------------------------------

TEST(Bounds, AJobHasSoManySpares) {
  JobStory story("2");
  std::string answer;
  uint32_t nodes = 0;
  for (; nodes < 2 * Limits::spares_max; ++nodes) {
    answer = Attends(absl::StrCat("n", nodes))(story);
    if (absl::StartsWith(answer, "refuse")) break;
  }
  EXPECT_EQ(nodes, 2 + Limits::spares_max);
  EXPECT_EQ(answer, "refuse n1026 LIMIT");
  // One that goes makes room.
  story.Tell({
      {1.0, Breaks("n7"), ""},
      {1.5, Beats("n0"), ""},
      {1.5, Beats("n1"), ""},
      {2.5, Ticks(), ""},
      {2.6, Attends("late"), ""},
      {2.7, Attends("later"), "refuse later LIMIT"},
  });
}

TEST(Bounds, NoTokenKeepsAllOthersOut) {
  JobStory story("1");
  HelloOptions many;
  many.token_id = "many";
  story.Tell({{0.0, Attends("a"), "form g1 a"}});
  for (uint32_t i = 0; i < Limits::spares_max; ++i) {
    ASSERT_EQ(Attends(absl::StrCat("n", i), 1, many)(story), "") << i;
  }
  // All came at one time: the last one by name.
  story.Tell({
      {0.1, Attends("more", 1, many), "refuse more LIMIT"},
      {0.2, Attends("other"), "refuse n999 LIMIT"},
  });
  const v1::JobStatus status = story.job().Status(story.now());
  size_t attending = 0;
  for (const v1::NodeStatus& node : status.nodes()) {
    attending += node.state() == v1::NODE_STATE_SPARE;
  }
  EXPECT_EQ(attending, Limits::spares_max);
}

constexpr size_t kSmall = 100'000;

// How many bytes more are allocated than before.
size_t Grown(size_t before) {
  const size_t now = HeapBytes();
  return now > before ? now - before : 0;
}

// What protobuf allocates once for all is there before anything is measured.
void MakeDescriptors() { v1::Hello::descriptor(); }

TEST(Memory, SettingsOfAHelloAreNotKept) {
  MakeDescriptors();
  JobStory story("4");
  Attends("first")(story);
  const size_t before = HeapBytes();
  for (int node = 0; node < 8; ++node) {
    HelloOptions options;
    for (int i = 0; i < 1000; ++i) {
      options.settings.add_expected_nodes(std::string(1000, 'n'));
    }
    Attends(absl::StrCat("n", node), 1, options)(story);
  }
  EXPECT_EQ(story.job().Status(story.now()).nodes_size(), 9);
  EXPECT_LT(Grown(before), kSmall);
}

TEST(Memory, FactsOfANodeThatIsGoneAreNotKept) {
  MakeDescriptors();
  JobStory story("20");
  Attends("first")(story);
  const size_t before = HeapBytes();
  for (int node = 0; node < 8; ++node) {
    Attend attend;
    attend.hello = HelloOf(absl::StrCat("n", node), 1);
    attend.observed_address = AddressOf("first");
    attend.session = story.NewSession(attend.hello.node());
    for (int i = 0; i < 250; ++i) {
      attend.hello.mutable_facts()->add_gpus()->set_name(std::string(200, 'g'));
    }
    story.Step(attend);
    if (node == 0) {
      // While it is here, it is needed.
      EXPECT_GT(Grown(before), size_t{50'000});
    }
    v1::AgentMessage leaving;
    leaving.mutable_leaving()->set_reason("over");
    story.Step(Said{attend.session, leaving});
    story.Step(StreamClosed{attend.session});
  }
  EXPECT_EQ(story.job().Status(story.now()).nodes_size(), 9);
  EXPECT_LT(Grown(before), kSmall);
}

}  // namespace
}  // namespace rollcall
