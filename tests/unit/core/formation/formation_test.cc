#include "daemon/core/formation/formation.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/core/small_world.h"
#include "tests/unit/time_at.h"

namespace rollcall {
namespace {

// prepare_timeout is 30 s.
const Limits kFormationLimits;

// Node n has incarnation 100 + n and the command "make".
Membership NodesOf(const v1::World& world) {
  Membership membership;
  for (const v1::Member& member : world.members()) {
    Node& node = membership.Add(member.node());
    node.hello = HelloOf(world, static_cast<int>(member.node_rank()));
    node.hello.set_command_digest("make");
    node.node_rank = static_cast<int>(member.node_rank());
  }
  return membership;
}

v1::Prepared PreparedWith(uint32_t port) {
  v1::Prepared prepared;
  prepared.set_master_port(port);
  prepared.add_nccl_ids(absl::StrCat("id of ", port));
  prepared.set_nccl_version(22809);
  return prepared;
}

void PrepareAll(Formation& formation, const Membership& membership) {
  for (const auto& [name, node] : membership.nodes()) {
    formation.Prepared(
        node, PreparedWith(4000 + static_cast<uint32_t>(node.node_rank)));
  }
}

TEST(Formation, WaitsUntilAllMembersHavePrepared) {
  const v1::World world = WorldOf(7, {"a", "b"});
  const Membership membership = NodesOf(world);
  Formation formation;
  EXPECT_EQ(formation.deadline(), absl::InfiniteFuture());
  formation.Propose(world, At(10), kFormationLimits);
  EXPECT_TRUE(formation.fresh());
  EXPECT_FALSE(formation.all_prepared());
  EXPECT_EQ(formation.deadline(), At(40));
  formation.Prepared(membership.At("b"), PreparedWith(1));
  EXPECT_FALSE(formation.fresh());
  EXPECT_FALSE(formation.all_prepared());
  EXPECT_EQ(formation.deadline(), At(40));
  formation.Extend(At(20), kFormationLimits);
  EXPECT_EQ(formation.deadline(), At(50));
  formation.Prepared(membership.At("a"), PreparedWith(2));
  EXPECT_TRUE(formation.all_prepared());
  EXPECT_EQ(formation.deadline(), absl::InfiniteFuture());
}

TEST(Formation, ProposesTheBytesOfTheWorld) {
  const v1::World world = WorldOf(7, {"a", "b"});
  Formation formation;
  formation.Propose(world, At(10), kFormationLimits);
  const v1::Proposal& proposal = formation.proposal();
  EXPECT_EQ(proposal.generation(), 7u);
  EXPECT_EQ(proposal.world(), EncodeWorld(world));
  EXPECT_EQ(proposal.world_bytes(), proposal.world().size());
  EXPECT_EQ(proposal.compression(), v1::COMPRESSION_NONE);
  EXPECT_EQ(formation.world().generation(), 7u);
  EXPECT_FALSE(formation.world_commit().has_value());
}

TEST(Formation, CommitsWhatNodeRankZeroHasPrepared) {
  const v1::World world = WorldOf(7, {"a", "b", "c"});
  const Membership membership = NodesOf(world);
  Formation formation;
  formation.Propose(world, At(10), kFormationLimits);
  PrepareAll(formation, membership);
  v1::StateSource source;
  source.set_rank(2);
  source.set_step(90);
  const v1::WorldCommit& world_commit =
      formation.Commit(membership, NodeEpochs(), source);
  EXPECT_EQ(&world_commit, &*formation.world_commit());
  EXPECT_EQ(world_commit.generation(), 7u);
  EXPECT_EQ(world_commit.master_address(), "10.0.0.1");
  EXPECT_EQ(world_commit.master_port(), 4000u);
  ASSERT_EQ(world_commit.nccl_ids_size(), 1);
  EXPECT_EQ(world_commit.nccl_ids(0), "id of 4000");
  EXPECT_EQ(world_commit.nccl_version(), 22809u);
  EXPECT_EQ(world_commit.nccl_absent(), "");
  EXPECT_EQ(world_commit.state_source().rank(), 2u);
  EXPECT_EQ(world_commit.state_source().step(), 90u);
  ASSERT_EQ(world_commit.incarnations_size(), 3);
  EXPECT_EQ(world_commit.incarnations(2), 102u);
}

TEST(Formation, TheMasterIsNodeRankZeroOfThisWorld) {
  v1::World world = WorldOf(7, {"a", "b"});
  world.mutable_members(0)->set_address("10.0.0.8");
  const Membership membership = NodesOf(world);
  Formation formation;
  formation.Propose(world, At(10), kFormationLimits);
  v1::Prepared prepared;
  prepared.set_master_port(4000);
  prepared.set_nccl_absent("no library");
  formation.Prepared(membership.At("a"), prepared);
  formation.Prepared(membership.At("b"), PreparedWith(4001));
  const v1::WorldCommit world_commit =
      formation.Commit(membership, NodeEpochs(), std::nullopt);
  EXPECT_EQ(world_commit.master_address(), "10.0.0.8");
  EXPECT_EQ(world_commit.nccl_absent(), "no library");
  EXPECT_EQ(world_commit.nccl_ids_size(), 0);
  EXPECT_FALSE(world_commit.has_state_source());
}

TEST(Formation, ANewProposalForgetsTheOneBefore) {
  const v1::World world = WorldOf(7, {"a", "b"});
  const Membership membership = NodesOf(world);
  Formation formation;
  formation.Propose(world, At(10), kFormationLimits);
  PrepareAll(formation, membership);
  formation.Commit(membership, NodeEpochs(), std::nullopt);
  const v1::World next = WorldOf(8, {"a", "b"});
  formation.Propose(next, At(60), kFormationLimits);
  EXPECT_FALSE(formation.world_commit().has_value());
  EXPECT_TRUE(formation.fresh());
  EXPECT_EQ(formation.deadline(), At(90));
  EXPECT_EQ(formation.proposal().generation(), 8u);
  // The port and the ids belong to one generation only.
  formation.Prepared(membership.At("b"), PreparedWith(1));
  EXPECT_EQ(
      formation.Commit(membership, NodeEpochs(), std::nullopt).master_port(),
      0u);
  EXPECT_EQ(formation.world_commit()->nccl_ids_size(), 0);
}

TEST(Formation, TheSealTellsHowEachMemberWasAdmitted) {
  const v1::World world = WorldOf(7, {"a", "b", "c", "d"});
  NodeEpochs epochs;
  epochs.Admit("a", "t2");
  epochs.Admit("b", "");
  epochs.Admit("c", "t1");
  epochs.Admit("d", "t2");
  epochs.Raise("c");
  epochs.Admit("gone", "t9");
  for (int i = 0; i < 4; ++i) epochs.Raise("gone");
  Formation formation;
  formation.Propose(world, At(10), kFormationLimits);
  const v1::WorldCommit world_commit =
      formation.Commit(NodesOf(world), epochs, std::nullopt);
  using Numbers = std::vector<uint64_t>;
  EXPECT_EQ(Numbers(world_commit.epochs().begin(), world_commit.epochs().end()),
            (Numbers{0, 0, 1, 0}));
  EXPECT_EQ(std::vector<std::string>(world_commit.token_ids().begin(),
                                     world_commit.token_ids().end()),
            (std::vector<std::string>{"t2", "t1"}));
  EXPECT_EQ(
      Numbers(world_commit.token_of().begin(), world_commit.token_of().end()),
      (Numbers{1, 0, 2, 1}));
  // The highest epoch also covers nodes that are not members.
  EXPECT_EQ(world_commit.epoch_highest(), 4u);
}

TEST(Formation, TheSealHasTheCommandIfAllMembersHaveTheSame) {
  struct {
    const char* name;
    std::function<void(Membership&)> change;
    const char* digest;
  } const kRows[] = {
      {"the same", [](Membership&) {}, "make"},
      {"another one",
       [](Membership& m) { m.At("b").hello.set_command_digest("test"); }, ""},
      {"one says none",
       [](Membership& m) { m.At("b").hello.clear_command_digest(); }, ""},
      {"the launcher's node",
       [](Membership& m) { m.At("b").hello.set_launcher(true); }, ""},
      {"a node that is no member",
       [](Membership& m) {
         m.Add("z").hello.set_command_digest("test");
         m.Add("z").hello.set_launcher(true);
       },
       "make"},
  };
  for (const auto& row : kRows) {
    const v1::World world = WorldOf(7, {"a", "b"});
    Membership membership = NodesOf(world);
    row.change(membership);
    Formation formation;
    formation.Propose(world, At(10), kFormationLimits);
    EXPECT_EQ(formation.Commit(membership, NodeEpochs(), std::nullopt)
                  .common_digest(),
              row.digest)
        << row.name;
  }
}

TEST(Formation, ACommitIsProvenWithAKey) {
  const v1::World world = WorldOf(7, {"a"});
  const Membership membership = NodesOf(world);
  Formation formation;
  formation.Propose(world, At(10), kFormationLimits);
  PrepareAll(formation, membership);
  formation.Commit(membership, NodeEpochs(), std::nullopt);
  const std::string world_commit =
      formation.world_commit()->SerializeAsString();
  v1::Commit commit = formation.CommitMessage().commit();
  EXPECT_EQ(commit.generation(), 7u);
  EXPECT_EQ(commit.world_commit(), world_commit);
  EXPECT_EQ(commit.proof(), "");
  formation.UseKey([](const std::string& run, uint64_t generation,
                      const std::string& world_bytes,
                      const std::string& world_commit_bytes) {
    return absl::StrCat(run, "/", generation, "/", world_bytes, "/",
                        world_commit_bytes);
  });
  commit = formation.CommitMessage().commit();
  EXPECT_EQ(commit.proof(),
            absl::StrCat("run1/7/", EncodeWorld(world), "/", world_commit));
}

TEST(Formation, TakesUpAWorldThatAFormerDaemonCommitted) {
  const v1::World world = WorldOf(7, {"a", "b"});
  v1::Proposal proposal;
  proposal.set_generation(7);
  proposal.set_world(EncodeWorld(world));
  Formation formation;
  formation.TakeUp(world, proposal, WorldCommitOf(world));
  EXPECT_TRUE(formation.all_prepared());
  EXPECT_FALSE(formation.fresh());
  EXPECT_EQ(formation.deadline(), absl::InfiniteFuture());
  EXPECT_EQ(formation.world().members_size(), 2);
  EXPECT_EQ(formation.proposal().world(), proposal.world());
  // The members get the bytes that the previous daemon journaled.
  EXPECT_EQ(formation.CommitMessage().commit().world_commit(),
            WorldCommitOf(world).SerializeAsString());
}

}  // namespace
}  // namespace rollcall
