#include "daemon/core/world.h"

#include <set>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "daemon/core/admission.h"
#include "daemon/core/check.h"
#include "daemon/core/limits.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace rollcall {

v1::World BuildWorld(const v1::World& header,
                     const std::vector<WorldNode>& nodes,
                     const NetworkPlan& plan) {
  CHECK_EQ(nodes.size(), plan.nodes.size());
  v1::World world = header;
  uint32_t next_rank = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const v1::Hello& hello = *nodes[i].hello;
    v1::Member& member = *world.add_members();
    member.set_node(hello.node());
    member.set_node_rank(static_cast<uint32_t>(i));
    member.set_seat(nodes[i].seat);
    member.set_first_rank(next_rank);
    member.set_ranks(hello.ranks());
    next_rank += hello.ranks();
    member.set_address(plan.nodes[i].address);
    for (const std::string& address : plan.nodes[i].addresses) {
      member.add_addresses(address);
    }
    *member.mutable_infiniband() = hello.facts().infiniband();
    *member.mutable_gpus() = hello.facts().gpus();
    // One node's facts must not make a world that cannot be journaled.
    if (member.ByteSizeLong() > Limits::member_bytes_max) {
      member.clear_infiniband();
      member.clear_gpus();
    }
    while (member.addresses_size() > 0 &&
           member.ByteSizeLong() > Limits::member_bytes_max) {
      member.mutable_addresses()->RemoveLast();
    }
    for (const v1::PlannedVariable& variable : plan.nodes[i].variables) {
      *member.add_plan() = variable;
    }
  }
  world.set_world_size(next_rank);
  world.set_one_machine(plan.one_machine);
  return world;
}

std::string EncodeWorld(const v1::World& world) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream raw(&bytes);
    google::protobuf::io::CodedOutputStream out(&raw);
    out.SetSerializationDeterministic(true);
    CHECK(world.SerializeToCodedStream(&out));
  }
  return bytes;
}

absl::StatusOr<v1::World> DecodeWorld(const std::string& bytes) {
  v1::World world;
  if (!world.ParseFromString(bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("not a world: ", bytes.size(), " bytes do not parse"));
  }
  // Bounds the sum of the ranks as well.
  if (absl::Status admitted = AdmitWorld(world); !admitted.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("world of generation ", world.generation(), ": ",
                     std::string(admitted.message())));
  }
  uint32_t next_rank = 0;
  std::set<std::string_view> names;
  std::set<uint32_t> seats;
  for (int i = 0; i < world.members_size(); ++i) {
    const v1::Member& member = world.members(i);
    if (member.node_rank() != static_cast<uint32_t>(i) ||
        member.first_rank() != next_rank) {
      return absl::InvalidArgumentError(
          absl::StrCat("world of generation ", world.generation(), ": member ",
                       i, " breaks the row of ranks"));
    }
    if (!names.insert(member.node()).second ||
        !seats.insert(member.seat()).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("world of generation ", world.generation(), ": member ",
                       i, " has the name or the seat of another"));
    }
    next_rank += member.ranks();
  }
  if (next_rank != world.world_size() || world.generation() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "world of generation ", world.generation(), ": world size ",
        world.world_size(), ", but its members have ", next_rank, " ranks"));
  }
  return world;
}

}  // namespace rollcall
