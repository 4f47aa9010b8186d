// What status and logs show.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/base/text/printable.h"
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

Told BeatsAt(std::string node, uint64_t step, uint64_t generation = 1,
             uint64_t saved = 0) {
  v1::AgentMessage message;
  message.mutable_heartbeat()->set_generation(generation);
  message.mutable_heartbeat()->set_step(step);
  message.mutable_heartbeat()->set_saved_step(saved);
  return Says(std::move(node), message);
}

TEST(Status, StepsThatTakeTwiceAsLongForAMinuteAreASlowPeriod) {
  JobStory story = ThreeRunning("3");
  double at = 0;
  uint64_t step = 0;
  const auto train = [&](double seconds, double step_s) {
    for (const double end = at + seconds; at < end;) {
      at += step_s;
      ++step;
      story.Tell({{at, BeatsAt("a", step), ""},
                  {at, BeatsAt("b", step), ""},
                  {at, BeatsAt("c", step), ""}});
    }
    return story.job().Status(story.now());
  };
  EXPECT_FALSE(train(60, 2.5).has_slow());
  v1::AgentMessage changed;
  changed.mutable_fact_change()->set_kind(v1::FACT_KIND_INTERFACE);
  changed.mutable_fact_change()->set_subject("interface eth1");
  changed.mutable_fact_change()->set_before("up");
  changed.mutable_fact_change()->set_after("down");
  changed.mutable_fact_change()->set_count(1);
  story.Tell({{at, Says("b", changed), ""}});
  EXPECT_FALSE(train(50, 5).has_slow());
  const v1::JobStatus status = train(15, 5);
  EXPECT_TRUE(absl::StartsWith(status.slow().changed(), "b: \"interface eth1"))
      << status.slow().changed();
  EXPECT_EQ(status.slow().step().seconds(), 5);
  EXPECT_EQ(status.slow().median().seconds(), 2);
  EXPECT_TRUE(absl::StrContains(
      story.logs(), "event=slow generation=1 step_s=5 median_s=2.5"));
  EXPECT_FALSE(train(30, 2.5).has_slow());
  EXPECT_TRUE(absl::StrContains(story.logs(), "event=slow_ended generation=1"));
}

TEST(Status, AWorldThatBeginsFarBelowTheLastOneIsNamed) {
  JobStory story = ThreeRunning("3");
  const auto next = [&story](uint64_t step, uint64_t generation, double at) {
    const uint64_t last = generation - 1;
    // A node that fails twice in a row would be quarantined.
    const char* const fails = generation % 2 == 0 ? "b" : "c";
    story.Tell({{at, BeatsAt("a", step, last), ""},
                {at + 0.1, Exits(fails, last, 1),
                 absl::StrCat("abort g", last, " RANK_EXIT; form g", generation,
                              " a,b,c")}});
    for (const char* node : {"a", "b", "c"}) {
      story.Tell({{at + 0.2, Stops(node, last), ""},
                  {at + 0.2, Prepares(node, generation),
                   *node == 'c' ? absl::StrCat("run g", generation) : ""}});
    }
  };
  next(100, 2, 1.0);
  // A checkpoint that is not old.
  story.Tell({{2.0, BeatsAt("a", 50, 2), ""}});
  EXPECT_FALSE(story.job().Status(story.now()).has_resumed());
  next(120, 3, 2.1);
  // Another node's steps are not shown, so they do not count.
  story.Tell({{3.0, BeatsAt("c", 1, 3), ""}});
  EXPECT_FALSE(story.job().Status(story.now()).has_resumed());
  story.Tell({{3.1, BeatsAt("a", 2, 3), ""}});
  const v1::JobStatus status = story.job().Status(story.now());
  EXPECT_EQ(status.resumed().step(), 2u);
  EXPECT_EQ(status.resumed().was(), 120u);
  EXPECT_TRUE(absl::StrContains(
      story.logs(), "event=resumed_below generation=3 step=2 was=120"));
  next(130, 4, 3.2);
  EXPECT_FALSE(story.job().Status(story.now()).has_resumed());
}

