// Adoption: agents bring a run that this daemon has no journal of.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/story/job/job_story.h"

namespace rollcall {
namespace {

struct Remembered {
  JobStory before{"2:3"};
  HelloOptions resumed;

  Remembered() {
    before.Tell(ThreeRun());
    resumed = HoldsAllOf(before);
  }
  // What a member of this story's world shows in its Hello.
  static HelloOptions HoldsAllOf(const JobStory& story) {
    const JournalState state = StateOf(story, true);
    const uint64_t generation = state.proposal->generation();
    HelloOptions resumed = Holds(0, generation);
    resumed.resume_state.set_world(state.proposal->world());
    resumed.resume_state.set_world_commit(
        state.world_commit->SerializeAsString());
    Prove(resumed);
    return resumed;
  }
  // Adds the proof that a daemon with the same secret would make.
  static void Prove(HelloOptions& resumed) {
    resumed.resume_state.set_proof(ProofOf(
        resumed.run, resumed.resume_state.running_generation(),
        resumed.resume_state.world(), resumed.resume_state.world_commit()));
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
      {0.0, Attends("a", 1, run.resumed), ""},
      {0.1, Attends("a", 1, run.resumed), "refuse a REDIALED"},
      {0.2, Attends("b", 1, run.resumed), ""},
  });
  EXPECT_EQ(story.job().run(), "run1");
  EXPECT_EQ(story.job().state(), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(story.job().Status(story.now()).generation(), 1u);
  // The next generation is higher than any that the lost daemon can have
  // proposed.
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
      {0.5, Attends("c", 1, run.resumed), ""},
      // The ranks of a and b stand at a boundary, for a notice of the lost
      // daemon.
      {0.55, Sees("a", 7), "notice 8 GROW"},
      // Higher than any generation that the lost daemon can have proposed.
      {0.6, Exits("a", 1, 3), "abort g1 RANK_EXIT; form g1002 a,b,c"},
  });
}

// With --once only a runs the command, and that may still run without a stream.
TEST(Adoption, MembersThatRunNothingFormNoWorldBesideTheOneThatRuns) {
  JobStory before("2:3");
  before.Tell({{0.0, Attends("a", 1, {.once = true}), ""},
               {0.0, Attends("b", 1, {.once = true}), ""},
               {0.0, Attends("c", 1, {.once = true}), "form g1 a,b,c"},
               {0.1, PreparesAll({"a", "b", "c"}, 1), "run g1"}});
  HelloOptions resumed = Remembered::HoldsAllOf(before);
  resumed.once = true;
  JobStory story = Remembered::Blank();
  story.Tell({{0.0, Attends("b", 1, resumed), ""},
              {0.2, Attends("c", 1, resumed), ""}});
  EXPECT_EQ(story.job().run(), "run1");
  TellBeats(story, {"b", "c"}, 60, 2);
  story.Tell({{60.3, Ticks(), "abort g1 LOST_STREAM"},
              {60.4, Stops("b", 1), ""},
              {60.4, Stops("c", 1), ""}});
  const double unheard = absl::ToDoubleSeconds(Limits{}.unheard());
  TellBeats(story, {"b", "c"}, unheard, 62);
  story.Tell({{unheard + 0.3, Ticks(), "form g1002 b,c"}});
}

TEST(Adoption, WhoCameMeanwhileDialsAgainAndIsASpare) {
  Remembered run;
  JobStory story = Remembered::Blank();
  HelloOptions told;
  told.run = "run2";
  story.Tell({
      {0.0, Attends("x"), ""},
      {0.1, Attends("a", 1, run.resumed), ""},
      {0.2, Attends("y"), ""},
      {2.0, Ticks(), ""},  // Two attend, but no world is formed.
      {2.1, Attends("b", 1, run.resumed),
       "refuse x UNSPECIFIED; refuse y UNSPECIFIED"},
      {2.2, Attends("x", 1, told), ""},
      {2.2, Attends("c", 1, run.resumed), ""},
  });
  EXPECT_EQ(RowOf(story.job().Status(story.now()), "x").state(),
            v1::NODE_STATE_SPARE);
}

TEST(Adoption, OtherBytesAreNoMajority) {
  Remembered run;
  JobStory story = Remembered::Blank();
  HelloOptions other = run.resumed;
  v1::WorldCommit world_commit;
  ASSERT_TRUE(world_commit.ParseFromString(other.resume_state.world_commit()));
  world_commit.set_master_port(1);
  other.resume_state.set_world_commit(world_commit.SerializeAsString());
  Remembered::Prove(other);
  story.Tell({
      {0.0, Attends("a", 1, run.resumed), ""},
      {0.1, Attends("b", 1, other), ""},
      {59.9, Ticks(), ""},
      {60.0, Ticks(), "refuse a OTHER_RUN; refuse b OTHER_RUN"},
      {60.1, Attends("c", 1, run.resumed), "refuse c OTHER_RUN"},
  });
}

