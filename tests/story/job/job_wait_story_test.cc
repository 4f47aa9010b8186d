// How long a job waits for nodes: for a node that is late again and again, for
// the agents of a run after a restart of the daemon, and for agents that bring
// a run along.
#include <gtest/gtest.h>

#include <string>

#include "tests/story/job/job_story.h"

namespace rollcall {
namespace {

// --- Nodes that are late -----------------------------------------------------

// c is late for generations 1, 3 and 5, and reports afterwards that it is
// prepared.
TEST(Late, ANodeThatIsLateAgainWaitsLongerEachTime) {
  JobStory story("2:3");
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.0, Attends("b"), ""},
      {0.0, Attends("c"), "form g1 a,b,c"},
      {0.1, PreparesAll({"a", "b"}, 1), ""},
      {30.0, Ticks(28), "abort g1 PREPARE_TIMEOUT; form g2 a,b"},
      {30.1, PreparesAll({"a", "b"}, 2), "run g2"},
      // The first time c does not have to wait.
      {30.2, Prepares("c", 1), "notice 1 GROW"},
      {30.3, Sees("a", 1, 2), ""},
      {30.3, Sees("b", 1, 2), "abort g2 GROW; form g3 a,b,c"},
      {30.4, PreparesAll({"a", "b"}, 3), ""},
      {60.3, Ticks(28), "abort g3 PREPARE_TIMEOUT; form g4 a,b"},
      {60.4, PreparesAll({"a", "b"}, 4), "run g4"},
      // The second time c waits 1 s from when it was set aside.
      {60.5, Prepares("c", 3), ""},
      {61.2, Ticks(), ""},
      {61.3, Ticks(), "notice 2 GROW"},
      {61.4, Sees("a", 2, 4), ""},
      {61.4, Sees("b", 2, 4), "abort g4 GROW; form g5 a,b,c"},
      {61.5, PreparesAll({"a", "b"}, 5), ""},
      {91.4, Ticks(28), "abort g5 PREPARE_TIMEOUT; form g6 a,b"},
      {91.5, PreparesAll({"a", "b"}, 6), "run g6"},
      // The third time c waits 2 s.
      {91.6, Prepares("c", 5), ""},
      {93.3, Ticks(), ""},
      {93.4, Ticks(), "notice 3 GROW"},
  });
}

// --- Nodes that come and go --------------------------------------------------

JobStory FourRunning(const std::string& nodes) {
  JobStory story(nodes);
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.0, Attends("b"), ""},
      {0.0, Attends("c"), ""},
      {0.0, Attends("d"), "form g1 a,b,c,d"},
      {0.1, PreparesAll({"a", "b", "c", "d"}, 1), "run g1"},
  });
  return story;
}

// b and c were in the world that ended, so the next one waits for them. One of
// them is always away.
TEST(ComeAndGo, TwoThatTakeTurnsDoNotHoldUpTheNextWorld) {
  JobStory story = FourRunning("2:4");
  story.Tell({
      {1.0, Breaks("c"), ""},
      {1.1, Evicts({"d"}), "refuse d EVICTED; abort g1 EVICTED"},
  });
  for (int second = 2; second < 62; second += 2) {
    story.Tell({
        {second - 0.2, Beats("a"), ""},
        {second - 0.1, Breaks("b"), ""},
        {second + 0.0, Attends("c"), ""},
        {second + 0.2, Ticks(), ""},
        {second + 0.9, Breaks("c"), ""},
        {second + 1.0, Attends("b"), ""},
    });
  }
  // The next world has waited for a minute (Gathering::SuspectsUntil).
  story.Tell({
      {61.2, Ticks(), "form g2 a,b"},
      {61.8, Attends("c"), ""},
  });
}

// The job waits for a fourth node. Meanwhile a load balancer ends all streams
// once a minute, and no node is lost for this.
TEST(ComeAndGo, WhoComesBackInTimeIsNotLost) {
  JobStory story = FourRunning("4");
  story.Tell({{1.1, Evicts({"d"}), "refuse d EVICTED; abort g1 EVICTED"}});
  for (int second = 2; second < 300; ++second) {
    story.Tell({{second + 0.0, BeatsAll({"a", "b", "c"}), ""}});
    if (second % 60 != 50) continue;
    for (const char* node : {"a", "b", "c"}) {
      story.Tell({{second + 0.1, Breaks(node), ""}});
    }
    story.Tell({{second + 0.2, Ticks(), ""}});
    for (const char* node : {"a", "b", "c"}) {
      story.Tell({{second + 0.9, Attends(node), ""}});
    }
  }
  story.Tell({{300.0, Attends("e"), "form g2 a,b,c,e"}});
}

