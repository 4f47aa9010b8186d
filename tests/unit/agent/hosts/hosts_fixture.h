// Shared by the tests of the hosts file: worlds, owners, and how a block is
// written to a text and removed from it.
#ifndef ROLLCALL_TESTS_UNIT_AGENT_HOSTS_HOSTS_FIXTURE_H_
#define ROLLCALL_TESTS_UNIT_AGENT_HOSTS_HOSTS_FIXTURE_H_

#include "client/agent/hosts/hosts_text.h"

namespace rollcall {

inline const OwnerLives kAllLive = [](const HostsOwner&) { return true; };
inline const OwnerLives kNoneLives = [](const HostsOwner&) { return false; };

inline HostsOwner Owner(const std::string& node, int64_t pid = 100) {
  return {pid, 5, "boot", 7, node};
}

struct Row {
  std::string node;
  std::string address;
};

inline v1::World MakeWorld(const std::vector<Row>& rows,
                           uint64_t generation = 1,
                           const std::string& job = "train",
                           const std::string& run = "r1") {
  v1::World world;
  world.set_job(job);
  world.set_run(run);
  world.set_generation(generation);
  for (const Row& row : rows) {
    auto& member = *world.add_members();
    member.set_node_rank(world.members_size() - 1);
    member.set_node(row.node);
    member.set_address(row.address);
    member.set_ranks(1);
  }
  world.set_world_size(world.members_size());
  return world;
}

// A resolver that knows none of the world's names.
inline HostsNames NoneFound(const v1::World& world) {
  HostsNames names;
  for (const std::string& name : NamesToAsk(world, {})) {
    names.answers[name] = {NameAnswer::Kind::kNotFound, {}};
  }
  return names;
}

// The lines of the first block that name members.
inline std::string Entries(const std::string& text) {
  const HostsText hosts = ParseHosts(text);
  return hosts.blocks.empty() ? "no block" : hosts.blocks.front().entries;
}

inline std::string Put(const std::string& text, const v1::World& world,
                       const HostsOwner& owner = Owner("a"),
                       const OwnerLives& lives = kAllLive,
                       const std::string& hostname = "a") {
  return WriteHostsBlock(text, false, world, 0, hostname, NoneFound(world),
                         owner, lives)
      .text;
}

inline std::string Take(const std::string& text,
                        const HostsOwner& owner = Owner("a"),
                        const OwnerLives& lives = kAllLive,
                        const std::string& run = "r1") {
  return RemoveHostsBlock(text, "train", run, owner, lives).text;
}

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_AGENT_HOSTS_HOSTS_FIXTURE_H_
