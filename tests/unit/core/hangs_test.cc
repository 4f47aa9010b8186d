#include "daemon/core/hangs/hangs.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

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
  // Who is to blame; "nobody"; "" where it is too early.
  std::string Judged(const Hangs::World& world, absl::Duration after) {
    const auto hang = hangs_.Judge(world, kStart + after, limits_);
    if (!hang.has_value()) return "";
    return hang->cause.node().empty() ? "nobody" : hang->cause.node();
  }

  const Limits limits_;
  Hangs hangs_;
};

TEST_F(HangsTest, AllAreJudgedAtOnceAndSomeAfterTheSettlement) {
  EXPECT_TRUE(Stands(0, 9));
  EXPECT_FALSE(Stands(1, 8));
  EXPECT_EQ(hangs_.due(), kStart + limits_.hang_settlement);
  EXPECT_EQ(Judged(ThreeNodes(), absl::ZeroDuration()), "");
  EXPECT_FALSE(Stands(2, 9));
  EXPECT_EQ(Judged(ThreeNodes(), absl::ZeroDuration()), "b");
  // One that goes on stands for nothing.
  v1::RankStalled goes_on = Waits(9);
  goes_on.set_goes_on(true);
  EXPECT_FALSE(hangs_.Take(2, "c", 2, goes_on, kStart, limits_));
  EXPECT_EQ(Judged(ThreeNodes(), absl::ZeroDuration()), "");
}

TEST_F(HangsTest, WhereAllWaitAtOnePlaceNobodyIsToBlame) {
  for (uint32_t rank = 0; rank < 3; ++rank) Stands(rank, 9);
  EXPECT_EQ(Judged(ThreeNodes(), absl::ZeroDuration()), "nobody");
}

TEST_F(HangsTest, AMemberThatIsAwayIsWaitedForWithABound) {
  for (uint32_t rank = 0; rank < 3; ++rank) Stands(rank, 9 - rank % 2);
  Hangs::World world = ThreeNodes();
  world.members[2].away = true;
  const absl::Duration most = limits_.hang_settlement + 2 * limits_.lease;
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
  EXPECT_EQ(hangs_.due(), kStart + absl::Seconds(7) + limits_.hang_settlement);
  EXPECT_EQ(Judged(ThreeNodes(), hangs_.due() - kStart), "b");
}

}  // namespace
}  // namespace rollcall