TEST(Adoption, AJournalThatKnowsTheJobAdoptsNothing) {
  Remembered run;
  JobStory story = Remembered::Blank(/*may_adopt=*/false);
  story.Tell({{0.0, Attends("a", 1, run.resumed), "refuse a OTHER_RUN"}});
}

// Each of these Hellos is told to dial again, like every agent of a run that
// may still be adopted, and does not count as a claim.
TEST(Adoption, WhatIsNotOfTheRowIsNoClaim) {
  Remembered run;
  JobStory story = Remembered::Blank();
  const auto changed = [&](const std::function<void(HelloOptions&)>& change) {
    HelloOptions resumed = run.resumed;
    change(resumed);
    return resumed;
  };
  const HelloOptions garbage = changed([](HelloOptions& h) {
    h.resume_state.set_world("\x01\x02");
    Remembered::Prove(h);
  });
  const HelloOptions unproven =
      changed([](HelloOptions& h) { h.resume_state.set_proof("made up"); });
  const HelloOptions no_proof =
      changed([](HelloOptions& h) { h.resume_state.clear_proof(); });
  const HelloOptions ranks = changed([](HelloOptions& h) { h.ranks = 2; });
  const HelloOptions epoch = changed([](HelloOptions& h) { h.epoch = 1; });
  const HelloOptions next_life =
      changed([](HelloOptions& h) { h.previous_incarnation = 1; });
  story.Tell({
      {0.0, Attends("zz", 1, run.resumed), "refuse zz UNSPECIFIED"},
      {0.1, Attends("a", 1, garbage), "refuse a UNSPECIFIED"},
      {0.1, Attends("a", 1, unproven), "refuse a UNSPECIFIED"},
      {0.1, Attends("a", 1, no_proof), "refuse a UNSPECIFIED"},
      {0.1, Attends("a", 1, ranks), "refuse a UNSPECIFIED"},
      {0.1, Attends("a", 1, epoch), "refuse a UNSPECIFIED"},
      {0.1, Attends("a", 2, next_life), "refuse a UNSPECIFIED"},
      {0.1, Attends("a", 2, run.resumed), "refuse a UNSPECIFIED"},
      // One of three is no majority, because the others were no claims.
      {0.2, Attends("b", 1, run.resumed), ""},
      {60.0, Ticks(), "refuse b OTHER_RUN"},
      {60.1, Attends("c", 1, unproven), "refuse c OTHER_RUN"},
  });
}

TEST(Adoption, ATokenClaimsNoWorld) {
  Remembered run;
  JobStory story = Remembered::Blank();
  HelloOptions token = run.resumed;
  token.by_credential = false;
  story.Tell({
      {0.0, Attends("a", 1, token), "refuse a OTHER_RUN"},
      {0.0, Attends("b", 1, token), "refuse b OTHER_RUN"},
      {0.0, Attends("c", 1, token), "refuse c OTHER_RUN"},
  });
  EXPECT_EQ(story.job().run(), "run2");
  EXPECT_EQ(story.job().state(), v1::JOB_STATE_GATHERING);
}

TEST(Adoption, ASpareIsToldToDialAgainAndNeedsItsToken) {
  Remembered run;
  JobStory story = Remembered::Blank();
  HelloOptions spare = Holds(0, 0);
  story.Tell({
      {0.0, Attends("s", 1, spare), "refuse s UNSPECIFIED"},
      {0.1, Attends("a", 1, run.resumed), ""},
      {0.2, Attends("b", 1, run.resumed), ""},
  });
  // The lost daemon may have evicted s, so the credential of s is no longer
  // valid. Those of the world's members are valid.
  EXPECT_GT(story.job().node_epochs().EpochOf("s"), uint64_t{1} << 31);
  EXPECT_EQ(story.job().node_epochs().EpochOf("c"), 0u);
  EXPECT_EQ(story.job().AdmittedBy("t1"),
            (std::vector<std::string>{"a", "b", "c"}));
}

// The spare s is told to dial again until then, and it may be the only node of
// the new run.
TEST(Adoption, TheJoinTimeoutBeginsWhenClaimsAreOver) {
  JobStory story = Remembered::Blank();
  const double put_off = absl::ToDoubleSeconds(Limits().reattach_grace);
  const double timeout = absl::ToDoubleSeconds(Limits().join_timeout);
  story.Tell({
      {1.0, Attends("s", 1, Holds(0, 0)), "refuse s UNSPECIFIED"},
      {1.0 + put_off, Ticks(), ""},
      {timeout + 1.0, Ticks(), ""},
      {timeout + put_off, Ticks(), ""},
      {timeout + put_off + 1.0, Ticks(), "forget"},
  });
  EXPECT_EQ(story.job().end()->code(), v1::REASON_CODE_JOIN_TIMEOUT);
}

