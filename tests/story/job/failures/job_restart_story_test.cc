// A daemon that is restarted goes on from its journal.
#include <gtest/gtest.h>

#include "tests/story/job/job_story.h"

namespace rollcall {
namespace {

TEST(Restart, ACommittedGenerationRunsOn) {
  JobStory after = RestartOf(ThreeRunning("2:3"));
  after.Tell({
      {0.1, Attends("a", 1, Holds(0, 1)), ""},
      {0.1, Attends("b", 1, Holds(0, 1)), ""},
      // c had not been told of the commit.
      {0.1, Attends("c", 1, Holds(1, 0)), "run g1"},
      {0.2, Exits("a", 1, 0), ""},
      {0.2, Exits("b", 1, 0), ""},
      {0.2, Exits("c", 1, 0), "end 0 FINISHED"},
  });
}

TEST(Restart, ExitsThatHappenedMeanwhileCountOnceTheyAreSaidAgain) {
  JobStory after = RestartOf(ThreeRunning("2:3"));
  after.Tell({
      {0.1, Attends("a", 1, Holds(0, 1)), ""},
      {0.1, Exits("a", 1, 0), ""},
      {0.1, Attends("b", 1, Holds(0, 1)), ""},
      {0.1, Exits("b", 1, 0), ""},
      {0.1, Attends("c", 1, Holds(0, 1)), ""},
      {0.1, Exits("c", 1, 0), "end 0 FINISHED"},
  });
}

// The work of b is done, whether its agent comes back or not.
TEST(Restart, WhoHadFinishedIsNotMissed) {
  JobStory before = ThreeRunning("2:3");
  before.Tell({{0.2, Exits("b", 1, 0), ""}, {0.3, Ticks(), ""}});
  JobStory after = RestartOf(before);
  after.Tell({{0.1, Attends("a", 1, Holds(0, 1)), ""},
              {0.1, Attends("c", 1, Holds(0, 1)), ""}});
  for (double t = 1.5; t <= 61; t += 1.5) {
    after.Tell({{t, Beats("a"), ""}, {t, Beats("c"), ""}, {t, Ticks(), ""}});
  }
  after.Tell(
      {{61, Exits("a", 1, 0), ""}, {61, Exits("c", 1, 0), "end 0 FINISHED"}});
  // The agent of b may come back, and report again what is known.
  JobStory back = RestartOf(before);
  back.Tell({{0.1, Attends("b", 1, Holds(0, 1)), ""},
             {0.1, Exits("b", 1, 0), ""},
             {0.1, Attends("a", 1, Holds(0, 1)), ""},
             {0.1, Exits("a", 1, 0), ""},
             {0.1, Attends("c", 1, Holds(0, 1)), ""},
             {0.1, Exits("c", 1, 0), "end 0 FINISHED"}});
}

// A worker's token lets in one node of its own. That node takes no member's
// place in a world that a restarted daemon waits for, so it cannot end the job
// with success.
TEST(Restart, ATokenIsNoMember) {
  JobStory after = RestartOf(ThreeRunning("2:3"));
  HelloOptions token = Holds(0, 1);
  token.by_credential = false;
  after.Tell({
      {0.1, Attends("a", 1, Holds(0, 1)), ""},
      {0.1, Attends("b", 1, Holds(0, 1)), ""},
      {0.1, Exits("a", 1, 0), ""},
      {0.1, Exits("b", 1, 0), ""},
      // This Hello has the name, incarnation and world of c, but no credential.
      // It has to wait until c is lost.
      {0.2, Attends("c", 1, token), "refuse c UNSPECIFIED"},
      {0.2, Attends("c", 2, token), "refuse c UNSPECIFIED"},
      {0.3, Attends("c", 1, Holds(0, 1)), ""},
      {0.4, Exits("c", 1, 0), "end 0 FINISHED"},
  });
}

TEST(Restart, ATokenTakesAMembersNameOnceItIsLost) {
  JobStory after = RestartOf(ThreeRunning("2:3"));
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
  JobStory after = RestartOf(before);
  after.Tell({
      {0.1, Attends("a", 7, Holds(0, 1)), ""},
      {0.1, Attends("b", 6, Holds(0, 1)), "refuse b UNSPECIFIED"},
      {0.2, Attends("b", 8, Holds(0, 1)), ""},
      {0.3, Attends("b", 6, Holds(0, 1)), "refuse b REPLACED"},
  });
  EXPECT_EQ(after.job().state(), v1::JOB_STATE_RUNNING);
}

TEST(Restart, WhoDoesNotComeBackIsLost) {
  JobStory after = RestartOf(ThreeRunning("2:3"));
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
  JobStory after = RestartOf(before, /*committed=*/false);
  after.Tell({
      {0.1, Attends("a", 1, Holds(1, 0)), ""},
      {0.2, Attends("b", 1, Holds(0, 0)), "form g2 a,b"},
  });
}

TEST(Restart, AMembersNextLifeIsNotTheMember) {
  JobStory after = RestartOf(ThreeRunning("2:3"));
  HelloOptions next = Holds(0, 1);
  next.previous_incarnation = 1;
  after.Tell({
      {0.1, Attends("a", 1, Holds(0, 1)), ""},
      {0.1, Attends("b", 1, Holds(0, 1)), ""},
      {0.1, Attends("c", 7, next),
       "abort g1 REPLACED; abort g1 REPLACED; form g2 a,b,c"},
  });
}

}  // namespace
}  // namespace rollcall
