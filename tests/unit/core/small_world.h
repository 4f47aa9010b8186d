// A world of a few nodes, its world commit, and the Hello of a member that
// comes back.
#ifndef ROLLCALL_TESTS_UNIT_CORE_SMALL_WORLD_H_
#define ROLLCALL_TESTS_UNIT_CORE_SMALL_WORLD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/core/formation/world.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Each node has one rank. Node ranks and seats follow the order of the names.
inline v1::World WorldOf(uint64_t generation,
                         const std::vector<std::string>& nodes) {
  v1::World world;
  world.set_job("demo");
  world.set_run("run1");
  world.set_generation(generation);
  for (const std::string& node : nodes) {
    v1::Member& member = *world.add_members();
    const auto row = static_cast<uint32_t>(world.members_size() - 1);
    member.set_node(node);
    member.set_address("10.0.0.1");
    member.set_ranks(1);
    member.set_first_rank(row);
    member.set_node_rank(row);
    member.set_seat(row);
  }
  world.set_world_size(static_cast<uint32_t>(nodes.size()));
  return world;
}

// Row n has incarnation 100 + n, epoch 1 and no token.
inline v1::WorldCommit WorldCommitOf(const v1::World& world) {
  v1::WorldCommit world_commit;
  world_commit.set_generation(world.generation());
  world_commit.set_master_address("10.0.0.1");
  world_commit.set_master_port(4000);
  for (int row = 0; row < world.members_size(); ++row) {
    world_commit.add_incarnations(100 + static_cast<uint64_t>(row));
    world_commit.add_epochs(1);
    world_commit.add_token_of(0);
  }
  world_commit.set_epoch_highest(1);
  return world_commit;
}

// The Hello of the agent of this row, which runs in the world.
inline v1::Hello HelloOf(const v1::World& world, int row) {
  v1::Hello hello;
  hello.set_job("demo");
  hello.set_run("run1");
  hello.set_node(world.members(row).node());
  hello.set_ranks(1);
  hello.set_incarnation(100 + static_cast<uint64_t>(row));
  hello.mutable_resume_state()->set_running_generation(world.generation());
  hello.mutable_resume_state()->set_world(EncodeWorld(world));
  hello.mutable_resume_state()->set_world_commit(
      WorldCommitOf(world).SerializeAsString());
  return hello;
}

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_CORE_SMALL_WORLD_H_
