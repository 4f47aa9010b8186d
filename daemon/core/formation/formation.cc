#include "daemon/core/formation/formation.h"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "daemon/core/formation/world.h"

namespace rollcall {
namespace {

// Records how each member was admitted. A daemon that adopts the run compares
// node credentials with these rows.
void AddRows(const v1::World& world, const Membership& membership,
             const NodeEpochs& epochs, v1::WorldCommit& world_commit) {
  std::map<std::string, uint32_t> places;
  for (const v1::Member& member : world.members()) {
    world_commit.add_incarnations(
        membership.At(member.node()).hello.incarnation());
    world_commit.add_epochs(epochs.EpochOf(member.node()));
    const std::string token_id = epochs.TokenOf(member.node());
    uint32_t place = 0;
    if (!token_id.empty()) {
      const auto [at, fresh] = places.try_emplace(
          token_id, static_cast<uint32_t>(places.size() + 1));
      if (fresh) world_commit.add_token_ids(token_id);
      place = at->second;
    }
    world_commit.add_token_of(place);
  }
  world_commit.set_epoch_highest(epochs.highest());
}

// The digest of the command if all members have the same one, for
// WorldCommit.common_digest; otherwise empty.
std::string CommonCommand(const v1::World& world,
                          const Membership& membership) {
  std::set<std::string> commands;
  for (const v1::Member& member : world.members()) {
    const v1::Hello& hello = membership.At(member.node()).hello;
    if (hello.launcher()) return "";
    commands.insert(hello.command_digest());
  }
  return commands.size() == 1 ? *commands.begin() : "";
}

}  // namespace

void Formation::Propose(v1::World world, absl::Time now, const Limits& limits) {
  world_ = std::move(world);
  proposal_.set_generation(world_.generation());
  proposal_.set_world(EncodeWorld(world_));
  proposal_.set_compression(v1::COMPRESSION_NONE);
  proposal_.set_world_bytes(static_cast<uint32_t>(proposal_.world().size()));
  world_commit_.reset();
  first_prepared_.Clear();
  unprepared_ = static_cast<size_t>(world_.members_size());
  Extend(now, limits);
}

void Formation::TakeUp(v1::World world, v1::Proposal proposal,
                       v1::WorldCommit world_commit) {
  world_ = std::move(world);
  proposal_ = std::move(proposal);
  world_commit_ = std::move(world_commit);
}

void Formation::Prepared(const Node& node, const v1::Prepared& prepared) {
  if (node.node_rank == 0) first_prepared_ = prepared;
  --unprepared_;
}

const v1::WorldCommit& Formation::Commit(
    const Membership& membership, const NodeEpochs& epochs,
    std::optional<v1::StateSource> source) {
  v1::WorldCommit world_commit;
  world_commit.set_generation(world_.generation());
  world_commit.set_master_address(world_.members(0).address());
  world_commit.set_master_port(first_prepared_.master_port());
  *world_commit.mutable_nccl_ids() = first_prepared_.nccl_ids();
  world_commit.set_nccl_version(first_prepared_.nccl_version());
  world_commit.set_nccl_absent(first_prepared_.nccl_absent());
  if (source.has_value())
    *world_commit.mutable_state_source() = *std::move(source);
  AddRows(world_, membership, epochs, world_commit);
  world_commit.set_common_digest(CommonCommand(world_, membership));
  return world_commit_.emplace(std::move(world_commit));
}

v1::DaemonMessage Formation::CommitMessage() const {
  v1::DaemonMessage message;
  v1::Commit& commit = *message.mutable_commit();
  commit.set_generation(world_.generation());
  commit.set_world_commit(world_commit_->SerializeAsString());
  if (prove_) {
    commit.set_proof(prove_(world_.run(), world_.generation(),
                            proposal_.world(), commit.world_commit()));
  }
  return message;
}

}  // namespace rollcall
