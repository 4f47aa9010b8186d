// The key-value store of a generation, from its beginning to its end.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/story/job/job_story.h"

namespace rollcall {
namespace {

using Words = std::vector<std::string>;

constexpr auto kAdd = v1::STORE_KIND_ADD;
constexpr auto kCheck = v1::STORE_KIND_CHECK;

TEST(StoreStory, BelongsToTheGenerationThatRuns) {
  JobStory story("2");
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.0, Attends("b"), "form g1 a,b"},
      {0.0, AsksStore("a", 1, kAdd, "n", 0, 0), ""},  // Nothing runs yet.
      {0.1, PreparesAll({"a", "b"}, 1), "run g1"},
      {0.2, AsksStore("a", 1, kAdd, "n", 0, 0), ""},
      {0.2, AsksStore("b", 1, kCheck, "n", 0, 0), ""},
  });
  EXPECT_EQ(story.TakeStoreTold(), Words{"a: keep n 1=1"});
  // a has the record now, so b may see it.
  story.Tell({{0.3, AsksStore("a", 2, kCheck, "n", 0, 1), ""}});
  EXPECT_EQ(story.TakeStoreTold(), (Words{"a: 2=1", "b: 1=1"}));
  story.Tell({
      {0.4, Exits("a", 1, 3), "abort g1 RANK_EXIT; form g2 a,b"},
      {0.4, AsksStore("b", 2, kCheck, "n", 0, 1), ""},
  });
  EXPECT_EQ(story.TakeStoreTold(), Words{});
}

TEST(StoreStory, ANewStreamAsksAgain) {
  JobStory story = TwoRunning("2");
  story.Tell({
      {0.2, AsksStore("a", 1, kAdd, "n", 0, 0), ""},
      {0.3, Breaks("a"), ""},
  });
  story.TakeStoreTold();
  story.Tell({{0.4, Attends("a", 1, Holds(0, 1)), ""}});
  EXPECT_EQ(story.TakeStoreTold(), Words{"a: open 1 keep n"});
  // The operation is done once. What was asked before the store opened is
  // ignored.
  story.Tell({
      {0.5, AsksStore("a", 1, kAdd, "n", 0, 0), ""},
      {0.6, AsksStore("a", 1, kAdd, "n", 1, 1), ""},
  });
  EXPECT_EQ(story.TakeStoreTold(), Words{"a: 1=1"});
}

TEST(StoreStory, ARestartedDaemonAnswersOnceAllMembersHaveTold) {
  JobStory after = RestartOf(TwoRunning("2"));
  after.Tell({
      {0.1, Attends("a", 1, Holds(0, 1)), ""},
      {0.2, TellsStore("a", "n"), ""},
      {0.2, AsksStore("a", 7, kAdd, "n", 0, 0), ""},
  });
  EXPECT_EQ(after.TakeStoreTold(), Words{"a: tell"});
  // b had not been told of the commit, and gets it first.
  after.Tell({
      {0.3, Attends("b", 1, Holds(1, 0)), "run g1"},
      {0.4, TellsStore("b"), ""},
      {0.5, AsksStore("a", 7, kAdd, "n", 1, 1), ""},
  });
  EXPECT_EQ(after.TakeStoreTold(),
            (Words{"b: tell", "a: open 1", "b: open 1", "a: keep n 7=6"}));
}

TEST(StoreStory, WhoAsksForTooMuchLosesItsStream) {
  JobStory story = TwoRunning("2");
  story.Tell({{0.2, AsksStore("a", 1, kAdd, "n", 0, 0), ""}});
  // a never confirms the record, so no other node gets an answer.
  std::string last;
  uint64_t asked = 0;
  while (last.empty() && asked < 5000) {
    story.Tell({{0.3,
                 [&](JobStory& told) {
                   last = AsksStore("b", ++asked, kCheck, "n", 0, 0)(told);
                   return std::string();
                 },
                 ""}});
  }
  EXPECT_EQ(last, "refuse b SLOW");
  EXPECT_EQ(asked, Limits::store_asked_per_node_max +
                       Limits::store_waits_per_node_max + 1);
}

}  // namespace
}  // namespace rollcall
