// Admission of a world and of its world commit.
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/core/admission/admission.h"
#include "daemon/core/admission/message_parts.h"

namespace rollcall {
namespace {

constexpr size_t kPlannedMax = 64;
constexpr size_t kPlannedBytesMax = 8 << 10;
constexpr size_t kNcclIdsMax = size_t{Limits::nodes_max} *
                               Limits::ranks_per_node_max /
                               Limits::ranks_per_nccl_id;

absl::Status AdmitMember(const v1::Member& member) {
  RETURN_IF_REFUSED(AdmitNodeName(member.node()));
  RETURN_IF_REFUSED(AdmitAddress(member.address()));
  RETURN_IF_REFUSED(AdmitRange("members.ranks", member.ranks(), 1,
                               Limits::ranks_per_node_max));
  RETURN_IF_REFUSED(
      AdmitCount("members.seat", member.seat(), Limits::nodes_max - 1));
  RETURN_IF_REFUSED(AdmitCount("members.addresses", member.addresses_size(),
                               Limits::addresses_per_node_max));
  for (const std::string& address : member.addresses()) {
    RETURN_IF_REFUSED(AdmitAddress(address));
  }
  RETURN_IF_REFUSED(AdmitPlainText("members.hostname", member.hostname(),
                                   Limits::node_name_bytes_max));
  RETURN_IF_REFUSED(AdmitCount("members.ports", member.ports_size(),
                               FactsLimits::devices_max));
  for (const v1::MemberPort& port : member.ports()) {
    for (const std::string* text : {&port.device(), &port.link_layer()}) {
      RETURN_IF_REFUSED(
          AdmitPlainText("members.ports", *text, kShortTextBytesMax));
    }
    RETURN_IF_REFUSED(AdmitGid(port.gid()));
  }
  RETURN_IF_REFUSED(
      AdmitCount("members.gpus", member.gpus_size(), FactsLimits::devices_max));
  for (const v1::MemberGpus& gpus : member.gpus()) {
    RETURN_IF_REFUSED(
        AdmitPlainText("members.gpus", gpus.model(), kShortTextBytesMax));
  }
  RETURN_IF_REFUSED(
      AdmitCount("members.plan", member.plan_size(), kPlannedMax));
  for (const v1::PlannedVariable& variable : member.plan()) {
    for (const std::string* text :
         {&variable.name(), &variable.value(), &variable.reason()}) {
      RETURN_IF_REFUSED(
          AdmitPlainText("members.plan", *text, kPlannedBytesMax));
    }
  }
  return absl::OkStatus();
}

// The rows that say how members were admitted: one for each member, or none.
absl::Status AdmitRows(const v1::WorldCommit& world_commit, int members) {
  for (const int rows :
       {world_commit.incarnations_size(), world_commit.epochs_size(),
        world_commit.token_of_size()}) {
    if (rows != 0 && rows != members) {
      return Unfit("rows of world_commit", absl::StrCat("0 or ", members),
                   static_cast<uint64_t>(rows));
    }
  }
  RETURN_IF_REFUSED(AdmitCount("world_commit.token_ids",
                               world_commit.token_ids_size(),
                               static_cast<uint64_t>(members)));
  for (const std::string& id : world_commit.token_ids()) {
    RETURN_IF_REFUSED(
        AdmitLowerId("world_commit.token_ids", id, kSecretBytesMax));
  }
  for (const uint32_t place : world_commit.token_of()) {
    RETURN_IF_REFUSED(
        AdmitCount("world_commit.token_of", place,
                   static_cast<uint64_t>(world_commit.token_ids_size())));
  }
  for (const uint64_t epoch : world_commit.epochs()) {
    RETURN_IF_REFUSED(AdmitGeneration("world_commit.epochs", epoch));
  }
  return AdmitGeneration("world_commit.epoch_highest",
                         world_commit.epoch_highest());
}

}  // namespace

absl::Status AdmitNcclIds(
    const google::protobuf::RepeatedPtrField<std::string>& ids) {
  RETURN_IF_REFUSED(AdmitCount("nccl_ids", ids.size(), kNcclIdsMax));
  for (const std::string& id : ids) {
    if (id.size() != Limits::nccl_id_bytes) {
      return Unfit("length of nccl_ids", "exactly 128 bytes each", id.size());
    }
  }
  return absl::OkStatus();
}

absl::Status AdmitDigest(const char* field, const std::string& digest) {
  if (digest.empty() || digest.size() == 32) return absl::OkStatus();
  return Unfit(field, "0 or 32 bytes", digest.size());
}

absl::Status AdmitWorld(const v1::World& world) {
  RETURN_IF_REFUSED(AdmitJobId(world.job()));
  RETURN_IF_REFUSED(AdmitLowerId("run", world.run(), kRunBytesMax));
  RETURN_IF_REFUSED(AdmitGeneration("generation", world.generation()));
  RETURN_IF_REFUSED(
      AdmitCount("members", world.members_size(), Limits::nodes_max));
  for (const v1::Member& member : world.members()) {
    RETURN_IF_REFUSED(AdmitMember(member));
  }
  return absl::OkStatus();
}

absl::Status AdmitWorldCommit(const v1::WorldCommit& world_commit,
                              const v1::World& world) {
  if (world_commit.generation() != world.generation()) {
    return Unfit("world_commit.generation", absl::StrCat(world.generation()),
                 world_commit.generation());
  }
  const std::string expected =
      world.members().empty() ? "" : world.members(0).address();
  if (world_commit.master_address() != expected) {
    return Unfit("world_commit.master_address", expected,
                 world_commit.master_address());
  }
  RETURN_IF_REFUSED(AdmitCount("world_commit.master_port",
                               world_commit.master_port(), 65535));
  if (world_commit.has_state_source() &&
      world_commit.state_source().rank() >= world.world_size()) {
    return Unfit("world_commit.state_source.rank",
                 absl::StrCat("below ", world.world_size()),
                 world_commit.state_source().rank());
  }
  RETURN_IF_REFUSED(AdmitRows(world_commit, world.members_size()));
  RETURN_IF_REFUSED(AdmitDigest("length of world_commit.common_digest",
                                world_commit.common_digest()));
  return AdmitNcclIds(world_commit.nccl_ids());
}

}  // namespace rollcall