TEST(Status, ARunThatBeginsFarBelowTheOneBeforeItIsNamed) {
  struct Row {
    LastStep last;
    uint64_t step;
    const char* expect;
  };
  const Row rows[] = {
      {{"run0", 120}, 2, " step=2 was=120 former_run=\"run0\""},
      {{"run0", 120}, 60, ""},
      {{"run0", 0}, 2, ""},
      {{}, 2, ""},
      // The daemon was started again.
      {{"run1", 120}, 2, " step=2 was=120"},
      {{"run1", 120}, 119, ""},
  };
  for (const Row& row : rows) {
    JobStory story = ThreeRunning("3");
    story.job().UseLastStep(row.last);
    story.Tell({{1.0, BeatsAt("a", row.step, 1), ""}});
    const v1::JobStatus status = story.job().Status(story.now());
    EXPECT_EQ(status.has_resumed(), *row.expect != '\0') << row.expect;
    EXPECT_EQ(status.resumed().was(), *row.expect ? row.last.step : 0u);
    EXPECT_EQ(status.resumed().former_run(),
              absl::StrContains(row.expect, "former") ? row.last.run : "");
    if (*row.expect == '\0') continue;
    EXPECT_TRUE(absl::StrContains(
        story.logs(),
        absl::StrCat("event=resumed_below generation=1", row.expect, "\n")))
        << story.logs();
  }
}

TEST(Status, TheLastCheckpointIsShownAndTold) {
  JobStory story = ThreeRunning("3");
  story.Tell(
      {{1, BeatsAt("b", 90, 1, 80), ""}, {2, BeatsAt("a", 100, 1, 90), ""}});
  EXPECT_EQ(story.job().Status(story.now()).saved_step(), 90u);
  // Another node's steps are not shown, so its checkpoints are not either.
  story.Tell({{3, BeatsAt("b", 120, 1, 110), ""}});
  EXPECT_EQ(story.job().Status(story.now()).saved_step(), 90u);
  EXPECT_TRUE(absl::StrContains(
      story.logs(), "event=checkpoint generation=1 step=90 saved=80\n"));
  // Within a minute only `status` shows the next one.
  EXPECT_FALSE(absl::StrContains(story.logs(), "saved=90"));
  story.Tell({{62, BeatsAt("a", 101, 1, 90), ""}});
  EXPECT_TRUE(absl::StrContains(
      story.logs(), "event=checkpoint generation=1 step=101 saved=90\n"));
}

TEST(Status, HowFarTheRunIsIsToldRarely) {
  JobStory story = ThreeRunning("3");
  double at = 1;
  for (const uint64_t step :
       {uint64_t{63}, uint64_t{64}, uint64_t{127}, uint64_t{10}, uint64_t{150},
        uint64_t{1} << 63, uint64_t{1} << 63, ~uint64_t{0}, ~uint64_t{0} - 1}) {
    story.Tell({{at += 1, BeatsAt("a", step, 1), ""}});
  }
  std::vector<std::string> told;
  for (const absl::string_view line : absl::StrSplit(story.logs(), '\n')) {
    const size_t found = line.find("event=reached");
    if (found != line.npos) told.emplace_back(line.substr(found));
  }
  EXPECT_EQ(told, (std::vector<std::string>{
                      "event=reached generation=1 step=64",
                      "event=reached generation=1 step=150",
                      "event=reached generation=1 step=9223372036854775808"}));
}

TEST(Status, TheMostMemoryOfARankIsShown) {
  JobStory story = ThreeRunning("3");
  const auto ends = [](const char* node, uint64_t bytes) {
    v1::AgentMessage message;
    message.mutable_rank_exited()->set_generation(1);
    message.mutable_rank_exited()->set_peak_bytes(bytes);
    return Says(node, message);
  };
  EXPECT_FALSE(story.job().Status(story.now()).has_peak_memory());
  story.Tell({{1.0, ends("a", 5), ""},
              {1.0, ends("b", 9), ""},
              {1.0, ends("c", 7), "end 0 FINISHED"}});
  const v1::JobStatus status = story.job().Status(story.now());
  EXPECT_EQ(status.peak_memory().node(), "b");
  EXPECT_EQ(status.peak_memory().bytes(), 9u);
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
