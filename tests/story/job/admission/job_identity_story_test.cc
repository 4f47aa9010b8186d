// Which agent may have a name, by its incarnation and its run.
#include <gtest/gtest.h>

#include "tests/story/job/job_story.h"

namespace rollcall {
namespace {

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

// Otherwise an agent with any worker's token could take the name when a stream
// breaks. The name's own agent comes back with a credential.
TEST(Identity, ATokenTakesNoNameWhoseAgentMayComeBack) {
  JobStory story = ThreeRunning("2:3");
  story.Tell({
      {1.0, Breaks("b"), ""},
      {1.0, Attends("b", 2), "refuse b UNSPECIFIED"},
      {1.9, Attends("b", 2), "refuse b UNSPECIFIED"},
      {1.9, Attends("b", 1, Holds(0, 1)), ""},
      {2.0, Attends("b", 2), "refuse b NAME_TAKEN"},
  });
  EXPECT_EQ(story.job().state(), v1::JOB_STATE_RUNNING);
  JobStory lost = ThreeRunning("2:3");
  lost.Tell({
      {1.0, Breaks("b"), ""},
      {1.9, Attends("b", 2), "refuse b UNSPECIFIED"},
      {2.0, Ticks(), "abort g1 LOST_STREAM; form g2 a,c"},
      {2.1, Attends("b", 2), ""},
  });
}

// The launcher's agent may also come back by its admin token.
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

// An agent with a worker's token cannot keep the launcher from its own node's
// name.
TEST(Identity, TheLaunchersAgentTakesItsNameFromAWorkers) {
  HelloOptions launcher;
  launcher.launcher = true;
  // The refusal goes to the agent that had the name.
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
      // A second launcher does not take the name from the first.
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
  JobStory story = ThreeRunning("2:3");
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

}  // namespace
}  // namespace rollcall
