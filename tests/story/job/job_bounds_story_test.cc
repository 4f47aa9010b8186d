// Bounds on what a job keeps.
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/story/job/job_story.h"
#include "tests/unit/heap.h"

namespace rollcall {
namespace {

// --- Bounds ------------------------------------------------------------------

TEST(Bounds, AJobHasSoManySpares) {
  JobStory story("2");
  std::string answer;
  uint32_t nodes = 0;
  for (; nodes < 2 * Limits::spares_max; ++nodes) {
    answer = Attends(absl::StrCat("n", nodes))(story);
    if (absl::StartsWith(answer, "refuse")) break;
  }
  EXPECT_EQ(nodes, 2 + Limits::spares_max);
  EXPECT_EQ(answer, "refuse n1026 LIMIT");
  // A lost node makes room.
  story.Tell({
      {1.0, Breaks("n7"), ""},
      {1.5, BeatsAll({"n0", "n1"}), ""},
      {2.5, Ticks(), ""},
      {2.6, Attends("late"), ""},
      {2.7, Attends("later"), "refuse later LIMIT"},
      // A lost node that comes back needs room as well.
      {2.8, Attends("n7", 2), "refuse n7 LIMIT"},
  });
}

TEST(Bounds, NoTokenKeepsAllOthersOut) {
  JobStory story("1");
  HelloOptions many;
  many.token_id = "many";
  story.Tell({{0.0, Attends("a"), "form g1 a"}});
  for (uint32_t i = 0; i < Limits::spares_max; ++i) {
    ASSERT_EQ(Attends(absl::StrCat("n", i), 1, many)(story), "") << i;
  }
  // All attended at the same time, so the last one by name is removed.
  story.Tell({
      {0.1, Attends("more", 1, many), "refuse more LIMIT"},
      {0.2, Attends("other"), "refuse n999 LIMIT"},
  });
  const v1::JobStatus status = story.job().Status(story.now());
  size_t attending = 0;
  for (const v1::NodeStatus& node : status.nodes()) {
    attending += node.state() == v1::NODE_STATE_SPARE;
  }
  EXPECT_EQ(attending, Limits::spares_max);
}

// --- Memory ------------------------------------------------------------------

constexpr size_t kSmall = 100'000;

// How many more bytes are allocated than before.
size_t Grown(size_t before) {
  const size_t now = HeapBytes();
  return now > before ? now - before : 0;
}

// Allocates what protobuf allocates only once, before anything is measured.
void MakeDescriptors() { v1::Hello::descriptor(); }

TEST(Memory, SettingsOfAHelloAreNotKept) {
  MakeDescriptors();
  JobStory story("4");
  Attends("first")(story);
  const size_t before = HeapBytes();
  for (int node = 0; node < 8; ++node) {
    HelloOptions options;
    for (int i = 0; i < 1000; ++i) {
      options.settings.add_expected_nodes(std::string(1000, 'n'));
    }
    Attends(absl::StrCat("n", node), 1, options)(story);
  }
  EXPECT_EQ(story.job().Status(story.now()).nodes_size(), 9);
  EXPECT_LT(Grown(before), kSmall);
}

TEST(Memory, FactsOfANodeThatIsGoneAreNotKept) {
  MakeDescriptors();
  JobStory story("20");
  Attends("first")(story);
  const size_t before = HeapBytes();
  for (int node = 0; node < 8; ++node) {
    Attend attend;
    attend.hello = HelloOf(absl::StrCat("n", node), 1);
    attend.observed_address = AddressOf("first");
    attend.session = story.NewSession(attend.hello.node());
    for (int i = 0; i < 250; ++i) {
      attend.hello.mutable_facts()->add_gpus()->set_name(std::string(200, 'g'));
    }
    story.Step(attend);
    if (node == 0) {
      // While the node attends, its facts are needed.
      EXPECT_GT(Grown(before), size_t{50'000});
    }
    v1::AgentMessage leaving;
    leaving.mutable_leaving()->set_reason("over");
    story.Step(Said{attend.session, leaving});
    story.Step(StreamClosed{attend.session});
  }
  EXPECT_EQ(story.job().Status(story.now()).nodes_size(), 9);
  EXPECT_LT(Grown(before), kSmall);
}

}  // namespace
}  // namespace rollcall
