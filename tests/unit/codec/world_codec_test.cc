#include "daemon/codec/world_codec.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "daemon/core/formation/world.h"

namespace rollcall {
namespace {

v1::Proposal ProposalOf(int nodes) {
  v1::World world;
  world.set_job("demo");
  world.set_generation(1);
  for (int i = 0; i < nodes; ++i) {
    v1::Member& member = *world.add_members();
    member.set_node(absl::StrCat("gpu-node-", i));
    member.set_node_rank(static_cast<uint32_t>(i));
    member.set_seat(static_cast<uint32_t>(i));
    member.set_first_rank(static_cast<uint32_t>(8 * i));
    member.set_ranks(8);
    member.set_address(absl::StrCat("10.20.", i / 250, ".", i % 250 + 1));
    member.add_addresses(member.address());
  }
  world.set_world_size(static_cast<uint32_t>(8 * nodes));
  v1::Proposal proposal;
  proposal.set_generation(1);
  proposal.set_world(EncodeWorld(world));
  proposal.set_world_bytes(static_cast<uint32_t>(proposal.world().size()));
  proposal.set_compression(v1::COMPRESSION_NONE);
  return proposal;
}

TEST(WorldCodec, GivesBackWhatItTook) {
  for (const int nodes : {1, 3, 1000}) {
    const v1::Proposal before = ProposalOf(nodes);
    v1::Proposal proposal = before;
    CompressWorld(proposal);
    EXPECT_LE(proposal.world().size(), before.world().size());
    ASSERT_TRUE(ExpandWorld(proposal).ok()) << nodes;
    EXPECT_EQ(proposal.world(), before.world()) << nodes;
  }
}

TEST(WorldCodec, ARowIsSmall) {
  v1::Proposal proposal = ProposalOf(1000);
  CompressWorld(proposal);
  RecordProperty("bytes_per_row",
                 static_cast<int>(proposal.world().size() / 1000));
  EXPECT_LT(proposal.world().size(), 20 * 1000u);
}

TEST(WorldCodec, RefusesWhatDoesNotExpand) {
  v1::Proposal good = ProposalOf(1000);
  CompressWorld(good);
  ASSERT_EQ(good.compression(), v1::COMPRESSION_ZLIB);
  v1::Proposal bad = good;
  bad.set_world_bytes(bad.world_bytes() - 1);
  EXPECT_FALSE(ExpandWorld(bad).ok());
  bad = good;
  bad.set_world_bytes(bad.world_bytes() + 1);
  EXPECT_FALSE(ExpandWorld(bad).ok());
  bad = good;
  bad.mutable_world()->resize(bad.world().size() / 2);
  EXPECT_FALSE(ExpandWorld(bad).ok());
  bad = good;
  bad.set_world_bytes(0xffffffff);
  EXPECT_FALSE(ExpandWorld(bad).ok());
  bad = good;
  bad.set_compression(static_cast<v1::Compression>(7));
  EXPECT_FALSE(ExpandWorld(bad).ok());
}

}  // namespace
}  // namespace rollcall