// --- A run that a daemon takes up, and whose agents never come back ----------

JobStory TakenUp(const JournalState& state, const JobStory& before) {
  Job job = Job::Restore("demo", state, Limits(), absl::UnixEpoch());
  job.EndUnattended();
  return {std::move(job), before};
}

TEST(TakenUp, AWorldThatRanWaitsForTheDaemonsGraceAndForJoinTimeout) {
  JobStory before = ThreeRunning("2:3");
  JobStory after = TakenUp(StateOf(before, true), before);
  after.Tell({{0.0, Ticks(), ""}, {59.9, Ticks(), ""}, {60.0, Ticks(), ""}});
  // No agent of the run is heard, which may be a fault of the daemon's own
  // network.
  EXPECT_EQ(after.job().state(), v1::JOB_STATE_ISOLATED);
  after.Tell({{659.9, Ticks(), ""}});
  EXPECT_EQ(after.job().state(), v1::JOB_STATE_ISOLATED);
  after.Tell({{660.0, Ticks(), ""}});
  EXPECT_EQ(after.job().state(), v1::JOB_STATE_GATHERING);
  after.Tell({
      {1259.9, Ticks(), ""},
      {1260.0, Ticks(), "forget"},
  });
  ASSERT_TRUE(after.job().end().has_value());
  EXPECT_EQ(after.job().end()->code(), v1::REASON_CODE_JOIN_TIMEOUT);
}

TEST(TakenUp, AWorldThatWasNeverCommittedWaitsForJoinTimeout) {
  JobStory before = ThreeRunning("2:3");
  JobStory after = TakenUp(StateOf(before, false), before);
  after.Tell({{60.0, Ticks(), ""},
              {120.0, Ticks(), ""},
              {599.9, Ticks(), ""},
              {600.0, Ticks(), "forget"}});
  ASSERT_TRUE(after.job().end().has_value());
  EXPECT_EQ(after.job().end()->code(), v1::REASON_CODE_JOIN_TIMEOUT);
}

TEST(TakenUp, AJobThatHasFormedNoWorldWaitsForTheReattachGrace) {
  JobStory before("2:3");
  JournalState state;
  state.run = "run1";
  ASSERT_TRUE(state.settings.ParseFromString(
      before.journal().at(Journal::Kind::kRunStarted).body));
  JobStory after = TakenUp(state, before);
  after.Tell({{0.0, Ticks(), ""}, {59.9, Ticks(), ""}});
  EXPECT_EQ(after.job().NextDeadline(), absl::UnixEpoch() + absl::Minutes(1));
  after.Tell({{60.0, Ticks(), "forget"}});
  ASSERT_TRUE(after.job().end().has_value());
  EXPECT_EQ(after.job().end()->code(), v1::REASON_CODE_JOIN_TIMEOUT);
}

// --- Agents that bring a run along -------------------------------------------

// The loop, or the clock, stood still for 100 s. Agents that could not be heard
// meanwhile have the time that is left of reattach_grace.
TEST(Claims, ALateLoopPutsOffTheEndOfAdoption) {
  JobStory before = ThreeRunning("2:3");
  const JournalState state = StateOf(before, true);
  HelloOptions resumed = Holds(0, 1);
  resumed.resume_state.set_world(state.proposal->world());
  resumed.resume_state.set_world_commit(
      state.world_commit->SerializeAsString());
  resumed.resume_state.set_proof(ProofOf(resumed.run, 1,
                                         resumed.resume_state.world(),
                                         resumed.resume_state.world_commit()));
  v1::JobSettings settings;
  settings.set_nodes_min(2);
  settings.set_nodes_max(3);
  Job blank("demo", "run2", settings, Limits(), absl::UnixEpoch());
  blank.AllowAdoption();
  JobStory story(std::move(blank), JobStory("1"));
  story.Tell({
      {0.0, Attends("a", 1, resumed), ""},
      {1.0, Ticks(), ""},
      {102.0, Ticks(100), ""},
      {159.9, Ticks(), ""},
      {159.9, Attends("b", 1, resumed), ""},
  });
  EXPECT_EQ(story.job().run(), "run1");
  EXPECT_EQ(story.job().state(), v1::JOB_STATE_RUNNING);
}

}  // namespace
}  // namespace rollcall
