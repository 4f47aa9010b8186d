// Nodes whose facts differ are named, or left out.
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/match.h"
#include "daemon/core/network_plan/comparison/differences.h"
#include "tests/story/job/job_story.h"

namespace rollcall {
namespace {

HelloOptions Nccl(const std::string& version) {
  HelloOptions options;
  options.nccl = version;
  return options;
}

v1::NodeStatus NodeOf(JobStory& story, const std::string& name) {
  const v1::JobStatus status = story.job().Status(story.now());
  for (const v1::NodeStatus& node : status.nodes()) {
    if (node.node() == name) return node;
  }
  ADD_FAILURE() << "no node " << name;
  return {};
}

TEST(Preflight, NodesThatDifferAreNamedAndFormed) {
  JobStory story("3");
  story.Tell({
      {0.0, Attends("a", 1, Nccl("2.28.9")), ""},
      {0.0, Attends("b", 1, Nccl("2.28.9")), ""},
      {0.0, Attends("c", 1, Nccl("2.21.5")), "form g1 a,b,c"},
  });
  const v1::JobStatus status = story.job().Status(story.now());
  ASSERT_EQ(status.differences_size(), 1);
  EXPECT_EQ(status.differences(0).fact(), "NCCL version");
  ASSERT_EQ(status.differences(0).sides_size(), 2);
  EXPECT_EQ(status.differences(0).sides(0).value(), "2.28.9");
  EXPECT_EQ(status.differences(0).sides(1).nodes(0), "c");
}

TEST(Preflight, OffLooksForNothing) {
  JobStory story("2", v1::PREFLIGHT_OFF);
  story.Tell({
      {0.0, Attends("a", 1, Nccl("2.28.9")), ""},
      {0.0, Attends("b", 1, Nccl("2.21.5")), "form g1 a,b"},
  });
  EXPECT_EQ(story.job().Status(story.now()).differences_size(), 0);
}

TEST(Preflight, StrictGivesNoSeatUntilItIsMended) {
  JobStory story("2:3", v1::PREFLIGHT_STRICT);
  story.Tell({
      {0.0, Attends("a", 1, Nccl("2.28.9")), ""},
      {0.0, Attends("b", 1, Nccl("2.28.9")), ""},
      {0.0, Attends("c", 1, Nccl("2.21.5")), ""},
      {1.0, Ticks(), "form g1 a,b"},
      {1.1, PreparesAll({"a", "b"}, 1), "run g1"},
  });
  EXPECT_EQ(NodeOf(story, "c").state(), v1::NODE_STATE_SPARE);
  EXPECT_TRUE(absl::StrContains(NodeOf(story, "c").reason(), "2.21.5 on c"));
  EXPECT_EQ(story.job().Status(story.now()).differences_size(), 1);
  // The agent of c is started again, with another library.
  story.Tell({
      {2.0, Breaks("c"), ""},
      {3.0, Ticks(), ""},
      {3.1, Attends("c", 2, Nccl("2.28.9")), "notice 1 GROW"},
  });
}

// Two nodes cannot outvote the launcher's own node, which always has a seat.
TEST(Preflight, TheLaunchersSideCounts) {
  JobStory story("1:3", v1::PREFLIGHT_STRICT);
  HelloOptions launcher = Nccl("2.21.5");
  launcher.launcher = true;
  story.Tell({
      {0.0, Attends("b", 1, Nccl("2.28.9")), ""},
      {0.0, Attends("c", 1, Nccl("2.28.9")), ""},
      {0.0, Attends("z", 1, launcher), ""},
      {1.0, Ticks(), "form g1 z"},
  });
  // The same holds if others came first and have their seats.
  JobStory late("1:3", v1::PREFLIGHT_STRICT);
  late.Tell({
      {0.0, Attends("b", 1, Nccl("2.28.9")), ""},
      {0.0, Attends("c", 1, Nccl("2.28.9")), ""},
      {1.0, Ticks(), "form g1 b,c"},
      {1.1, PreparesAll({"b", "c"}, 1), "run g1"},
      {1.2, Attends("z", 1, launcher), "notice 1 GROW"},
  });
}

TEST(Preflight, NodesThatAgreeAreFormedAndEqualSidesToo) {
  JobStory story("2", v1::PREFLIGHT_STRICT);
  story.Tell({
      {0.0, Attends("a", 1, Nccl("2.28.9")), ""},
      {0.0, Attends("b", 1, Nccl("2.28.9")), "form g1 a,b"},
      {0.1, PreparesAll({"a", "b"}, 1), "run g1"},
  });
  // With two nodes that differ, no one can say which is right.
  JobStory even("2", v1::PREFLIGHT_STRICT);
  even.Tell({
      {0.0, Attends("a", 1, Nccl("2.28.9")), ""},
      {0.0, Attends("b", 1, Nccl("2.21.5")), "form g1 a,b"},
  });
}

// A running world is not ended for a node that would get no seat.
TEST(Preflight, ANewcomerThatDiffersEndsNoWorld) {
  JobStory story("1:3", v1::PREFLIGHT_STRICT);
  story.Tell({
      {0.0, Attends("a", 1, Nccl("2.28.9")), ""},
      {1.0, Ticks(), "form g1 a"},
      {1.1, PreparesAll({"a"}, 1), "run g1"},
      {1.2, Attends("c", 1, Nccl("2.21.5")), ""},
      {2.5, Beats("a"), ""},
      {2.6, Beats("c"), ""},
      {4.0, Ticks(), ""},
      // The same agent attends again, which is no reason to end the world.
      {4.1, Attends("c", 1, Nccl("2.21.5")), "refuse c REDIALED"},
      {5.5, Beats("a"), ""},
      {5.6, Ticks(), ""},
  });
  EXPECT_TRUE(absl::StrContains(NodeOf(story, "c").reason(), "2.21.5 on c"));
}

// What its set-up command makes counts.
TEST(Preflight, ANewcomerIsComparedOnceItIsSetUp) {
  const auto facts_of = [](const HelloOptions& options) {
    v1::AgentMessage message;
    *message.mutable_check_report()->mutable_facts() =
        HelloOf("c", 1, options).facts();
    return Says("c", message);
  };
  for (const bool alike : {true, false}) {
    JobStory story("1:3", v1::PREFLIGHT_STRICT);
    HelloOptions before = Nccl(alike ? "2.21.5" : "2.28.9");
    before.setting_up = true;
    const HelloOptions after = Nccl(alike ? "2.28.9" : "2.21.5");
    story.Tell({
        {0.0, Attends("a", 1, Nccl("2.28.9")), ""},
        {1.0, Ticks(), "form g1 a"},
        {1.1, PreparesAll({"a"}, 1), "run g1"},
        {1.2, Attends("c", 1, before), ""},
        {1.3, facts_of(after), ""},
        {1.4, SetsUp("c"), ""},
        {2.0, BeatsAll({"a", "c"}), ""},
        {3.0, BeatsAll({"a", "c"}), alike ? "notice 1 GROW" : ""},
    });
    EXPECT_EQ(absl::StrContains(NodeOf(story, "c").reason(), "2.21.5 on c"),
              !alike);
  }
}

// The comparison also works if the member that is first by name does not know
// the value.
TEST(Preflight, ANewcomerIsComparedWithTheValueThatMembersAgreeOn) {
  JobStory story("3:5", v1::PREFLIGHT_STRICT);
  story.Tell({
      {0.0, Attends("a", 1, Nccl("")), ""},
      {0.0, Attends("b", 1, Nccl("2.28.9")), ""},
      {0.0, Attends("c", 1, Nccl("2.28.9")), ""},
      {0.0, Attends("d", 1, Nccl("2.27.1")), ""},
      {1.0, Ticks(), "form g1 a,b,c"},
      {1.1, PreparesAll({"a", "b", "c"}, 1), "run g1"},
      {1.2, Attends("e", 1, Nccl("2.21.5")), ""},
  });
  EXPECT_TRUE(absl::StrContains(NodeOf(story, "e").reason(),
                                "NCCL version: 2.28.9 on b, c; 2.21.5 on e"))
      << NodeOf(story, "e").reason();
  // The difference that was found when the world was formed is still shown.
  const v1::JobStatus status = story.job().Status(story.now());
  ASSERT_EQ(status.differences_size(), 1);
  EXPECT_EQ(DifferenceText(status.differences(0)),
            "NCCL version: 2.28.9 on b, c; 2.27.1 on d");
}

}  // namespace
}  // namespace rollcall
