// What status and logs show.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/printable.h"
#include "tests/story/job/job_story.h"

namespace rollcall {
namespace {

Told BeatsWith(std::string node, uint64_t step, double loss) {
  v1::AgentMessage message;
  message.mutable_heartbeat()->set_generation(1);
  message.mutable_heartbeat()->set_step(step);
  message.mutable_heartbeat()->mutable_pace()->set_loss(loss);
  return Says(std::move(node), message);
}

TEST(Status, ThePaceOfRankZeroIsNewsOnlyWhenItIs) {
  JobStory story = ThreeRunning("3");
  story.Tell(
      {{1.0, BeatsWith("a", 5, 1.5), ""}, {1.0, BeatsWith("b", 5, 9.0), ""}});
  v1::JobStatus status = story.job().Status(story.now());
  EXPECT_EQ(status.pace().loss(), 1.5);
  const uint64_t revision = status.revision();
  story.Tell({
      {2.0, BeatsWith("a", 5, 1.5), ""},
      {2.0, BeatsWith("b", 5, 9.5), ""},  // Not from rank 0.
  });
  EXPECT_EQ(story.job().Status(story.now()).revision(), revision);
  story.Tell({{3.0, BeatsWith("a", 6, 1.25), ""}});
  status = story.job().Status(story.now());
  EXPECT_GT(status.revision(), revision);
  EXPECT_EQ(status.pace().loss(), 1.25);
}

// Text from an agent cannot forge a field of a log line.
TEST(Logs, WhatANodeSaysStandsInOnePairOfQuotes) {
  JobStory story("1");
  const std::string forged = "x\" level=error event=end code=\"0";
  v1::AgentMessage message;
  v1::Prepared& prepared = *message.mutable_prepared();
  prepared.set_generation(1);
  prepared.set_master_port(20000);
  prepared.set_nccl_absent(forged);
  prepared.add_warnings(forged);
  story.Tell(
      {{0.0, Attends("a"), "form g1 a"}, {0.1, Says("a", message), "run g1"}});
  EXPECT_TRUE(
      absl::StrContains(story.logs(), absl::StrCat("text=", Quoted(forged))));
  EXPECT_TRUE(absl::StrContains(story.logs(),
                                absl::StrCat("nccl_absent=", Quoted(forged))));
  EXPECT_FALSE(absl::StrContains(story.logs(), "x\" level=error"));
}

}  // namespace
}  // namespace rollcall
