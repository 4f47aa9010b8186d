#include "daemon/core/hangs/hangs.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/core/nodes.h"

namespace rollcall {
namespace {

const absl::Time kStart = absl::UnixEpoch();

v1::RankStalled Waits(uint64_t entered) {
  v1::RankStalled said;
  said.set_generation(1);
  said.set_step(7);
  said.set_answered(true);
  said.set_collective_entered(entered);
  said.set_collective_left(entered - 1);
  return said;
}

// Nodes a, b and c, one rank each.
Hangs::World ThreeNodes() {
  Hangs::World world{1, 3, 0, {}};
  for (const char* node : {"a", "b", "c"}) {
    Hangs::Member member;
    member.node = node;
    member.first_rank = static_cast<uint32_t>(world.members.size());
    member.ranks = 1;
    member.has_begun = true;
    world.members.push_back(member);
  }
  return world;
}

class HangsTest : public testing::Test {
 protected:
  bool Stands(uint32_t rank, uint64_t entered, absl::Time now = kStart) {
    const std::string node(1, static_cast<char>('a' + rank));
    return hangs_.Take(rank, node, static_cast<int>(rank), Waits(entered), now,
                       limits_);
  }
  // Returns the node to blame, "nobody", or "" if it is too early to judge.
  std::string Judged(const Hangs::World& world, absl::Duration after) {
    const auto hang = hangs_.Judge(world, kStart + after, limits_);
    if (!hang.has_value()) return "";
    return hang->cause.node().empty() ? "nobody" : hang->cause.node();
  }

