// Newcomers to a running world, and spares.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/story/job/job_story.h"

namespace rollcall {
namespace {

// a and b run generation 1 from 1.1 on, and there are free seats.
std::vector<JobStory::Row> TwoRunBelowMax() {
  return {
      {0.0, Attends("a"), ""},
      {0.0, Attends("b"), ""},
      {1.0, Ticks(), "form g1 a,b"},
      {1.1, PreparesAll({"a", "b"}, 1), "run g1"},
  };
}

TEST(Grow, ANewcomerIsTakenInAtTheNextBoundary) {
  JobStory story("2:5");
  story.Tell({{0.0, Attends("a"), ""},
              {0.0, Attends("b"), ""},
              {0.0, Attends("c"), ""},
              {1.0, Ticks(), "form g1 a,b,c"},
              {1.1, PreparesAll({"a", "b", "c"}, 1), "run g1"},
              {2.0, Attends("d"), ""},
              {2.9, Ticks(), ""},
              {3.0, Ticks(), "notice 1 GROW"},
              {3.1, Sees("a", 1), ""},
              {3.1, Sees("b", 1), ""},
              {3.1, Sees("c", 1), "abort g1 GROW; form g2 a,b,c,d"}});
}

TEST(Grow, ForTheLastSeatNobodyIsWaitedFor) {
  JobStory story("2:3");
  story.Tell(TwoRunBelowMax());
  story.Tell({{2.0, Attends("c"), "notice 1 GROW"},
              {2.1, Sees("a", 1), ""},
              {2.1, Sees("b", 1), "abort g1 GROW; form g2 a,b,c"}});
}

TEST(Grow, AFullWorldDoesNot) {
  JobStory story = ThreeRunning("2:3");
  story.Tell({{2.0, Attends("d"), ""}, {3.0, Ticks(), ""}});
  EXPECT_EQ(story.job().NextDeadline(),
            absl::UnixEpoch() + absl::Seconds(5) + absl::Milliseconds(100));
}

TEST(Grow, NeverMeansNever) {
  v1::JobSettings settings;
  settings.set_nodes_min(1);
  settings.set_nodes_max(3);
  settings.set_grow(v1::GROW_NEVER);
  JobStory story(Job("demo", "run1", settings, Limits(), absl::UnixEpoch()),
                 JobStory("1"));
  story.Tell({{0.0, Attends("a"), ""},
              {1.0, Ticks(), "form g1 a"},
              {1.1, Prepares("a", 1), "run g1"},
              {1.2, Attends("b"), ""},
              {3.0, Ticks(), ""}});
}

TEST(Grow, WhoComesAfterSomebodyIsDoneStaysASpare) {
  JobStory story("2:4");
  story.Tell(TwoRunBelowMax());
  story.Tell({{2.0, Exits("a", 1, 0), ""},
              {2.1, Attends("c"), ""},
              {3.1, Ticks(), ""}});
}

TEST(Grow, StepsAreTakenWhereTheNodeOfRankZeroIsForgotten) {
  JobStory story("2:4");
  story.Tell(TwoRunBelowMax());
  story.Tell({{1.2, Exits("a", 1, 0), ""},
              {1.3, Breaks("a"), ""},
              {2.4, Ticks(), ""}});
  // A limited number of names of lost nodes is kept.
  for (size_t i = 0; i <= Limits::lost_names_max; ++i) {
    const std::string name = absl::StrCat("d", i);
    story.Tell(
        {{2.5, Attends(name), ""},
         {2.5, Evicts({name}), absl::StrCat("refuse ", name, " EVICTED")}});
  }
  EXPECT_FALSE(story.job().Knows("a"));
  story.Tell({{2.6, Beats("b", 5), ""}});
  EXPECT_EQ(story.job().Status(story.now()).step(), 5u);
}

// The reason that the newcomer d gets for having no seat.
std::string WhyNoSeat(JobStory& story, double at) {
  story.TakeWaitingTold();
  story.Tell({{at, Attends("d"), ""}});
  std::string told;
  for (const std::string& one : story.TakeWaitingTold()) {
    if (one.starts_with("d: ")) told = one;
  }
  return told;
}

TEST(Grow, ANewcomerIsToldWhyItHasNoSeat) {
  JobStory full = ThreeRunning("2:3");
  EXPECT_EQ(WhyNoSeat(full, 0.5), "d: ");  // No seat is free.

  JobStory back = RestartOf(full);
  EXPECT_EQ(WhyNoSeat(back, 0.5),
            "d: the daemon was restarted, and waits for a, b, c of the "
            "running world, for 1m at most");

  JobStory done("2:4");
  done.Tell(TwoRunBelowMax());
  done.Tell({{2.0, Exits("a", 1, 0), ""}});
  EXPECT_EQ(WhyNoSeat(done, 2.1),
            "d: ranks have exited 0, so the world takes in no more nodes");
}

TEST(Grow, WorkThatIsDoneIsNotBegunAgainWhereItsNodeHasLeft) {
  JobStory story("2:4");
  story.Tell({{0.0, Attends("a"), ""},
              {0.0, Attends("b"), ""},
              {0.0, Attends("c"), ""},
              {1.0, Ticks(), "form g1 a,b,c"},
              {1.1, PreparesAll({"a", "b", "c"}, 1), "run g1"},
              {2.0, Exits("a", 1, 0), ""},
              {2.1, Breaks("a"), ""},
              {3.1, Ticks(), ""},
              {3.2, Attends("d"), ""},
              {4.5, Ticks(), ""}});
}

TEST(Grow, AWorldThatIsDoneMeanwhileIsNotBegunAnew) {
  JobStory story("2:4");
  story.Tell(TwoRunBelowMax());
  story.Tell({{2.0, Attends("c"), ""},
              {3.0, Ticks(), "notice 1 GROW"},
              {3.1, Exits("a", 1, 0), ""},
              {3.2, Exits("b", 1, 0), "end 0 FINISHED"}});
}

TEST(Grow, WhoCameWhileAWorldWasFormedIsNotForgotten) {
  JobStory story("2:4");
  story.Tell({{0.0, Attends("a"), ""},
              {0.0, Attends("b"), ""},
              {1.0, Ticks(), "form g1 a,b"},
              {1.1, Attends("c"), ""},
              {1.2, PreparesAll({"a", "b"}, 1), "run g1"},
              {2.2, Ticks(), "notice 1 GROW"}});
}

// With a worker's token, someone can attend with a whole world of nodes that
// run another command.
TEST(Grow, ASpareIsToldThatItsCommandNeverRan) {
  const HelloOptions theirs{.command = 't'};
  const HelloOptions ours{.command = 'o'};
  JobStory story("2");
  story.Tell({{0.0, Attends("x", 1, theirs), ""},
              {0.0, Attends("y", 1, theirs), "form g1 x,y"},
              {0.1, PreparesAll({"x", "y"}, 1), "run g1"},
              {0.2, Attends("a", 1, ours), ""},
              {0.2, Attends("z", 1, theirs), ""},
              {0.2, Attends("u"), ""},
              {0.3, Exits("x", 1, 0), ""},
              {0.4, Exits("y", 1, 0), "end 0 FINISHED; end 69 OTHER_COMMAND"},
              {0.5, Attends("b", 1, ours), "end 69 OTHER_COMMAND"},
              {0.5, Attends("c"), "end 0 FINISHED"}});
  // The command of the launcher's own node has run, or no two nodes had the
  // same command.
  HelloOptions launcher = theirs;
  launcher.launcher = true;
  for (const HelloOptions& first : {launcher, HelloOptions{.command = 'x'}}) {
    JobStory other("2");
    other.Tell({{0.0, Attends("x", 1, first), ""},
                {0.0, Attends("y", 1, theirs), "form g1 x,y"},
                {0.1, PreparesAll({"x", "y"}, 1), "run g1"},
                {0.2, Attends("a", 1, ours), ""},
                {0.3, Exits("x", 1, 0), ""},
                {0.4, Exits("y", 1, 0), "end 0 FINISHED"}});
  }
}

// The commit has the digest of the command. At the end, other agents may have
// the members' names, or the daemon may know only the members' rows.
TEST(Grow, TheCommandIsThatOfTheWorldThatRan) {
  const HelloOptions theirs{.command = 't'};
  const HelloOptions ours{.command = 'o'};
  JobStory story("2");
  story.Tell({{0.0, Attends("x", 1, theirs), ""},
              {0.0, Attends("y", 1, theirs), "form g1 x,y"},
              {0.1, PreparesAll({"x", "y"}, 1), "run g1"},
              {0.2, Exits("x", 1, 0), ""},
              {0.3, Ticks(), ""},
              {0.4, Breaks("x"), ""}});
  JobStory after = RestartOf(story);
  // Another agent has the name of a node that finished and left.
  story.Tell({{1.5, Ticks(), ""},
              {1.6, Attends("x", 2, ours), ""},
              {1.7, Exits("y", 1, 0), "end 0 FINISHED; end 69 OTHER_COMMAND"}});
  // The daemon was restarted, and one member has not come back.
  HelloOptions back = Holds(0, 1);
  back.command = 't';
  after.Tell({{0.5, Attends("y", 1, back), ""},
              {0.6, Attends("a", 1, ours), ""},
              {0.7, Exits("y", 1, 0), "end 0 FINISHED; end 69 OTHER_COMMAND"}});
}

}  // namespace
}  // namespace rollcall