// A replaced incarnation brings an earlier world to a daemon without a journal,
// before the others attend.
TEST(Adoption, AGhostTakesNoMembersPlace) {
  JobStory before = ThreeRunning("2:3");
  const HelloOptions first = Remembered::HoldsAllOf(before);
  before.Tell({
      {0.2, Breaks("c"), ""},
      {1.2, Ticks(), "abort g1 LOST_STREAM; form g2 a,b"},
      {1.3, Attends("c", 2), ""},
      {1.4, PreparesAll({"a", "b"}, 2), "run g2; notice 1 GROW"},
      {2.5, Sees("a", 1, 2), ""},
      {2.5, Sees("b", 1, 2), "abort g2 GROW; form g3 a,b,c"},
      {2.6, PreparesAll({"a", "b", "c"}, 3), "run g3"},
  });
  const HelloOptions third = Remembered::HoldsAllOf(before);
  HelloOptions raised = third;
  raised.epoch = 1;
  JobStory story = Remembered::Blank();
  HelloOptions by_token = first;
  by_token.by_credential = false;
  story.Tell({
      {0.0, Attends("c", 1, first), ""},
      {0.1, Attends("a", 1, third), ""},
      {0.2, Attends("b", 1, third), "refuse c CREDENTIAL"},
      {0.3, Attends("c", 1, by_token), "refuse c UNSPECIFIED"},
      {0.4, Attends("c", 2, raised), ""},
      {0.5, Attends("c", 1, by_token), "refuse c REPLACED"},
  });
  EXPECT_EQ(story.job().run(), "run1");
  EXPECT_EQ(story.job().Status(story.now()).generation(), 3u);
  EXPECT_EQ(story.job().state(), v1::JOB_STATE_RUNNING);
}

// A daemon without a journal had admitted an agent by a token, into a run that
// adoption then discards. That run's credential is no longer valid.
TEST(Adoption, WhoCameByATokenMeanwhileTakesNoMembersPlace) {
  Remembered run;
  JobStory story = Remembered::Blank();
  HelloOptions told;
  told.run = "run2";
  told.by_credential = true;
  story.Tell({
      {0.0, Attends("c", 7), ""},
      {0.1, Attends("a", 1, run.resumed), ""},
      {0.2, Attends("b", 1, run.resumed), "refuse c UNSPECIFIED"},
      {0.3, Attends("c", 7, told), "refuse c UNSPECIFIED"},
      {0.4, Attends("c", 1, run.resumed), ""},
  });
  EXPECT_EQ(story.job().state(), v1::JOB_STATE_RUNNING);
}

TEST(Adoption, AJobThatHasEndedBecomesNoOther) {
  Remembered run;
  JobStory story = Remembered::Blank();
  story.Tell({
      {0.0, Attends("x"), ""},
      {0.1, Attends("a", 1, run.resumed), ""},
      {0.2, StopIsAsked(3), "refuse a OTHER_RUN; end 3 STOPPED"},
      {0.3, Attends("a", 1, run.resumed), "refuse a OTHER_RUN"},
      {0.3, Attends("b", 1, run.resumed), "refuse b OTHER_RUN"},
  });
  EXPECT_EQ(story.job().run(), "run2");
}

TEST(Adoption, NothingIsDueWhileTheRestIsWaitedFor) {
  Remembered run;
  JobStory story = Remembered::Blank();
  story.Tell({
      {0.0, Attends("x"), ""},
      {0.0, Attends("y"), ""},
      {0.1, Attends("a", 1, run.resumed), ""},
      {4.0, BeatsAll({"x", "y"}), ""},
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
      {1.1, Attends("a", 1, run.resumed), "refuse a OTHER_RUN"},
  });
}

TEST(Adoption, AWorldOfFewerThanMinIsAnotherJobs) {
  JobStory before = OneRunning("1");
  JobStory story = Remembered::Blank();
  story.Tell({{0.0, Attends("a", 1, Remembered::HoldsAllOf(before)),
               "refuse a UNSPECIFIED"}});
}

TEST(Adoption, ClaimsAreWaitedForWithoutSpinning) {
  Remembered run;
  JobStory story = Remembered::Blank();
  story.Tell({
      {0.0, Attends("x"), ""},
      {0.0, Attends("y"), ""},
      {0.1, Attends("a", 1, run.resumed), ""},
      {1.5, Ticks(), ""},
  });
  EXPECT_GT(story.job().NextDeadline(), story.now());
}