  const Limits limits_ = {};
  Hangs hangs_;
};

TEST_F(HangsTest, AllAreJudgedAtOnceAndSomeAfterTheWindow) {
  EXPECT_TRUE(Stands(0, 9));
  EXPECT_FALSE(Stands(1, 8));
  EXPECT_EQ(hangs_.due(), kStart + limits_.hang_blame_window);
  EXPECT_EQ(Judged(ThreeNodes(), absl::ZeroDuration()), "");
  EXPECT_FALSE(Stands(2, 9));
  EXPECT_EQ(Judged(ThreeNodes(), absl::ZeroDuration()), "b");
  // A report that its rank goes on removes the rank's earlier report.
  v1::RankStalled goes_on = Waits(9);
  goes_on.set_goes_on(true);
  EXPECT_FALSE(hangs_.Take(2, "c", 2, goes_on, kStart, limits_));
  EXPECT_EQ(Judged(ThreeNodes(), absl::ZeroDuration()), "");
}

TEST_F(HangsTest, WhereAllWaitAtOnePlaceNobodyIsToBlame) {
  for (uint32_t rank = 0; rank < 3; ++rank) Stands(rank, 9);
  EXPECT_EQ(Judged(ThreeNodes(), absl::ZeroDuration()), "nobody");
}

v1::RankStalled InNccl(v1::NcclPlace place) {
  v1::RankStalled said;
  said.set_generation(1);
  said.set_step(7);
  said.set_nccl(place);
  return said;
}

TEST_F(HangsTest, PlainRanksAreJudgedByWhatNcclSays) {
  const v1::RankStalled waits = InNccl(v1::NCCL_PLACE_WAITS);
  hangs_.Take(0, "a", 0, waits, kStart, limits_);
  hangs_.Take(1, "b", 1, waits, kStart, limits_);
  // A node that waits for a rank without a report is not to blame.
  const auto some =
      hangs_.Judge(ThreeNodes(), kStart + limits_.hang_blame_window, limits_);
  ASSERT_TRUE(some.has_value());
  EXPECT_EQ(some->cause.node(), "");
  EXPECT_EQ(
      some->cause.detail(),
      "2 of 3 ranks are in collectives of NCCL and wait for others: rank 2 "
      "on c");
  hangs_.Take(2, "c", 2, InNccl(v1::NCCL_PLACE_BEHIND), kStart, limits_);
  const auto all = hangs_.Judge(ThreeNodes(), kStart, limits_);
  ASSERT_TRUE(all.has_value());
  EXPECT_EQ(all->cause.node(), "c");
  EXPECT_EQ(all->cause.detail(),
            "it has begun fewer collectives of NCCL than others, after step 7");
  hangs_.Take(2, "c", 2, InNccl(v1::NCCL_PLACE_UNSPECIFIED), kStart, limits_);
  const auto unknown = hangs_.Judge(ThreeNodes(), kStart, limits_);
  ASSERT_TRUE(unknown.has_value());
  EXPECT_EQ(unknown->cause.node(), "c");
  EXPECT_EQ(
      unknown->cause.detail(),
      "others are in collectives of NCCL, and it is not known to be, after "
      "step 7");
  hangs_.Take(2, "c", 2, waits, kStart, limits_);
  EXPECT_EQ(Judged(ThreeNodes(), absl::ZeroDuration()), "nobody");
}

TEST_F(HangsTest, ASingleRankThatWaitsInNcclIsNotToBlame) {
  hangs_.Take(0, "a", 0, InNccl(v1::NCCL_PLACE_WAITS), kStart, limits_);
  EXPECT_EQ(Judged(ThreeNodes(), limits_.hang_blame_window), "nobody");
}

TEST_F(HangsTest, RanksOfSeveralNodesThatAreBehindInNcclAreNamed) {
  v1::RankStalled behind = InNccl(v1::NCCL_PLACE_BEHIND);
  behind.set_text("NCCL: 4");
  hangs_.Take(0, "a", 0, behind, kStart, limits_);
  hangs_.Take(1, "b", 1, InNccl(v1::NCCL_PLACE_WAITS), kStart, limits_);
  hangs_.Take(2, "c", 2, behind, kStart, limits_);
  const auto hang = hangs_.Judge(ThreeNodes(), kStart, limits_);
  ASSERT_TRUE(hang.has_value());
  EXPECT_EQ(hang->cause.node(), "");
  EXPECT_EQ(
      hang->cause.detail(),
      "ranks of several nodes have begun fewer collectives of NCCL than "
      "others, and nothing tells them apart: rank 0 on a (NCCL: 4), rank 2 "
      "on c (NCCL: 4)");
}

TEST_F(HangsTest, RanksThatKnowOnlyWhatTheyHaveBegunAreCompared) {
  for (uint32_t rank = 0; rank < 3; ++rank) {
    v1::RankStalled said = Waits(rank == 1 ? 8 : 9);
    said.clear_collective_left();
    hangs_.Take(rank, std::string(1, static_cast<char>('a' + rank)),
                static_cast<int>(rank), said, kStart, limits_);
  }
  const auto all = hangs_.Judge(ThreeNodes(), kStart, limits_);
  ASSERT_TRUE(all.has_value());
  EXPECT_EQ(all->cause.node(), "b");
  EXPECT_EQ(all->cause.detail(),
            "it has begun collective 8, while others have begun 9, after step "
            "7");
  hangs_.Drop(1);
  const auto two =
      hangs_.Judge(ThreeNodes(), kStart + limits_.hang_blame_window, limits_);
  ASSERT_TRUE(two.has_value());
  EXPECT_EQ(two->cause.node(), "");
  EXPECT_EQ(
      two->cause.detail(),
      "2 of 3 ranks have begun collective 9 and may wait for others: rank "
      "1 on b");
}

TEST_F(HangsTest, WhatARankThatCountsNothingDoesIsNotMadeUp) {
  v1::RankStalled counts_nothing;
  counts_nothing.set_generation(1);
  counts_nothing.set_step(7);
  counts_nothing.set_answered(true);
  const struct {
    v1::RankStalled ranks[3];
    const char* node;
    const char* detail;
  } kRows[] = {
      {{InNccl(v1::NCCL_PLACE_WAITS), InNccl(v1::NCCL_PLACE_UNSPECIFIED),
        InNccl(v1::NCCL_PLACE_UNSPECIFIED)},
       "",
       "only rank 0 on a is reported ahead of the others (it waits in NCCL), "
       "and one node's report is not enough to blame another node"},
      {{InNccl(v1::NCCL_PLACE_UNSPECIFIED), InNccl(v1::NCCL_PLACE_UNSPECIFIED),
        counts_nothing},
       "c",
       "it was the first to stall, after step 7"},
  };
  for (const auto& row : kRows) {
    for (uint32_t rank = 0; rank < 3; ++rank) {
      hangs_.Take(rank, std::string(1, static_cast<char>('a' + rank)),
                  static_cast<int>(rank), row.ranks[rank], kStart, limits_);
    }
    const auto hang = hangs_.Judge(ThreeNodes(), kStart, limits_);
    ASSERT_TRUE(hang.has_value());
    EXPECT_EQ(hang->cause.node(), row.node);
    EXPECT_EQ(hang->cause.detail(), row.detail);
  }
}

TEST_F(HangsTest, AMemberThatIsAwayIsWaitedForWithABound) {
  for (uint32_t rank = 0; rank < 3; ++rank) Stands(rank, 9 - rank % 2);
  Hangs::World world = ThreeNodes();
  world.members[2].away = true;
  const absl::Duration most = limits_.hang_blame_window + 2 * limits_.lease;
  for (absl::Duration at = absl::ZeroDuration(); at < most;
       at += absl::Seconds(1)) {
    EXPECT_EQ(Judged(world, at), "") << at;
    hangs_.AwaitMember(kStart + at, limits_);
    EXPECT_LE(hangs_.due(), kStart + most);
  }
  EXPECT_EQ(Judged(world, most), "b");
}

TEST_F(HangsTest, OneThatHasNotBegunCountsForNothingOnceStepsAreMade) {
  v1::RankStalled imports;
  imports.set_generation(1);
  EXPECT_TRUE(hangs_.Take(0, "a", 0, imports, kStart, limits_));
  hangs_.NoteStep(1);
  EXPECT_TRUE(hangs_.empty());
  EXPECT_EQ(hangs_.due(), absl::InfiniteFuture());
  EXPECT_FALSE(hangs_.Take(0, "a", 0, imports, kStart, limits_));
  EXPECT_TRUE(hangs_.empty());
  imports.set_generation(2);
  EXPECT_TRUE(hangs_.Take(0, "a", 0, imports, kStart, limits_));
}

TEST_F(HangsTest, ADaemonThatWasCutOffBeginsAgain) {
  for (uint32_t rank = 0; rank < 3; ++rank) Stands(rank, 9 - rank % 2);
  hangs_.BeginAgain(kStart + absl::Seconds(5), limits_);
  EXPECT_EQ(Judged(ThreeNodes(), absl::Seconds(5)), "");
  hangs_.PutOff(absl::Seconds(2));
  EXPECT_EQ(hangs_.due(),
            kStart + absl::Seconds(7) + limits_.hang_blame_window);
  EXPECT_EQ(Judged(ThreeNodes(), hangs_.due() - kStart), "b");
}

TEST_F(HangsTest, DropRemovesTheRanksThatItNames) {
  struct {
    uint32_t first;
    uint32_t ranks;
    std::string left;
  } const kRows[] = {
      {1, 3, "04"}, {0, 2, "234"},   {3, 9, "012"},   {2, 1, "0134"},
      {0, 5, ""},   {9, 2, "01234"}, {2, 0, "01234"},
  };
  for (const auto& row : kRows) {
    hangs_ = Hangs();
    for (uint32_t rank = 0; rank < 5; ++rank) Stands(rank, 9);
    hangs_.Drop(row.first, row.ranks);
    std::string left;
    for (uint32_t rank = 0; rank < 5; ++rank) {
      Hangs without = hangs_;
      without.Drop(rank);
      if (without.size() < hangs_.size()) absl::StrAppend(&left, rank);
    }
    EXPECT_EQ(left, row.left) << row.first << " " << row.ranks;
    EXPECT_EQ(hangs_.due(), left.empty() ? absl::InfiniteFuture()
                                         : kStart + limits_.hang_blame_window);
  }
}

// Node ranks are not in the order of names, and the node at node rank 1 has
// left.
TEST(HangsWorld, HasTheMembersThatAreStillThere) {
  v1::World world;
  world.set_generation(4);
  world.set_world_size(6);
  Membership membership;
  for (const char* name : {"z", "left", "a"}) {
    v1::Member& member = *world.add_members();
    member.set_node(name);
    member.set_node_rank(static_cast<uint32_t>(world.members_size() - 1));
    member.set_first_rank(2 * member.node_rank());
    member.set_ranks(2);
    AddMember(membership, name, world.members_size() - 1);
  }
  AddNode(membership, "spare");
  Completion completion(world, false, kStart, membership);
  Node& z = membership.At("z");
  completion.RankEnded(z, 1);
  z.ranks.start_took = absl::Seconds(3);
  z.lease.tells_until = kStart + absl::Seconds(1);
  Node& a = membership.At("a");
  a.ranks.started = 1;
  membership.Disconnect(a);
  membership.Remove(membership.At("left"));

  const Hangs::World judged = Hangs::World::Of(world, completion, membership);
  EXPECT_EQ(judged.generation, 4u);
  EXPECT_EQ(judged.world_size, 6u);
  EXPECT_EQ(judged.ranks_over, 1u);
  ASSERT_EQ(judged.members.size(), 2u);
  const Hangs::Member& of_a = judged.members[0];
  EXPECT_EQ(of_a.node, "a");
  EXPECT_EQ(of_a.first_rank, 4u);
  EXPECT_EQ(of_a.ranks, 1u);
  EXPECT_EQ(of_a.done, std::set<uint32_t>());
  EXPECT_FALSE(of_a.has_begun);
  EXPECT_TRUE(of_a.away);
  EXPECT_EQ(of_a.tells_until, absl::InfinitePast());
  const Hangs::Member& of_z = judged.members[1];
  EXPECT_EQ(of_z.node, "z");
  EXPECT_EQ(of_z.first_rank, 0u);
  EXPECT_EQ(of_z.ranks, 2u);
  EXPECT_EQ(of_z.done, std::set<uint32_t>{1});
  EXPECT_TRUE(of_z.has_begun);
  EXPECT_FALSE(of_z.away);
  EXPECT_EQ(of_z.tells_until, kStart + absl::Seconds(1));
}

}  // namespace
}  // namespace rollcall
