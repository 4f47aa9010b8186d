// Silence, and runs that a daemon has no memory of.
#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/story/job_story.h"

namespace rollcall {
namespace {

using Row = JobStory::Row;

const v1::NodeStatus& RowOf(const v1::JobStatus& status,
                            const std::string& node) {
  for (const v1::NodeStatus& row : status.nodes()) {
    if (row.node() == node) return row;
  }
  ADD_FAILURE() << "no node " << node;
  return status.nodes(0);
}

// --- Silence -----------------------------------------------------------------

std::vector<Row> FourRun() {
  return {
      {0.0, Attends("a"), ""},
      {0.0, Attends("b"), ""},
      {0.0, Attends("c"), ""},
      {0.0, Attends("d"), "form g1 a,b,c,d"},
      {0.1, PreparesAll({"a", "b", "c", "d"}, 1), "run g1"},
  };
}

TEST(Silence, OverHalfOfTheWorldIsTheDaemonsOwn) {
  JobStory story("2:4");
  story.Tell(FourRun());
  story.Tell({
      {2.0, Beats("a"), ""},
      {4.0, Beats("a"), ""},
      {5.1, Ticks(), ""},
  });
  EXPECT_EQ(story.job().state(), v1::JOB_STATE_ISOLATED);
  story.Tell({
      {6.0, Beats("a"), ""},
      {30.0, Ticks(), ""},
      {31.0, Beats("b"), ""},
  });
  // Two of four: half are back.
  EXPECT_EQ(story.job().state(), v1::JOB_STATE_RUNNING);
  story.Tell({
      {31.5, Beats("c"), ""},
      {32.0, Beats("a"), ""},
      {34.0, Beats("a"), ""},
      {34.0, Beats("b"), ""},
      {34.0, Beats("c"), ""},
      // d has one more lease.
      {35.9, Ticks(), ""},
      {36.0, Ticks(), "refuse d LOST; abort g1 LOST_LEASE; form g2 a,b,c"},
  });
}

TEST(Silence, HalfOfTheWorldIsLost) {
  JobStory story("2:4");
  story.Tell(FourRun());
  story.Tell({
      {3.0, Beats("a"), ""},
      {3.0, Beats("b"), ""},
      {5.1, Ticks(),
       "refuse c LOST; abort g1 LOST_LEASE; refuse d LOST; form g2 a,b"},
  });
}

TEST(Silence, NobodyIsWaitedForBeyondDaemonGrace) {
  JobStory story("1:4");
  story.Tell(FourRun());
  for (double t = 1.5; t < 605.1; t += 1.5) {
    story.Tell({{t, Beats("a"), ""}, {t, Ticks(), ""}});
  }
  EXPECT_EQ(story.job().state(), v1::JOB_STATE_ISOLATED);
  story.Tell({{606.0, Ticks(),
               "refuse b LOST; abort g1 LOST_LEASE; refuse c LOST; refuse d "
               "LOST; form g2 a"}});
}

TEST(Silence, AStalledLoopIsolatesNobodyForLess) {
  JobStory story("1:4");
  story.Tell(FourRun());
  for (double t = 1.5; t < 601.0; t += 1.5) {
    story.Tell({{t, Beats("a"), ""}, {t, Ticks(), ""}});
  }
  EXPECT_EQ(story.job().state(), v1::JOB_STATE_ISOLATED);
  // Of daemon_grace, 17 s went by without a chance to hear anybody.
  story.Tell({
      {618.0, Ticks(17), ""},
      {618.0, Beats("a"), ""},
      {621.0, Beats("a"), ""},
      {622.9, Ticks(), ""},
      {623.1, Ticks(),
       "refuse b LOST; abort g1 LOST_LEASE; refuse c LOST; refuse d LOST; "
       "form g2 a"},
  });
}

TEST(Silence, AnIsolatedDaemonStillHearsThatOneWasReplaced) {
  JobStory story("2:4");
  story.Tell(FourRun());
  story.Tell({
      {3.0, Beats("a"), ""},
      {5.1, Ticks(), ""},
      {6.0, Breaks("b"), ""},
      {6.1, Attends("b", 2), "abort g1 REPLACED"},
      // Two of three are still silent.
      {7.0, Ticks(), ""},
  });
  EXPECT_EQ(story.job().state(), v1::JOB_STATE_ISOLATED);
}

TEST(Silence, AnIsolatedDaemonAbortsNobodyForADrain) {
  JobStory story("2:4");
  story.Tell(FourRun());
  story.Tell({
      {3.0, Beats("a"), ""},
      {3.0, Drains("a", 4), "notice 1 DRAIN a"},
      {5.1, Ticks(), ""},
      {7.0, Ticks(), ""},
  });
  EXPECT_EQ(story.job().state(), v1::JOB_STATE_ISOLATED);
  EXPECT_GT(story.job().NextDeadline(), story.now());
  story.Tell({
      {8.0, Beats("b"), ""},
      {8.0, Ticks(), "abort g1 LEAVING; form g2 b,c,d"},
  });
}

TEST(Silence, AnIsolatedDaemonSettlesAFailure) {
  JobStory story("2:4", /*max_restarts=*/0);
  story.Tell(FourRun());
  story.Tell({
      {3.0, Beats("a"), ""},
      {5.1, Ticks(), ""},
      {6.0, Exits("a", 1, 7), "abort g1 RANK_EXIT"},
  });
  EXPECT_LE(story.job().NextDeadline(), story.now() + Limits().lease);
  story.Tell({{11.0, Ticks(), "end 7 RANK_EXIT"}});
}

TEST(Silence, OneThatBreaksAgainAndAgainIsStillOne) {
  JobStory story("2:4");
  story.Tell(FourRun());
  HelloOptions held = Holds(0, 1);
  story.Tell({
      {1.0, Breaks("a"), ""},
      {1.1, Attends("a", 1, held), ""},
      {1.2, Breaks("a"), ""},
      {1.3, Attends("a", 1, held), ""},
      {1.4, Breaks("a"), ""},
      {2.3, Ticks(), ""},
      {2.4, Ticks(), "abort g1 LOST_STREAM; form g2 b,c,d"},
  });
}

TEST(Silence, ManyStreamsThatBreakAtOnceAreLeftToTheLeases) {
  JobStory story("2:4");
  story.Tell(FourRun());
  HelloOptions held = Holds(0, 1);
  story.Tell({
      {1.0, Breaks("a"), ""},
      {1.1, Breaks("b"), ""},
      {1.2, Breaks("c"), ""},
      {2.5, Ticks(), ""},  // Beyond reconnect_grace.
      {3.0, Attends("a", 1, held), ""},
      {3.0, Attends("b", 1, held), ""},
      {3.0, Attends("c", 1, held), ""},
  });
  EXPECT_EQ(story.job().state(), v1::JOB_STATE_RUNNING);
}

// --- A run that this daemon has no memory of ---------------------------------

struct Remembered {
  JobStory before{"2:3"};
  HelloOptions held = Holds(0, 1);

