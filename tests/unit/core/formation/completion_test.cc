#include "daemon/core/formation/completion.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "tests/unit/core/small_world.h"
#include "tests/unit/time_at.h"

namespace rollcall {
namespace {

std::vector<uint32_t> RanksIn(const v1::FinishedNodes& record) {
  return {record.node_ranks().begin(), record.node_ranks().end()};
}

// A world of a, b and c with two ranks each, which runs since 10.
class CompletionTest : public testing::Test {
 protected:
  // `once`: only rank 0 of the world is started.
  void Run(bool once = false, bool taken_up = false) {
    world_ = WorldOf(7, {"a", "b", "c"});
    for (v1::Member& member : *world_.mutable_members()) {
      member.set_ranks(2);
      member.set_once(once);
      Node& node = membership_.Add(member.node());
      node.hello.set_node(member.node());
      node.node_rank = static_cast<int>(member.node_rank());
    }
    completion_ = Completion(world_, taken_up, At(10), membership_);
  }
  Node& Of(const char* name) { return membership_.At(name); }
  // Returns true if this was the member's last rank.
  bool Ends(const char* name, uint32_t local_rank) {
    return completion_.RankEnded(membership_.At(name), local_rank);
  }
  void Journaled(const std::vector<uint32_t>& node_ranks) {
    v1::FinishedNodes finished;
    for (const uint32_t rank : node_ranks) finished.add_node_ranks(rank);
    completion_.TakeUp(finished, world_, membership_);
  }

