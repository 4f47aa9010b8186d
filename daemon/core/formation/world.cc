#include "daemon/core/formation/world.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/core/admission/admission.h"
#include "daemon/core/limits.h"
#include "daemon/core/network_plan/comparison/fabric.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace rollcall {
namespace {

void AddPorts(const v1::Facts& facts, const PlannedNode& plan,
              v1::Member& member) {
  for (const v1::InfinibandPort& port : facts.infiniband()) {
    v1::MemberPort& row = *member.add_ports();
    row.set_device(port.device());
    row.set_port(port.port());
    row.set_active(IsActive(port));
    row.set_link_layer(port.link_layer());
    row.set_rate_gbps(port.rate_gbps());
    row.set_lid(port.lid());
    const v1::Gid* reached = PeerGid(port, plan.unreached);
    const v1::Gid* gid = reached != nullptr ? reached : PeerGid(port);
    if (gid != nullptr) {
      *row.mutable_gid() = *gid;
      row.mutable_gid()->clear_net_device();
    }
  }
  for (size_t rail = 0; rail < plan.rails.size(); ++rail) {
    member.mutable_ports(plan.rails[rail])
        ->set_rail(static_cast<uint32_t>(rail));
  }
}

void AddGpus(const v1::Facts& facts, v1::Member& member) {
  std::map<std::string, uint32_t> models;
  for (const v1::Gpu& gpu : facts.gpus()) ++models[gpu.name()];
  if (models.empty() && facts.gpu_count() > 0) {
    models[""] = facts.gpu_count();
  }
  for (const auto& [model, count] : models) {
    v1::MemberGpus& row = *member.add_gpus();
    row.set_model(model);
    row.set_count(count);
  }
}

// Shortens a member's facts so that the world fits the journal's bound.
void Shorten(v1::Member& member) {
  const auto fits = [&] {
    return member.ByteSizeLong() <= Limits::member_bytes_max;
  };
  if (fits()) return;
  auto& ports = *member.mutable_ports();
  ports.erase(std::remove_if(
                  ports.begin(), ports.end(),
                  [](const v1::MemberPort& port) { return !port.has_rail(); }),
              ports.end());
  // First remove the GID's type, which NCCL finds by itself; then the GID,
  // which peers cannot find by other means.
  for (v1::MemberPort& port : ports) port.mutable_gid()->clear_type();
  if (fits()) return;
  for (v1::MemberPort& port : ports) port.clear_gid();
  if (fits()) return;
  ports.Clear();
  member.clear_gpus();
  member.clear_hostname();
  while (member.addresses_size() > 0 && !fits()) {
    member.mutable_addresses()->RemoveLast();
  }
}

}  // namespace

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
    member.set_once(hello.once());
    next_rank += hello.ranks();
    member.set_address(plan.nodes[i].address);
    for (const std::string& address : plan.nodes[i].addresses) {
      member.add_addresses(address);
    }
    if (hello.facts().hostname() != hello.node() &&
        hello.facts().hostname().size() <= Limits::node_name_bytes_max) {
      member.set_hostname(hello.facts().hostname());
    }
    AddPorts(hello.facts(), plan.nodes[i], member);
    AddGpus(hello.facts(), member);
    Shorten(member);
    for (const v1::PlannedVariable& variable : plan.nodes[i].variables) {
      *member.add_plan() = variable;
    }
  }
  world.set_world_size(next_rank);
  world.set_one_machine(plan.one_machine);
  return world;
}

uint32_t RanksStarted(const v1::Member& member) {
  if (!member.once()) return member.ranks();
  return member.node_rank() == 0 ? 1 : 0;
}

std::vector<uint32_t> RanksOf(const v1::World& world) {
  std::vector<uint32_t> ranks;
  for (const v1::Member& member : world.members()) {
    ranks.push_back(member.ranks());
  }
  return ranks;
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
  // AdmitWorld also checks the bound on the sum of the ranks.
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
      return absl::InvalidArgumentError(absl::StrCat(
          "world of generation ", world.generation(), ": member ", i,
          " has a first rank that does not follow the ranks before it"));
    }
    if (!names.insert(member.node()).second ||
        !seats.insert(member.seat()).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("world of generation ", world.generation(), ": member ",
                       i, " has the name or the seat of another member"));
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