  Remembered() {
    before.Tell(ThreeRun());
    const JournalState state = StateOf(before, true);
    held.held.set_world(state.proposal->world());
    held.held.set_seal(state.seal->SerializeAsString());
  }
  static JobStory Blank(bool may_adopt = true) {
    v1::JobSettings settings;
    settings.set_nodes_min(2);
    settings.set_nodes_max(3);
    Job job("demo", "run2", settings, Limits(), absl::UnixEpoch());
    if (may_adopt) job.AllowAdoption();
    return JobStory(std::move(job), JobStory("1"));
  }
};

TEST(Adoption, OverHalfOfTheMembersBringTheSameBytes) {
  Remembered run;
  JobStory story = Remembered::Blank();
  story.Tell({
      {0.0, Attends("a", 1, run.held), ""},
      {0.1, Attends("a", 1, run.held), "refuse a REDIALED"},
      {0.2, Attends("b", 1, run.held), ""},
  });
  EXPECT_EQ(story.job().run(), "run1");
  EXPECT_EQ(story.job().state(), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(story.job().Status(story.now()).generation(), 1u);
  // The next daemon goes on above what the lost one can have proposed.
  EXPECT_EQ(story.journal().at(Journal::Kind::kCommitted).generation, 1001u);
  Job next = Job::Restore(
      "demo",
      [&] {
        JournalState state = StateOf(story, true);
        state.run = "run1";
        return state;
      }(),
      Limits(), story.now());
  EXPECT_EQ(next.Status(story.now()).generation(), 1u);
  story.Tell({
      {0.5, Attends("c", 1, run.held), ""},
      // Above all that the lost daemon can have proposed.
      {0.6, Exits("a", 1, 3), "abort g1 RANK_EXIT; form g1002 a,b,c"},
  });
}

TEST(Adoption, WhoCameMeanwhileDialsAgainAndIsASpare) {
  Remembered run;
  JobStory story = Remembered::Blank();
  HelloOptions told;
  told.run = "run2";
  story.Tell({
      {0.0, Attends("x"), ""},
      {0.1, Attends("a", 1, run.held), ""},
      {0.2, Attends("y"), ""},
      {2.0, Ticks(), ""},  // Two attend, yet nothing is formed.
      {2.1, Attends("b", 1, run.held),
       "refuse x UNSPECIFIED; refuse y UNSPECIFIED"},
      {2.2, Attends("x", 1, told), ""},
      {2.2, Attends("c", 1, run.held), ""},
  });
  EXPECT_EQ(RowOf(story.job().Status(story.now()), "x").state(),
            v1::NODE_STATE_SPARE);
}

TEST(Adoption, OtherBytesAreNoMajority) {
  Remembered run;
  JobStory story = Remembered::Blank();
  HelloOptions other = run.held;
  v1::Seal seal;
  ASSERT_TRUE(seal.ParseFromString(other.held.seal()));
  seal.set_master_port(1);
  other.held.set_seal(seal.SerializeAsString());
  story.Tell({
      {0.0, Attends("a", 1, run.held), ""},
      {0.1, Attends("b", 1, other), ""},
      {59.9, Ticks(), ""},
      {60.0, Ticks(), "refuse a OTHER_RUN; refuse b OTHER_RUN"},
      {60.1, Attends("c", 1, run.held), "refuse c OTHER_RUN"},
  });
}

TEST(Adoption, AJournalThatKnowsTheJobAdoptsNothing) {
  Remembered run;
  JobStory story = Remembered::Blank(/*may_adopt=*/false);
  story.Tell({{0.0, Attends("a", 1, run.held), "refuse a OTHER_RUN"}});
}

TEST(Adoption, AWorldOfAnotherJobOrNodeIsNoClaim) {
  Remembered run;
  JobStory story = Remembered::Blank();
  HelloOptions garbage = run.held;
  garbage.held.set_world("\x01\x02");
  story.Tell({
      {0.0, Attends("zz", 1, run.held), "refuse zz OTHER_RUN"},
      {0.1, Attends("a", 1, garbage), "refuse a OTHER_RUN"},
  });
}

TEST(Adoption, AJobThatHasEndedBecomesNoOther) {
  Remembered run;
  JobStory story = Remembered::Blank();
  story.Tell({
      {0.0, Attends("x"), ""},
      {0.1, Attends("a", 1, run.held), ""},
      {0.2, StopIsAsked(3), "refuse a OTHER_RUN; end 3 STOPPED"},
      {0.3, Attends("a", 1, run.held), "refuse a OTHER_RUN"},
      {0.3, Attends("b", 1, run.held), "refuse b OTHER_RUN"},
  });
  EXPECT_EQ(story.job().run(), "run2");
}

TEST(Adoption, NothingIsDueWhileTheRestIsWaitedFor) {
  Remembered run;
  JobStory story = Remembered::Blank();
  story.Tell({
      {0.0, Attends("x"), ""},
      {0.0, Attends("y"), ""},
      {0.1, Attends("a", 1, run.held), ""},
      {4.0, Beats("x"), ""},
      {4.0, Beats("y"), ""},
      {4.1, Ticks(), ""},
  });
  EXPECT_GT(story.job().NextDeadline(), story.now());
}

TEST(Adoption, AFormedWorldAdoptsNoOther) {
  Remembered run;
  JobStory story = Remembered::Blank();
  story.Tell({
      {0.0, Attends("x"), ""},
      {0.0, Attends("y"), ""},
      {1.0, Ticks(), "form g1 x,y"},
      {1.1, Attends("a", 1, run.held), "refuse a OTHER_RUN"},
  });
}

TEST(Adoption, AWorldOfFewerThanMinIsAnotherJobs) {
  JobStory before("1");
  before.Tell({
      {0.0, Attends("a"), "form g1 a"},
      {0.1, Prepares("a", 1), "run g1"},
  });
  HelloOptions held = Holds(0, 1);
  const JournalState state = StateOf(before, true);
  held.held.set_world(state.proposal->world());
  held.held.set_seal(state.seal->SerializeAsString());
  JobStory story = Remembered::Blank();
  story.Tell({{0.0, Attends("a", 1, held), "refuse a OTHER_RUN"}});
}

TEST(Adoption, ClaimsAreWaitedForWithoutSpinning) {
  Remembered run;
  JobStory story = Remembered::Blank();
  story.Tell({
      {0.0, Attends("x"), ""},
      {0.0, Attends("y"), ""},
      {0.1, Attends("a", 1, run.held), ""},
      {1.5, Ticks(), ""},
  });
  EXPECT_GT(story.job().NextDeadline(), story.now());
}

TEST(Adoption, WhoComesAndGoesIsNotWaitedForAnew) {
  Remembered run;
  JobStory story = Remembered::Blank();
  story.Tell({
      {0.0, Attends("x"), ""},
      {0.1, Attends("a", 1, run.held), ""},
      {59.0, Breaks("a"), ""},
      {59.5, Attends("a", 1, run.held), ""},
      {60.1, Beats("x"), ""},
      {60.1, Ticks(), "refuse a OTHER_RUN"},
  });
}

TEST(Adoption, WhatTheLostDaemonMayHaveProposedOutlivesTheNextOne) {
  Remembered run;
  JobStory story = Remembered::Blank();
  story.Tell({
      {0.0, Attends("a", 1, run.held), ""},
      {0.1, Attends("b", 1, run.held), ""},
  });
  JobStory after(
      Job::Restore("demo", StateOf(story, true), Limits(), absl::UnixEpoch()),
      story);
  after.Tell({
      {0.1, Attends("a", 1, Holds(0, 1)), ""},
      {0.1, Attends("b", 1, Holds(0, 1)), ""},
      {0.2, Attends("c", 1, Holds(0, 1)), ""},
      {0.3, Exits("a", 1, 3), "abort g1 RANK_EXIT; form g1002 a,b,c"},
  });
}

TEST(Adoption, AStopIsForThemToo) {
  Remembered run;
  JobStory story = Remembered::Blank();
  story.Tell({
      {0.1, Attends("a", 1, run.held), ""},
      {1.0, StopIsAsked(3), "refuse a OTHER_RUN; forget"},
  });
}

}  // namespace
}  // namespace rollcall