  Membership membership_;
  v1::World world_;
  Completion completion_;
};

TEST(Completion, NoWorldHasRun) {
  const Completion none;
  EXPECT_EQ(none.running_since(), absl::InfiniteFuture());
  EXPECT_EQ(none.record_due(), absl::InfiniteFuture());
  EXPECT_FALSE(none.taken_up());
  EXPECT_EQ(none.ranks_over(), 0u);
  EXPECT_TRUE(none.finished().empty());
  EXPECT_FALSE(none.HasBegun(Membership()));
}

TEST_F(CompletionTest, AllHaveEndedOnceTheLastRankOfEachMemberHas) {
  Run();
  EXPECT_EQ(completion_.running_since(), At(10));
  EXPECT_FALSE(completion_.taken_up());
  EXPECT_FALSE(completion_.some(world_));
  EXPECT_FALSE(completion_.HasBegun(membership_));
  EXPECT_EQ(Of("b").ranks.started, 2u);
  struct {
    const char* node;
    uint32_t local_rank;
    bool last_of_node;
    bool some;
    bool all;
  } const kRows[] = {
      {"a", 1, false, false, false}, {"b", 0, false, false, false},
      {"b", 1, true, true, false},   {"a", 0, true, true, false},
      {"c", 0, false, true, false},  {"c", 1, true, true, true},
  };
  size_t ended = 0;
  for (const auto& row : kRows) {
    EXPECT_EQ(Ends(row.node, row.local_rank), row.last_of_node) << ended;
    ++ended;
    EXPECT_EQ(completion_.ranks_over(), ended);
    EXPECT_EQ(completion_.some(world_), row.some) << ended;
    EXPECT_EQ(completion_.all(), row.all) << ended;
    EXPECT_TRUE(completion_.HasBegun(membership_)) << ended;
  }
  EXPECT_TRUE(Of("a").ranks.done.contains(0) && Of("a").ranks.done.contains(1));
}

TEST_F(CompletionTest, RanksThatAreNotStartedAreNotWaitedFor) {
  Run(/*once=*/true);
  EXPECT_EQ(Of("a").ranks.started, 1u);
  EXPECT_EQ(Of("b").ranks.started, 0u);
  EXPECT_EQ(completion_.ranks_over(), 5u);
  EXPECT_TRUE(completion_.some(world_));
  EXPECT_FALSE(completion_.all());
  // These ends do not count as the beginning of the job's end.
  EXPECT_FALSE(completion_.HasBegun(membership_));
  EXPECT_TRUE(Ends("a", 0));
  EXPECT_EQ(completion_.ranks_over(), 6u);
  EXPECT_TRUE(completion_.all());
}

TEST_F(CompletionTest, TheEndHasBegunAlsoIfTheNodeThatFinishedHasLeft) {
  Run();
  EXPECT_FALSE(Ends("b", 0));
  Node& b = Of("b");
  b.node_rank = -1;
  EXPECT_FALSE(completion_.HasBegun(membership_))
      << "the rest of its work is done again";
  b.node_rank = 1;
  EXPECT_TRUE(Ends("b", 1));
  completion_.Finished(b, At(20));
  b.node_rank = -1;
  EXPECT_TRUE(completion_.HasBegun(membership_));
}

TEST_F(CompletionTest, OneRecordForMembersThatFinishTogether) {
  Run();
  completion_.Finished(Of("c"), At(20));
  EXPECT_EQ(completion_.record_due(), At(20.1));
  completion_.Finished(Of("a"), At(20.05));
  EXPECT_EQ(completion_.record_due(), At(20.1));
  EXPECT_EQ(RanksIn(completion_.TakeRecord()), (std::vector<uint32_t>{0, 2}));
  EXPECT_EQ(completion_.record_due(), absl::InfiniteFuture());
  // Each record has all members that have finished so far.
  completion_.Finished(Of("b"), At(30));
  EXPECT_EQ(completion_.record_due(), At(30.1));
  EXPECT_EQ(RanksIn(completion_.TakeRecord()),
            (std::vector<uint32_t>{0, 1, 2}));
  completion_.Finished(Of("b"), At(40));
  completion_.DropRecord();
  EXPECT_EQ(completion_.record_due(), absl::InfiniteFuture());
  EXPECT_EQ(completion_.finished(), (std::set<uint32_t>{0, 1, 2}));
}

TEST_F(CompletionTest, ARestartedDaemonDoesNotWaitForJournaledMembers) {
  struct {
    const char* name;
    std::vector<uint32_t> journaled;
    std::set<uint32_t> finished;
    size_t ranks_over;
    bool all;
  } const kRows[] = {
      {"none", {}, {}, 0, false},
      {"one", {1}, {1}, 2, false},
      {"two", {0, 2}, {0, 2}, 4, false},
      {"one twice", {1, 1}, {1}, 2, false},
      {"a node rank that is not in the world", {3, 1}, {1}, 2, false},
      // If all had finished, the run would have ended, so one of them is waited
      // for.
      {"all", {0, 1, 2}, {0, 1}, 4, false},
  };
  for (const auto& row : kRows) {
    membership_.Clear();
    Run(/*once=*/false, /*taken_up=*/true);
    for (auto& [name, node] : membership_.nodes())
      node.lease.broke_with_many = true;
    Journaled(row.journaled);
    EXPECT_TRUE(completion_.taken_up()) << row.name;
    EXPECT_EQ(completion_.finished(), row.finished) << row.name;
    EXPECT_EQ(completion_.ranks_over(), row.ranks_over) << row.name;
    EXPECT_EQ(completion_.all(), row.all) << row.name;
    EXPECT_EQ(completion_.some(world_), !row.finished.empty()) << row.name;
    EXPECT_EQ(completion_.HasBegun(membership_), !row.finished.empty())
        << row.name;
    // The journal already has the record.
    EXPECT_EQ(completion_.record_due(), absl::InfiniteFuture()) << row.name;
    for (const auto& [name, node] : membership_.nodes()) {
      const bool done =
          row.finished.contains(static_cast<uint32_t>(node.node_rank));
      EXPECT_EQ(node.finished(), done) << row.name << " " << name;
      // The loss of a finished member does not end the world.
      EXPECT_EQ(node.lease.broke_with_many, !done) << row.name << " " << name;
    }
  }
}

TEST_F(CompletionTest, AMemberWithoutStartedRanksHasNotFinished) {
  Run(/*once=*/true, /*taken_up=*/true);
  Journaled({0, 1});
  // Only rank 0 of the world is waited for.
  EXPECT_TRUE(completion_.finished().empty());
  EXPECT_FALSE(completion_.all());
  EXPECT_EQ(completion_.ranks_over(), 5u);
}

}  // namespace
}  // namespace rollcall
