#include "daemon/core/formation/world.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "daemon/core/admission/admission.h"
#include "daemon/core/job/job.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

v1::World TwoNodes() {
  v1::World world;
  world.set_job("demo");
  world.set_run("run1");
  world.set_generation(3);
  for (uint32_t i = 0; i < 2; ++i) {
    v1::Member& member = *world.add_members();
    member.set_node(i == 0 ? "a" : "b");
    member.set_node_rank(i);
    member.set_seat(i);
    member.set_first_rank(2 * i);
    member.set_ranks(2);
    member.set_address(i == 0 ? "10.7.0.1" : "10.7.0.2");
  }
  world.set_world_size(4);
  return world;
}

// The facts of a node must not make a row that other agents refuse.
TEST(BuildWorld, TheLargestFactsMakeARowThatIsTaken) {
  v1::Hello hello;
  hello.set_node("a");
  hello.set_ranks(1);
  v1::Facts& facts = *hello.mutable_facts();
  facts.set_hostname(std::string(256, 'h'));
  for (int i = 0; i < 256; ++i) {
    v1::InfinibandPort& port = *facts.add_infiniband();
    port.set_device(std::string(256, 'd'));
    port.set_port(1);
    port.set_link_layer("InfiniBand");
    port.set_state("ACTIVE");
    port.add_gids()->set_address("fe80::1");
    facts.add_gpus()->set_name(std::string(250, 'g'));
  }
  NetworkPlan plan;
  plan.nodes.resize(1);
  plan.nodes[0].address = "10.7.0.1";
  for (int i = 0; i < 256; ++i) plan.nodes[0].rails.push_back(i);
  v1::World header;
  header.set_job("demo");
  header.set_run("run1");
  header.set_generation(1);
  const v1::World world = BuildWorld(header, {{&hello, 0}}, plan);
  EXPECT_TRUE(DecodeWorld(EncodeWorld(world)).ok())
      << DecodeWorld(EncodeWorld(world)).status();
  EXPECT_LE(world.members(0).ByteSizeLong(), Limits::member_bytes_max);
  // Nothing else in the row has to be shortened.
  facts.clear_infiniband();
  facts.clear_gpus();
  plan.nodes[0].rails.clear();
  EXPECT_TRUE(
      DecodeWorld(EncodeWorld(BuildWorld(header, {{&hello, 0}}, plan))).ok());
}

// A row with eight ports holds, for each port, the address by which peers reach
// it.
TEST(BuildWorld, EightPortsFitWithTheirGids) {
  v1::Hello hello;
  hello.set_node("a");
  hello.set_ranks(8);
  v1::Facts& facts = *hello.mutable_facts();
  facts.set_hostname("host-of-a.example.com");
  NetworkPlan plan;
  plan.nodes.resize(1);
  for (int i = 0; i < 8; ++i) {
    v1::InfinibandPort& port = *facts.add_infiniband();
    port.set_device("mlx5_" + std::to_string(i));
    port.set_port(1);
    port.set_link_layer("InfiniBand");
    port.set_state("ACTIVE");
    port.set_rate_gbps(400);
    v1::Gid& gid = *port.add_gids();
    gid.set_type("IB");
    gid.set_address("fe80::a088:c203:46:2f4" + std::to_string(i));
    facts.add_gpus()->set_name("NVIDIA H100 80GB HBM3");
    plan.nodes[0].rails.push_back(i);
  }
  plan.nodes[0].address = "10.7.0.1";
  const v1::World world = BuildWorld(v1::World(), {{&hello, 0}}, plan);
  ASSERT_EQ(world.members(0).ports_size(), 8);
  EXPECT_EQ(world.members(0).ports(7).gid().address(),
            "fe80::a088:c203:46:2f47");
  EXPECT_EQ(world.members(0).ports(7).rail(), 7u);
  ASSERT_EQ(world.members(0).gpus_size(), 1);
  EXPECT_EQ(world.members(0).gpus(0).count(), 8u);
}

struct Row {
  std::string name;
  std::function<void(v1::World&)> change;
};

