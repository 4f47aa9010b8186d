#include "daemon/core/failures/progress.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/unit/core/nodes.h"

namespace rollcall {
namespace {

v1::World ThreeMembers() {
  v1::World world;
  for (const char* node : {"a", "b", "c"}) world.add_members()->set_node(node);
  return world;
}

TEST(Progress, TheStepOfNodeRank0IsShownIfItPublishesAny) {
  struct {
    const char* what;
    // The nodes publish their steps in this order.
    std::vector<std::pair<std::string, uint64_t>> published;
    // Node rank 0 has left, and its entry was removed.
    bool first_removed;
    uint64_t shown;
  } const kRows[] = {
      {"none", {}, false, 0},
      {"node rank 0", {{"a", 5}}, false, 5},
      {"others: the highest", {{"b", 5}, {"c", 3}}, false, 5},
      {"others: the highest, in another order", {{"b", 3}, {"c", 5}}, false, 5},
      {"node rank 0 is lower and comes first",
       {{"a", 5}, {"b", 900}},
       false,
       5},
      {"node rank 0 is lower and comes last", {{"b", 900}, {"a", 5}}, false, 5},
      {"node rank 0 was removed", {{"b", 7}}, true, 7},
  };
  for (const auto& row : kRows) {
    Membership membership;
    if (!row.first_removed) AddMember(membership, "a", 0);
    AddMember(membership, "b", 1);
    AddMember(membership, "c", 2);
    Progress progress;
    for (const auto& [name, step] : row.published) {
      Node& node = membership.At(name);
      node.ranks.step = step;
      progress.TakeStep(node, node.ranks.step, ThreeMembers(), membership);
    }
    EXPECT_EQ(progress.step(), row.shown) << row.what;
  }
}

TEST(Progress, TheFirstReportAfterAnEarlierDaemonIsNoStepForward) {
  Membership membership;
  AddMember(membership, "a", 0);
  Node& node = AddMember(membership, "b", 1);
  Progress progress;
  node.ranks.step = 7;
  progress.TakeStep(node, node.ranks.step, ThreeMembers(), membership);
  EXPECT_EQ(node.ranks.step_before, 7u);
  node.ranks.step = 8;
  progress.TakeStep(node, node.ranks.step, ThreeMembers(), membership);
  EXPECT_EQ(node.ranks.step_before, 7u);
}

// Each row is one training: reports of node rank 0 in order.
TEST(Progress, AWorldThatBeginsBelowItsCheckpointIsNamed) {
  struct Report {
    uint64_t generation;
    uint64_t step;
    uint64_t saved;
  };
  struct {
    const char* what;
    LastStep last;
    std::vector<Report> reports;
    // Of the last report: `STEP of WAS, saved SAVED RUN`; empty: none.
    std::string below;
    uint64_t saved;
  } const kRows[] = {
      {"the first world", {}, {{1, 1, 0}}, "", 0},
      {"no checkpoint is known: half is enough",
       {},
       {{1, 100, 0}, {2, 50, 0}},
       "",
       0},
      {"less than half",
       {},
       {{1, 100, 0}, {2, 49, 0}},
       "49 of 100, saved 0 ",
       0},
      {"at the checkpoint", {}, {{1, 100, 90}, {2, 90, 0}}, "", 90},
      {"below it, though above half",
       {},
       {{1, 100, 90}, {2, 89, 0}},
       "89 of 100, saved 90 ",
       90},
      {"below half, but the checkpoint is older",
       {},
       {{1, 100, 10}, {2, 11, 0}},
       "",
       10},
      {"the same world goes on", {}, {{1, 100, 90}, {1, 50, 0}}, "", 90},
      {"it was named before", {}, {{1, 100, 90}, {2, 1, 0}, {2, 2, 0}}, "", 90},
      {"a second world that begins below",
       {},
       {{1, 100, 90}, {2, 1, 0}, {2, 5, 0}, {3, 4, 0}},
       "4 of 100, saved 90 ",
       90},
      {"the daemon before has named it",
       {"r1", 100, 90, "r1", 4},
       {{4, 2, 0}},
       "",
       90},
      {"the daemon before knew an earlier world of this run",
       {"r1", 100, 90, "r1", 3},
       {{4, 2, 0}},
       "2 of 100, saved 90 ",
       90},
      {"a world that began anew has checkpoints of its own",
       {},
       {{1, 100, 90}, {2, 1, 0}, {2, 20, 10}, {3, 11, 0}},
       "",
       10},
      {"a checkpoint above the step is ignored",
       {},
       {{1, 100, 101}, {2, 60, 0}},
       "",
       0},
      {"the run before",
       {"r0", 100, 0},
       {{1, 49, 0}},
       "49 of 100, saved 0 r0",
       0},
      {"the run before, with a checkpoint",
       {"r0", 100, 90},
       {{1, 89, 0}},
       "89 of 100, saved 90 r0",
       90},
      {"this run, by the daemon before",
       {"r1", 100, 90},
       {{4, 80, 0}},
       "80 of 100, saved 90 ",
       90},
      {"the run before does not count later",
       {"r0", 100, 0},
       {{1, 60, 0}, {2, 40, 0}},
       "",
       0},
  };
  for (const auto& row : kRows) {
    Membership membership;
    Node& node = AddMember(membership, "a", 0);
    Progress progress;
    progress.UseLast(row.last);
    std::string below;
    for (const Report& report : row.reports) {
      v1::World world = ThreeMembers();
      world.set_generation(report.generation);
      world.set_run("r1");
      node.ranks.step = std::max(node.ranks.step, report.step);
      const auto taken =
          progress.TakeStep(node, report.step, world, membership);
      ASSERT_TRUE(taken.has_value()) << row.what;
      progress.TakeSaved(report.saved, absl::UnixEpoch());
      below.clear();
      if (!taken->below.has_value()) continue;
      below = absl::StrCat(taken->below->step(), " of ", taken->below->was(),
                           ", saved ", taken->below->saved_step(), " ",
                           taken->below->former_run());
      EXPECT_EQ(progress.resumed().generation(), report.generation) << row.what;
    }
    EXPECT_EQ(below, row.below) << row.what;
    EXPECT_EQ(progress.saved(), row.saved) << row.what;
  }
}

TEST(Progress, WhatOthersSayIsForgottenOnceNodeRank0Reports) {
  Membership membership;
  Node& first = AddMember(membership, "a", 0);
  Node& other = AddMember(membership, "b", 1);
  Progress progress;
  progress.UseLast({"r0", 200, 150});
  const auto report = [&](Node& node, uint64_t step, uint64_t saved) {
    node.ranks.step = std::max(node.ranks.step, step);
    const auto taken =
        progress.TakeStep(node, step, ThreeMembers(), membership);
    if (taken.has_value()) {
      progress.TakeSaved(saved, absl::UnixEpoch());
    }
    return taken.has_value() && taken->reached;
  };
  EXPECT_TRUE(report(other, 1'000'000, 999'999));
  EXPECT_EQ(progress.step(), 1'000'000u);
  EXPECT_EQ(progress.saved(), 999'999u);
  EXPECT_FALSE(report(first, 10, 0));
  EXPECT_EQ(progress.step(), 10u);
  EXPECT_EQ(progress.saved(), 150u);
  EXPECT_FALSE(report(other, 2'000'000, 1'999'999));
  EXPECT_EQ(progress.step(), 10u);
  EXPECT_EQ(progress.saved(), 150u);
  EXPECT_TRUE(report(first, Progress::kToldMin, 60));
  EXPECT_EQ(progress.saved(), 60u);
}

TEST(Progress, TheStepOfTheLastWorldIsShown) {
  Membership membership;
  Node& node = AddMember(membership, "a", 0);
  Progress progress;
  v1::World world = ThreeMembers();
  world.set_generation(1);
  node.ranks.step = 1000;
  progress.TakeStep(node, 1000, world, membership);
  world.set_generation(2);
  progress.TakeStep(node, 5, world, membership);
  EXPECT_EQ(progress.step(), 5u);
}

TEST(Progress, CheckpointsAreToldOnceAMinute) {
  Membership membership;
  Node& node = AddMember(membership, "a", 0);
  node.ranks.step = 1000;
  Progress progress;
  progress.TakeStep(node, 1000, ThreeMembers(), membership);
  struct {
    double at;
    uint64_t saved;
    bool told;
  } const kRows[] = {
      {0, 0, false},   {1, 10, true},      {2, 10, false},   {3, 20, false},
      {60, 30, false}, {61, 30, true},     {200, 30, false}, {201, 20, false},
      {202, 40, true}, {300, 1001, false},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(progress.TakeSaved(row.saved,
                                 absl::UnixEpoch() + absl::Seconds(row.at)),
              row.told)
        << row.at;
  }
  EXPECT_EQ(progress.saved(), 40u);
}

TEST(Progress, APaceIsNewIfEitherNumberDiffers) {
  struct {
    double loss;
    double tokens;
    uint64_t steps;
    bool fresh;
  } const kRows[] = {
      {2.5, 100, 0, true},  {2.5, 100, 0, false}, {2.4, 100, 0, true},
      {2.4, 90, 0, true},   {2.4, 90, 0, false},  {2.4, 90, 50, true},
      {2.4, 90, 50, false},
  };
  Progress progress;
  EXPECT_FALSE(progress.pace().has_value());
  for (const auto& row : kRows) {
    v1::Pace pace;
    pace.set_loss(row.loss);
    pace.set_tokens_per_second(row.tokens);
    pace.set_steps(row.steps);
    EXPECT_EQ(progress.TakePace(pace), row.fresh) << row.loss << row.tokens;
    EXPECT_EQ(progress.pace()->loss(), row.loss);
    EXPECT_EQ(progress.pace()->tokens_per_second(), row.tokens);
  }
  // The same for what only some trainings publish.
  v1::Pace pace = *progress.pace();
  const std::function<void()> changes[] = {
      [&] { pace.set_gradient_norm(0); },
      [&] { pace.set_gradient_norm(1); },
      [&] { pace.set_flops_utilization(0.4); },
      [&] { pace.set_validation_loss(2); },
      [&] { pace.set_memory_bytes(5); },
  };
  for (const auto& change : changes) {
    change();
    EXPECT_TRUE(progress.TakePace(pace)) << pace.ShortDebugString();
    EXPECT_FALSE(progress.TakePace(pace)) << pace.ShortDebugString();
  }
  // Node rank 0 may report 0 for both values at first.
  EXPECT_TRUE(Progress().TakePace(v1::Pace()));
}

TEST(Progress, MostOfTheNodesThatPublishMustBeHigher) {
  struct Published {
    std::string node;
    int node_rank;  // -1: not a member.
    uint64_t step;
    std::optional<uint64_t> before;
  };
  struct {
    const char* what;
    std::vector<Published> nodes;
    const char* failing;
    bool progressed;
  } const kRows[] = {
      {"no node", {}, "", false},
      {"none publishes", {{"a", 0, 0, 0}}, "", false},
      {"the only one", {{"a", 0, 5, 4}}, "", true},
      {"at the step before", {{"a", 0, 5, 5}}, "", false},
      {"below the step before", {{"a", 0, 4, 5}}, "", false},
      {"half", {{"a", 0, 5, 4}, {"b", 1, 5, 5}}, "", false},
      {"two of three",
       {{"a", 0, 5, 5}, {"b", 1, 5, 4}, {"c", 2, 5, 4}},
       "",
       true},
      {"nodes that publish nothing do not count",
       {{"a", 0, 5, 4}, {"b", 1, 0, 0}, {"c", 2, 0, 0}},
       "",
       true},
      {"the step before is not known", {{"a", 0, 5, {}}}, "", false},
      {"such a node counts among those that publish",
       {{"a", 0, 5, 4}, {"b", 1, 5, {}}},
       "",
       false},
      {"a spare that published in an earlier world",
       {{"a", 0, 5, 4}, {"s", -1, 5, 5}},
       "",
       true},
      {"a spare alone", {{"s", -1, 5, 4}}, "", false},
      {"the failing node alone is higher",
       {{"a", 0, 0, 0}, {"b", 1, 5, 4}},
       "b",
       false},
      {"the failing node is node rank 0", {{"a", 0, 5, 4}}, "a", true},
      {"the failing node and another one",
       {{"a", 0, 0, 0}, {"b", 1, 5, 4}, {"c", 2, 5, 4}},
       "b",
       true},
      {"the failing node counts for the majority",
       {{"a", 0, 5, 5}, {"b", 1, 5, 4}, {"c", 2, 5, 4}},
       "c",
       true},
  };
  for (const auto& row : kRows) {
    Membership membership;
    for (const Published& published : row.nodes) {
      Node& node = AddMember(membership, published.node, published.node_rank);
      node.ranks.step = published.step;
      node.ranks.step_before = published.before;
    }
    EXPECT_EQ(HasProgressed(membership, membership.Find(row.failing)),
              row.progressed)
        << row.what;
  }
}

}  // namespace
}  // namespace rollcall
