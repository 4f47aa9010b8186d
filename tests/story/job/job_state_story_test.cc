// From which rank's state a world goes on, and what its ranks exchange.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/story/job/job_story.h"

namespace rollcall {
namespace {

using Row = JobStory::Row;

// --- State -------------------------------------------------------------------

v1::RankState Has(uint32_t local_rank, uint64_t step, bool whole = true) {
  v1::RankState state;
  state.set_local_rank(local_rank);
  state.set_completed_step(step);
  state.set_whole_state(whole);
  return state;
}

v1::WorldCommit WorldCommitOf(const JobStory& story) {
  v1::WorldCommit world_commit;
  EXPECT_TRUE(world_commit.ParseFromString(
      story.journal().at(Journal::Kind::kCommitted).body));
  return world_commit;
}

// Generation 1 runs with these nodes and z. The stream of z breaks, so
// generation 2 is proposed to these nodes.
std::vector<Row> RunsAndReforms(const std::vector<std::string>& nodes) {
  std::vector<Row> rows;
  for (const std::string& node : nodes)
    rows.push_back({0.0, Attends(node), ""});
  rows.push_back({0.0, Attends("z"),
                  absl::StrCat("form g1 ", absl::StrJoin(nodes, ","), ",z")});
  std::vector<std::string> all = nodes;
  all.push_back("z");
  rows.push_back({0.1, PreparesAll(all, 1), "run g1"});
  rows.push_back({0.2, Breaks("z"), ""});
  rows.push_back({1.3, Ticks(),
                  absl::StrCat("abort g1 LOST_STREAM; form g2 ",
                               absl::StrJoin(nodes, ","))});
  return rows;
}

TEST(State, TheHighestStepThenTheLowestSeatIsTheSource) {
  JobStory story("3");
  story.Tell({{0.0, Attends("a", 1, {.ranks = 2}), ""},
              {0.0, Attends("b", 1, {.ranks = 2}), ""},
              {0.0, Attends("c", 1, {.ranks = 2}), "form g1 a,b,c"},
              {0.1, PreparesWith("a", 1, {Has(0, 6), Has(1, 9, false)}), ""},
              {0.1, PreparesWith("b", 1, {Has(0, 6), Has(1, 7)}), ""},
              {0.1, PreparesWith("c", 1, {Has(0, 7)}), "run g1"}});
  v1::WorldCommit world_commit;
  ASSERT_TRUE(world_commit.ParseFromString(
      story.journal().at(Journal::Kind::kCommitted).body));
  EXPECT_EQ(world_commit.state_source().rank(), 3u);
  EXPECT_EQ(world_commit.state_source().step(), 7u);
}

TEST(State, OneThatDiedSinceIsNotTheSource) {
  JobStory story("2");
  story.Tell({{0.0, Attends("a"), ""},
              {0.0, Attends("b"), "form g1 a,b"},
              {0.1, PreparesWith("a", 1, {Has(0, 9)}), ""},
              {0.2, PreparesWith("a", 1, {}), ""},
              {0.3, PreparesWith("b", 1, {Has(0, 8)}), "run g1"}});
  v1::WorldCommit world_commit;
  ASSERT_TRUE(world_commit.ParseFromString(
      story.journal().at(Journal::Kind::kCommitted).body));
  EXPECT_EQ(world_commit.state_source().rank(), 1u);
  EXPECT_EQ(world_commit.state_source().step(), 8u);
}

// One node's claim does not discard the work of all others.
TEST(State, OneThatStandsFarAboveTheMedianIsNoSourceAndIsNamed) {
  JobStory story("1:4");
  story.Tell(RunsAndReforms({"a", "b", "c"}));
  story.Tell({{2.0, PreparesWith("a", 2, {Has(0, 100)}), ""},
              {2.0, PreparesWith("b", 2, {Has(0, ~uint64_t{0})}), ""},
              {2.0, PreparesWith("c", 2, {Has(0, 101)}), "run g2"}});
  EXPECT_EQ(WorldCommitOf(story).state_source().rank(), 2u);
  EXPECT_EQ(WorldCommitOf(story).state_source().step(), 101u);
  EXPECT_TRUE(absl::StrContains(story.logs(), "event=warning node=b"))
      << story.logs();
  EXPECT_FALSE(absl::StrContains(story.logs(), "event=warning node=c"));
}

TEST(State, ANewcomerHasNoStateThatGoesBeforeThatOfAMember) {
  JobStory story("2:4");
  story.Tell({{0.0, Attends("a"), ""},
              {0.0, Attends("b"), ""},
              {1.0, Ticks(), "form g1 a,b"},
              {1.1, PreparesAll({"a", "b"}, 1), "run g1"},
              {1.2, Attends("c"), ""},
              {2.2, Ticks(), "notice 1 GROW"},
              {2.3, Sees("a", 1), ""},
              {2.4, Sees("b", 1), "abort g1 GROW; form g2 a,b,c"},
              {2.5, PreparesWith("a", 2, {Has(0, 7)}), ""},
              {2.5, PreparesWith("b", 2, {Has(0, 7)}), ""},
              {2.5, PreparesWith("c", 2, {Has(0, 9)}), "run g2"}});
  EXPECT_EQ(WorldCommitOf(story).state_source().rank(), 0u);
  EXPECT_EQ(WorldCommitOf(story).state_source().step(), 7u);
  EXPECT_TRUE(absl::StrContains(story.logs(), "event=warning node=c"));
}

TEST(State, NobodyHasAny) {
  JobStory story("1");
  story.Tell({{0.0, Attends("a"), "form g1 a"},
              {0.1, PreparesWith("a", 1, {Has(0, 3, false)}), "run g1"}});
  v1::WorldCommit world_commit;
  ASSERT_TRUE(world_commit.ParseFromString(
      story.journal().at(Journal::Kind::kCommitted).body));
  EXPECT_FALSE(world_commit.has_state_source());
}

// --- Exchange ----------------------------------------------------------------

TEST(Exchange, AllInThenAllOut) {
  JobStory story("2");
  story.Tell({
      {0.0, Attends("a"), ""},
      {0.0, Attends("b"), "form g1 a,b"},
      {0.1, Gives("a", 1, "k", "x"), ""},  // Nothing runs yet.
      {0.1, PreparesAll({"a", "b"}, 1), "run g1"},
      {0.2, Gives("a", 1, "k", "x"), ""},
      {0.3, Gives("a", 1, "k", "x"), ""},
      {0.4, Gives("b", 1, "k", "y"), "exchange k=x,y"},
      {0.5, Gives("b", 1, "k", "y"), "exchange k=x,y"},  // Asked again.
      // A mistake of ranks fails only their own call.
      {0.6, Gives("b", 1, "k", "z"), "exchange k refused"},
      {0.7, Gives("a", 9, "k", "x"), ""},
  });
}

}  // namespace
}  // namespace rollcall