TEST(DecodeWorld, TakesWhatADaemonHasBuiltAndNothingElse) {
  const v1::World good = TwoNodes();
  ASSERT_TRUE(DecodeWorld(EncodeWorld(good)).ok())
      << DecodeWorld(EncodeWorld(good)).status();
  const std::vector<Row> rows = {
      {"no generation", [](auto& w) { w.set_generation(0); }},
      {"a generation beyond all", [](auto& w) { w.set_generation(~0ull); }},
      {"a job of several lines", [](auto& w) { w.set_job("a\nb"); }},
      {"no run", [](auto& w) { w.clear_run(); }},
      {"a name of several lines",
       [](auto& w) { w.mutable_members(1)->set_node("b\n6.6.6.6 evil"); }},
      {"a name twice", [](auto& w) { w.mutable_members(1)->set_node("a"); }},
      {"a seat twice", [](auto& w) { w.mutable_members(1)->set_seat(0); }},
      {"a seat beyond all",
       [](auto& w) { w.mutable_members(1)->set_seat(Limits::nodes_max); }},
      {"no address", [](auto& w) { w.mutable_members(1)->clear_address(); }},
      {"an address with more behind it",
       [](auto& w) { w.mutable_members(1)->set_address("10.7.0.2 x"); }},
      {"another address that is none",
       [](auto& w) { w.mutable_members(1)->add_addresses("x"); }},
      {"node ranks with a gap",
       [](auto& w) { w.mutable_members(1)->set_node_rank(2); }},
      {"ranks with a gap",
       [](auto& w) { w.mutable_members(1)->set_first_rank(3); }},
      {"no ranks", [](auto& w) { w.mutable_members(1)->set_ranks(0); }},
      {"another world size", [](auto& w) { w.set_world_size(5); }},
      // The sum of these two overflows to 0.
      {"ranks beyond counting",
       [](auto& w) {
         w.mutable_members(0)->set_ranks(0x80000000u);
         w.mutable_members(1)->set_first_rank(0x80000000u);
         w.mutable_members(1)->set_ranks(0x80000000u);
         w.set_world_size(0);
       }},
      {"a variable of several lines",
       [](auto& w) {
         w.mutable_members(0)->add_plan()->set_value("=eth0\nX=1");
       }},
  };
  for (const Row& row : rows) {
    v1::World world = good;
    row.change(world);
    EXPECT_EQ(DecodeWorld(EncodeWorld(world)).status().code(),
              absl::StatusCode::kInvalidArgument)
        << row.name;
  }
}

TEST(AdmitWorldCommit, IsThatOfItsWorld) {
  const v1::World world = TwoNodes();
  v1::WorldCommit good;
  good.set_generation(3);
  good.set_master_address("10.7.0.1");
  good.set_master_port(23456);
  good.add_nccl_ids(std::string(Limits::nccl_id_bytes, 'i'));
  good.set_common_digest(std::string(32, 'd'));
  EXPECT_TRUE(AdmitWorldCommit(good, world).ok())
      << AdmitWorldCommit(good, world);
  const std::vector<std::function<void(v1::WorldCommit&)>> changes = {
      [](auto& s) { s.set_generation(4); },
      [](auto& s) { s.set_master_address("10.7.0.2"); },
      [](auto& s) { s.set_master_port(65536); },
      [](auto& s) { s.add_nccl_ids("short"); },
      [](auto& s) { s.set_common_digest("short"); },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    v1::WorldCommit world_commit = good;
    changes[i](world_commit);
    EXPECT_FALSE(AdmitWorldCommit(world_commit, world).ok()) << "change " << i;
  }
}

TEST(CheckJournal, RefusesWhatNoDaemonHasWritten) {
  JournalState good;
  good.run = "run1";
  good.generation = 3;
  good.settings.set_nodes_min(1);
  good.settings.set_nodes_max(2);
  EXPECT_TRUE(Job::CheckJournal(good).ok()) << Job::CheckJournal(good);
  const std::vector<std::function<void(JournalState&)>> changes = {
      [](auto& j) { j.end.emplace(); },
      [](auto& j) { j.settings.clear_nodes_min(); },
      [](auto& j) { j.settings.set_nodes_min(3); },
      [](auto& j) { j.settings.add_expected_nodes("a\nb"); },
      [](auto& j) { j.settings.mutable_lease()->set_seconds(-1); },
      // The generation after this one would be 0.
      [](auto& j) { j.generation = ~uint64_t{0}; },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    JournalState journal = good;
    changes[i](journal);
    EXPECT_FALSE(Job::CheckJournal(journal).ok()) << "change " << i;
  }
}

// A world in a journal that contradicts the rest of the journal is left out,
// because its seats and ranks would fail the job's CHECKs.
TEST(Restore, LeavesAWorldOutThatCannotBe) {
  JournalState good;
  good.run = "run1";
  good.generation = 3;
  good.settings.set_nodes_min(2);
  good.settings.set_nodes_max(2);
  const auto state_with = [&](const v1::World& world, uint64_t proposed) {
    JournalState journal = good;
    journal.proposal.emplace().set_generation(proposed);
    journal.proposal->set_world(EncodeWorld(world));
    journal.world_commit.emplace().set_generation(3);
    journal.world_commit->set_master_address("10.7.0.1");
    return Job::Restore("demo", journal, Limits(), absl::UnixEpoch()).state();
  };
  EXPECT_EQ(state_with(TwoNodes(), 3), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(state_with(TwoNodes(), 4), v1::JOB_STATE_GATHERING);
  v1::World world = TwoNodes();
  world.mutable_members(1)->set_seat(2);  // There are two seats.
  EXPECT_EQ(state_with(world, 3), v1::JOB_STATE_GATHERING);
  world = TwoNodes();
  world.set_run("run2");
  EXPECT_EQ(state_with(world, 3), v1::JOB_STATE_GATHERING);
}

}  // namespace
}  // namespace rollcall
