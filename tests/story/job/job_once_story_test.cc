// Jobs with --once: only node rank 0 runs the command.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/story/job/job_story.h"

namespace rollcall {
namespace {

// Of three nodes, a runs the command; b and c start nothing.
std::vector<JobStory::Row> OneRuns() {
  return {
      {0.0, Attends("a", 1, {.once = true}), ""},
      {0.0, Attends("b", 1, {.once = true}), ""},
      {0.0, Attends("c", 1, {.once = true}), "form g1 a,b,c"},
      {0.1, PreparesAll({"a", "b", "c"}, 1), "run g1"},
  };
}

TEST(Once, TheEndWaitsForWhoRunsTheCommand) {
  JobStory story("2:3");
  story.Tell(OneRuns());
  EXPECT_EQ(RowOf(story.job().Status(story.now()), "b").state(),
            v1::NODE_STATE_RUNNING);
  story.Tell({{0.5, Exits("a", 1, 0), "end 0 FINISHED"}});
  // Other local ranks of that node are not started either.
  JobStory wide("2");
  wide.Tell({{0.0, Attends("a", 1, {.ranks = 2, .once = true}), ""},
             {0.0, Attends("b", 1, {.ranks = 2, .once = true}), "form g1 a,b"},
             {0.1, PreparesAll({"a", "b"}, 1), "run g1"},
             {0.5, Exits("a", 1, 0), "end 0 FINISHED"}});
  // A node without the flag starts its ranks in any world.
  JobStory mixed("2");
  mixed.Tell({{0.0, Attends("a", 1, {.once = true}), ""},
              {0.0, Attends("b"), "form g1 a,b"},
              {0.1, PreparesAll({"a", "b"}, 1), "run g1"},
              {0.5, Exits("a", 1, 0), ""},
              {0.6, Exits("b", 1, 0), "end 0 FINISHED"}});
}

// The world says which nodes run no rank, so a restarted daemon needs no report
// from them.
TEST(Once, AfterARestartOfTheDaemonTheEndWaitsForNoOther) {
  JobStory before("2:3");
  before.Tell(OneRuns());
  JobStory story = RestartOf(before);
  HelloOptions back = Holds(0, 1);
  back.once = true;
  story.Tell({{0.1, Attends("a", 1, back), ""},
              {0.2, Exits("a", 1, 0), "end 0 FINISHED"}});
}

TEST(Once, WhoRunsNothingIsToldWhoIsWaitedFor) {
  JobStory story("2:3");
  story.Tell(OneRuns());
  story.TakeWaitingTold();
  TellBeats(story, {"a", "b", "c"}, 60);
  story.Tell({{60.5, Ticks(), ""}});
  EXPECT_EQ(story.TakeWaitingTold(),
            std::vector<std::string>(
                {"b,c: no rank runs on this node; others still run"}));
}

TEST(Once, ANodeThatRunsNothingIsLostLikeAnyOther) {
  JobStory story("2:3");
  story.Tell(OneRuns());
  story.Tell({{0.5, Breaks("b"), ""},
              {2.0, Ticks(), "abort g1 LOST_STREAM; form g2 a,c"}});
}

TEST(Once, ANodeThatRunsNothingIsDrainedLikeAnyOther) {
  JobStory story("2:3");
  story.Tell(OneRuns());
  story.Tell({{1.0, Drains("b"), "notice 1 DRAIN b"},
              {1.1, Sees("a", 1), "abort g1 LEAVING; form g2 a,c"},
              {1.2, Stops("b", 1), "end 0 LEAVING"}});
}

TEST(Once, NewcomersAreTakenIn) {
  JobStory story("2:3");
  story.Tell(OneRuns());
  story.Tell({{0.5, Breaks("c"), ""},
              {2.0, Ticks(), "abort g1 LOST_STREAM; form g2 a,b"},
              {2.1, PreparesAll({"a", "b"}, 2), "run g2"},
              {2.3, Attends("c", 2, {.once = true}), "notice 1 GROW"},
              {2.4, Sees("a", 1, 2), "abort g2 GROW; form g3 a,b,c"}});
}

}  // namespace
}  // namespace rollcall
