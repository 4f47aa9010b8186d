// Admission of a world and of its seal.
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
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

// How members were admitted: one row for each, or none at all.
absl::Status AdmitRows(const v1::Seal& seal, int members) {
  for (const int rows :
       {seal.incarnations_size(), seal.epochs_size(), seal.token_of_size()}) {
    if (rows != 0 && rows != members) {
      return Unfit("rows of seal", absl::StrCat("0 or ", members),
                   static_cast<uint64_t>(rows));
    }
  }
  RETURN_IF_REFUSED(AdmitCount("seal.token_ids", seal.token_ids_size(),
                               static_cast<uint64_t>(members)));
  for (const std::string& id : seal.token_ids()) {
    RETURN_IF_REFUSED(AdmitLowerId("seal.token_ids", id, kSecretBytesMax));
  }
  for (const uint32_t place : seal.token_of()) {
    RETURN_IF_REFUSED(AdmitCount("seal.token_of", place,
                                 static_cast<uint64_t>(seal.token_ids_size())));
  }
  for (const uint64_t epoch : seal.epochs()) {
    RETURN_IF_REFUSED(AdmitGeneration("seal.epochs", epoch));
  }
  return AdmitGeneration("seal.epoch_highest", seal.epoch_highest());
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

absl::Status AdmitSeal(const v1::Seal& seal, const v1::World& world) {
  if (seal.generation() != world.generation()) {
    return Unfit("seal.generation", absl::StrCat(world.generation()),
                 seal.generation());
  }
  const std::string expected =
      world.members().empty() ? "" : world.members(0).address();
  if (seal.master_address() != expected) {
    return Unfit("seal.master_address", expected, seal.master_address());
  }
  RETURN_IF_REFUSED(AdmitCount("seal.master_port", seal.master_port(), 65535));
  if (seal.has_state_source() &&
      seal.state_source().rank() >= world.world_size()) {
    return Unfit("seal.state_source.rank",
                 absl::StrCat("below ", world.world_size()),
                 seal.state_source().rank());
  }
  RETURN_IF_REFUSED(AdmitRows(seal, world.members_size()));
  RETURN_IF_REFUSED(
      AdmitDigest("length of seal.common_digest", seal.common_digest()));
  return AdmitNcclIds(seal.nccl_ids());
}

}  // namespace rollcall
