// On which nodes ranks are expected to start, that is to link or to publish a
// step, and how long they may take.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "daemon/base/durations.h"
#include "daemon/core/limits.h"
#include "tests/story/job/job_story.h"

namespace rollcall {
namespace {

// A rank of generation 1 is stalled. `linked`: whether it has linked; `step`:
// its last step.
Told Stalls(const std::string& node, bool linked, uint64_t step) {
  v1::AgentMessage message;
  v1::RankStalled& stalled = *message.mutable_rank_stalled();
  stalled.set_generation(1);
  stalled.set_step(step);
  if (linked) stalled.set_answered(true);
  return Says(node, message);
}

Told GoesOn(const std::string& node) {
  v1::AgentMessage message;
  message.mutable_rank_stalled()->set_generation(1);
  message.mutable_rank_stalled()->set_goes_on(true);
  return Says(node, message);
}

using Names = std::vector<std::string>;

TEST(Start, ThatRanksLinkIsToldOnceAStream) {
  JobStory story = ThreeRunning("3");
  story.Tell({{0.5, Attends("d"), ""},
              // d has been in no world, so no rank of it can have linked.
              {0.6, BeatsLinked("d"), ""},
              {0.7, Stalls("a", false, 0), ""},
              {0.8, GoesOn("a"), ""},
              {1.0, Beats("a"), ""}});
  EXPECT_EQ(story.TakeRanksLinkTold(), Names());
  // One of three nodes is not most of them, however often it reports.
  story.Tell({{2.0, BeatsLinked("b"), ""}, {2.1, BeatsLinked("b"), ""}});
  EXPECT_EQ(story.TakeRanksLinkTold(), Names());
  story.Tell({{2.1, BeatsLinked("c"), ""}});
  EXPECT_EQ(story.TakeRanksLinkTold(), Names({"a", "b", "c"}));
  story.Tell({{2.2, BeatsLinked("b"), ""}, {2.3, Stalls("a", true, 7), ""}});
  EXPECT_EQ(story.TakeRanksLinkTold(), Names());
  story.Tell({{2.4, Breaks("c"), ""},
              {2.5, Attends("c", 1, Holds(0, 1)), ""},
              {2.6, Attends("e"), ""}});
  EXPECT_EQ(story.TakeRanksLinkTold(), Names({"c"}));
  // It is told once more in each new world.
  story.Tell({{2.7, Exits("a", 1, 3), "abort g1 RANK_EXIT; form g2 a,b,c"},
              {2.8, PreparesAll({"a", "b", "c"}, 2), "run g2"}});
  EXPECT_EQ(story.TakeRanksLinkTold(), Names({"a", "b", "c"}));
  story.Tell({{2.9, BeatsLinked("b"), ""}, {3.0, Attends("f"), ""}});
  EXPECT_EQ(story.TakeRanksLinkTold(), Names());
}

TEST(Start, NoStartTookLongerThanItsNodeIsThere) {
  JobStory story("2");
  story.Tell({{0.0, Attends("a"), ""},
              {0.0, Attends("b"), "form g1 a,b"},
              {1.0, PreparesAll({"a", "b"}, 1), "run g1"},
              {2.0, BeatsLinked("a", 1), ""},
              {3.0, BeatsLinked("b", 600000), ""}});
  EXPECT_EQ(story.start_timeout_s(),
            absl::ToDoubleSeconds(Limits{}.start_timeout) + 2);
}

TEST(Start, TheFirstStepOfAWorldShowsAtOnce) {
  JobStory story = ThreeRunning("2:3");
  story.Tell({{0.2, BeatsLinked("a"), ""}, {0.2, BeatsLinked("b"), ""}});
  const auto revision = [&] {
    return story.job().Status(story.now()).revision();
  };
  const uint64_t linked = revision();
  story.Tell({{0.3, Beats("a", 1), ""}});
  const uint64_t stepped = revision();
  EXPECT_GT(stepped, linked);
  story.Tell({{0.4, Beats("a", 2), ""}});
  EXPECT_EQ(revision(), stepped);
}

TEST(Start, RanksLinkWhereMostHavePublishedAStepOrAnswer) {
  for (const auto& told :
       {+[](const char* node) { return Beats(node, 1); },
        +[](const char* node) { return Stalls(node, true, 0); },
        +[](const char* node) { return Stalls(node, false, 7); }}) {
    JobStory story = ThreeRunning("3");
    story.Tell({{1.0, told("b"), ""}});
    EXPECT_EQ(story.TakeRanksLinkTold(), Names());
    story.Tell({{1.1, told("c"), ""}});
    EXPECT_EQ(story.TakeRanksLinkTold(), Names({"a", "b", "c"}));
  }
}

// Otherwise one node could have the commands of all others stopped, restart by
// restart.
TEST(Start, OneNodeMakesNoOthersExpected) {
  JobStory story("4");
  story.Tell({{0.0, Attends("a"), ""},
              {0.0, Attends("b"), ""},
              {0.0, Attends("c"), ""},
              {0.0, Attends("d"), "form g1 a,b,c,d"},
              {0.1, PreparesAll({"a", "b", "c", "d"}, 1), "run g1"},
              {0.2, BeatsLinked("a"), ""},
              {0.3, Beats("a", 9), ""},
              {0.4, Beats("b", 9), ""},  // Half of the nodes: not most.
              {1.0, Exits("c", 1, 3), "abort g1 RANK_EXIT; form g2 a,b,c,d"},
              {1.1, PreparesAll({"a", "b", "c", "d"}, 2), "run g2"},
              {1.2, Beats("a", 9), ""}});
  EXPECT_EQ(story.TakeRanksLinkTold(), Names());
  // The same holds if a was alone before the others came.
  JobStory grows("1:3");
  grows.Tell({{0.0, Attends("a"), ""},
              {1.0, Ticks(), "form g1 a"},
              {1.1, Prepares("a", 1), "run g1"},
              {1.2, BeatsLinked("a"), ""}});
  EXPECT_EQ(grows.TakeRanksLinkTold(), Names({"a"}));
  grows.Tell({{1.3, Attends("b"), ""},
              {1.3, Attends("c"), "notice 1 GROW"},
              {1.4, Exits("a", 1, 3), "abort g1 RANK_EXIT; form g2 a,b,c"},
              {1.5, PreparesAll({"a", "b", "c"}, 2), "run g2"},
              {1.6, BeatsLinked("a"), ""}});
  EXPECT_EQ(grows.TakeRanksLinkTold(), Names());
}

// In the first world, starts succeed that take longer than the timeout of ten
// minutes. They must be allowed to in all later worlds.
TEST(Start, LaterWorldsGetWhatStartsHaveTaken) {
  JobStory story = ThreeRunning("3");
  // A single node cannot set how long starts take.
  story.Tell({{0.2, BeatsLinked("a", 0.0625), ""},
              {0.3, BeatsLinked("b", 100000), ""},
              {0.4, BeatsLinked("c", 0.03125), ""},
              {1.0, Exits("c", 1, 3), "abort g1 RANK_EXIT; form g2 a,b,c"},
              {1.1, PreparesAll({"a", "b", "c"}, 2), "run g2"}});
  EXPECT_EQ(story.TakeRanksLinkTold(), Names({"a", "b", "c", "a", "b", "c"}));
  EXPECT_EQ(story.start_timeout_s(), 600 + 0.0625);
  // A restarted daemon learns this from the agents, and so does a daemon that
  // has lost them and taken them back.
  JobStory after = RestartOf(story);
  HelloOptions back = Holds(0, 2);
  back.generation_seen = 2;
  after.Tell({{0.1, Attends("a", 1, back), ""},
              {0.1, Attends("b", 1, back), ""},
              {0.1, Attends("c", 1, back), ""},
              {0.2, BeatsLinked("a", 730), ""},
              {0.3, BeatsLinked("c", 720), ""}});
  EXPECT_EQ(after.TakeRanksLinkTold(), Names({"a", "b", "c"}));
  EXPECT_EQ(after.start_timeout_s(), 600 + 730);
}

TEST(Start, ADaemonThatWasRestartedHearsItAgain) {
  JobStory before = ThreeRunning("2:3");
  before.Tell({{1.0, BeatsLinked("a"), ""}, {1.0, BeatsLinked("b"), ""}});
  JobStory after = RestartOf(before);
  after.Tell({{0.1, Attends("a", 1, Holds(0, 1)), ""},
              {0.1, Attends("b", 1, Holds(0, 1)), ""},
              {0.2, BeatsLinked("a"), ""}});
  EXPECT_EQ(after.TakeRanksLinkTold(), Names());
  after.Tell(
      {{0.2, BeatsLinked("b"), ""}, {0.3, Attends("c", 1, Holds(0, 1)), ""}});
  EXPECT_EQ(after.TakeRanksLinkTold(), Names({"a", "b", "c"}));
}

TEST(Start, AnAgentWithAnotherLimitIsTold) {
  HelloOptions options;
  ToProto(absl::Seconds(3), options.settings.mutable_start_timeout());
  JobStory story("2");
  story.Tell({{0.0, Attends("a", 1, options), "refuse a SETTINGS"}});
  ToProto(absl::Minutes(10), options.settings.mutable_start_timeout());
  story.Tell({{0.1, Attends("a", 1, options), ""}});
}

}  // namespace
}  // namespace rollcall