// Its failure would end the run that a and b train.
TEST(Adoption, AFailedSetUpEndsNoJobThatMayBeAdopted) {
  Remembered run;
  JobStory story = Remembered::Blank();
  HelloOptions setting_up;
  setting_up.setting_up = true;
  story.Tell({
      {0.0, Attends("x", 1, setting_up), ""},
      {0.1, Attends("a", 1, run.resumed), ""},
      {0.2, SetsUp("x", 5), "end 5 SETUP"},
  });
  EXPECT_FALSE(story.job().end().has_value());
}

TEST(Adoption, WhoComesAndGoesIsNotWaitedForAnew) {
  Remembered run;
  JobStory story = Remembered::Blank();
  story.Tell({
      {0.0, Attends("x"), ""},
      {0.1, Attends("a", 1, run.resumed), ""},
      {59.0, Breaks("a"), ""},
      {59.5, Attends("a", 1, run.resumed), ""},
      {60.1, Beats("x"), ""},
      {60.1, Ticks(), "refuse a OTHER_RUN"},
  });
}

TEST(Adoption, WhatTheLostDaemonMayHaveProposedOutlivesTheNextOne) {
  Remembered run;
  JobStory story = Remembered::Blank();
  story.Tell({
      {0.0, Attends("a", 1, run.resumed), ""},
      {0.1, Attends("b", 1, run.resumed), ""},
  });
  JobStory after = RestartOf(story);
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
      {0.1, Attends("a", 1, run.resumed), ""},
      {1.0, StopIsAsked(3), "refuse a OTHER_RUN; forget"},
  });
}

// --- Two worlds of one run ---------------------------------------------------

// Three of five nodes are cut off and still run generation 1, while the other
// two run generation 2. Then the daemon loses its journal.
struct TwoWorlds {
  HelloOptions first;
  HelloOptions second;

  TwoWorlds() {
    JobStory before("2:5");
    const std::vector<std::string> all = {"a", "b", "c", "d", "e"};
    for (const std::string& node : all) Attends(node)(before);
    PreparesAll(all, 1)(before);
    first = Remembered::HoldsAllOf(before);
    before.Tell({{0.1, Evicts({"a", "b", "c"}),
                  "refuse a EVICTED; abort g1 EVICTED; refuse b EVICTED; "
                  "refuse c EVICTED; form g2 d,e"},
                 {0.2, PreparesAll({"d", "e"}, 2), "run g2"}});
    second = Remembered::HoldsAllOf(before);
  }
  static JobStory Blank() {
    v1::JobSettings settings;
    settings.set_nodes_min(2);
    settings.set_nodes_max(5);
    Job job("demo", "run2", settings, Limits(), absl::UnixEpoch());
    job.AllowAdoption();
    return JobStory(std::move(job), JobStory("1"));
  }
};

TEST(Adoption, TheHighestGenerationWins) {
  TwoWorlds worlds;
  JobStory story = TwoWorlds::Blank();
  story.Tell({
      {0.0, Attends("e", 1, worlds.second), ""},
      {0.1, Attends("a", 1, worlds.first), ""},
      {0.1, Attends("b", 1, worlds.first), ""},
      // These are over half of the first world's members, but a later world is
      // claimed.
      {0.1, Attends("c", 1, worlds.first), ""},
  });
  EXPECT_EQ(story.job().run(), "run2");
  // Nodes that are members of the first world only may have been evicted since.
  // These three were.
  story.Tell(
      {{0.2, Attends("d", 1, worlds.second),
        "refuse a CREDENTIAL; refuse b CREDENTIAL; refuse c CREDENTIAL"}});
  EXPECT_EQ(story.job().run(), "run1");
  EXPECT_EQ(story.job().Status(story.now()).generation(), 2u);
}

TEST(Adoption, AHigherClaimHoldsTheRestUpNoLongerThanTheGrace) {
  TwoWorlds worlds;
  JobStory story = TwoWorlds::Blank();
  story.Tell({
      {0.0, Attends("e", 1, worlds.second), ""},
      {0.1, Attends("a", 1, worlds.first), ""},
      {0.1, Attends("b", 1, worlds.first), ""},
      {0.1, Attends("c", 1, worlds.first), ""},
      {59.9, Ticks(), ""},
      {60.0, Ticks(),
       "abort g2 REPLACED; abort g1 REPLACED; abort g1 REPLACED; "
       "abort g1 REPLACED"},
  });
  EXPECT_EQ(story.job().run(), "run1");
}

}  // namespace
}  // namespace rollcall
