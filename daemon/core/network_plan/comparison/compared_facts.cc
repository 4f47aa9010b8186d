#include "daemon/core/network_plan/comparison/compared_facts.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "daemon/core/admission/communication_variables.h"
#include "daemon/core/limits.h"
#include "daemon/core/network_plan/comparison/fabric.h"
#include "daemon/core/network_plan/comparison/thresholds.h"

namespace rollcall {
namespace {

// Bytes of the text of one value.
constexpr size_t kValueBytesMax = 200;
// A value names at most this many of the ports that are down.
constexpr size_t kIdlePortsNamedMax = 4;
// How long a Hello may take, from the agent's reading of its clock to the
// daemon's reading of its own. This includes a TLS handshake.
constexpr absl::Duration kHelloTakesMax = absl::Seconds(20);

std::string Nccl(const ComparedNode& node) {
  return node.facts->versions().nccl();
}

std::string Driver(const ComparedNode& node) {
  return node.facts->versions().driver();
}

// Whether the driver answered for all GPUs, or the node has none. False if a
// GPU did not answer (missing fact "gpus.3").
bool KnowsGpus(const v1::Facts& facts) {
  return std::none_of(facts.missing().begin(), facts.missing().end(),
                      [](const v1::MissingFact& missing) {
                        absl::string_view fact = missing.fact();
                        uint32_t index = 0;
                        return fact == "gpus" ||
                               (absl::ConsumePrefix(&fact, "gpus.") &&
                                absl::SimpleAtoi(fact, &index));
                      });
}

// "8 x NVIDIA H100": each model with its count. Empty if the GPUs were only
// counted, because their models are then unknown.
std::string Gpus(const ComparedNode& node) {
  if (!KnowsGpus(*node.facts)) return "";
  std::map<std::string, size_t> models;
  for (const v1::Gpu& gpu : node.facts->gpus()) ++models[gpu.name()];
  if (models.empty()) return node.facts->gpu_count() == 0 ? "none" : "";
  if (models.contains("")) return "";
  std::vector<std::string> words;
  for (const auto& [model, count] : models) {
    words.push_back(absl::StrCat(count, " x ", model));
  }
  return absl::StrJoin(words, ", ");
}

// "7 InfiniBand". Only active ports are counted.
std::string ActivePorts(const ComparedNode& node) {
  if (!KnowsPorts(*node.facts)) return "";
  std::map<std::string, size_t> layers;
  for (const v1::InfinibandPort& port : node.facts->infiniband()) {
    if (IsActive(port)) ++layers[port.link_layer()];
  }
  std::vector<std::string> words;
  for (const auto& [layer, count] : layers) {
    words.push_back(absl::StrCat(count, " ", layer));
  }
  return words.empty() ? "none" : absl::StrJoin(words, ", ");
}

// "mlx5_3:1 DOWN". On the other nodes, this port may be the active one.
std::string IdlePorts(const ComparedNode& node) {
  std::vector<std::string> idle;
  for (const v1::InfinibandPort& port : node.facts->infiniband()) {
    if (IsActive(port)) continue;
    if (idle.size() == kIdlePortsNamedMax) break;
    idle.push_back(absl::StrCat(port.device(), ":", port.port(), " ",
                                !port.unusable().empty() ? "cannot be opened"
                                : port.state().empty()   ? "in an unknown state"
                                                         : port.state()));
  }
  return absl::StrJoin(idle, ", ");
}

std::string PortMtu(const ComparedNode& node) {
  std::set<uint32_t> mtus;
  for (const v1::InfinibandPort& port : node.facts->infiniband()) {
    if (IsActive(port) && port.active_mtu() > 0) mtus.insert(port.active_mtu());
  }
  return absl::StrJoin(mtus, ", ");
}

std::string InterfaceMtu(const ComparedNode& node) {
  for (const v1::Interface& interface : node.facts->interfaces()) {
    if (interface.name() == node.interface && interface.mtu() > 0) {
      return absl::StrCat(interface.mtu());
    }
  }
  return "";
}

std::string BytesText(uint64_t bytes) {
  return bytes < (1 << 20) ? absl::StrCat(bytes >> 10, " KiB")
                           : absl::StrCat(bytes >> 20, " MiB");
}

// Compared only if the node has RDMA ports, because RDMA locks its buffers'
// memory.
std::string Memlock(const ComparedNode& node) {
  if (node.facts->infiniband().empty() || !node.facts->has_limits()) return "";
  const v1::SystemLimits& limits = node.facts->limits();
  if (limits.memlock_unbound()) return "enough";
  const uint64_t limit = limits.memlock_bytes();
  return limit > kMemlockDefault ? "enough" : BytesText(limit);
}

std::string Shm(const ComparedNode& node) {
  const uint64_t size = node.facts->limits().shm_bytes();
  if (size == 0) return "";
  return size >= kShmMin ? "enough" : BytesText(size);
}

// In whole seconds, because the measurement is less exact than that.
std::string Clock(const ComparedNode& node) {
  if (!node.clock_offset.has_value()) return "";
  const absl::Duration offset = *node.clock_offset;
  // The lower bound is far away, because a Hello takes long when thousands
  // arrive at once.
  if (offset < Limits::clock_offset_max && offset > -kHelloTakesMax)
    return "right";
  return absl::StrCat(
      absl::ToInt64Seconds(absl::AbsDuration(offset)),
      offset > absl::ZeroDuration() ? " s ahead of" : " s behind",
      " the daemon");
}

std::string Command(const ComparedNode& node) {
  return absl::BytesToHexString(node.command_digest.substr(0, 6));
}

// What the node itself sets; null: it does not set the variable.
const v1::CommunicationVariable* VariableOf(const ComparedNode& node,
                                            std::string_view name) {
  // Admission holds them sorted.
  const auto& all = node.facts->communication().variables();
  const auto at = std::lower_bound(
      all.begin(), all.end(), name,
      [](const v1::CommunicationVariable& each, std::string_view wanted) {
        return each.name() < wanted;
      });
  return at != all.end() && at->name() == name ? &*at : nullptr;
}

// The variable `name` as the plan sets it for the node; null: the plan does not
// set it.
const v1::PlannedVariable* PlannedFor(const ComparedNode& node,
                                      std::string_view name) {
  if (node.plan == nullptr) return nullptr;
  const auto at = std::find_if(
      node.plan->begin(), node.plan->end(),
      [&](const v1::PlannedVariable& each) { return each.name() == name; });
  return at == node.plan->end() ? nullptr : &*at;
}

std::string VariableValue(const ComparedNode& node, std::string_view name) {
  if (!node.facts->has_communication()) return "";
  if (const v1::CommunicationVariable* const set = VariableOf(node, name)) {
    return set->has_digest()
               ? absl::StrCat("not shown, digest ",
                              absl::BytesToHexString(set->digest()))
               : set->value();
  }
  if (const v1::PlannedVariable* const planned = PlannedFor(node, name)) {
    return planned->value();
  }
  return node.facts->communication().more() ? "" : "not set";
}

constexpr char kCannotUse[] = "cannot be used: ";

bool IsFolder(std::string_view path) {
  return !path.empty() && path.back() == '/';
}

std::string FileValue(const ComparedNode& node, const std::string& path) {
  for (const v1::SameFile& file : node.facts->same_files()) {
    if (file.path() != path) continue;
    if (file.sha256().empty()) {
      return absl::StrCat(kCannotUse, file.error());
    }
    const std::string digest =
        absl::BytesToHexString(file.sha256().substr(0, 6));
    return IsFolder(path) ? absl::StrCat("mark ", digest)
                          : absl::StrCat("SHA-256 ", digest, ", ",
                                         file.size_bytes(), " bytes");
  }
  return "";
}

constexpr std::array<ComparedFact, 10> kCompared = {{
    {"NCCL version", Nccl,
     "ranks of different NCCL versions hang or abort in their first "
     "collective; install one version on all nodes"},
    {"GPUs", Gpus,
     "the slowest node sets the pace; use nodes of one kind, or give "
     "--nproc-per-node on each"},
    {"active RDMA ports", ActivePorts,
     "NCCL connects ports by position; bring the missing ports up, or leave "
     "this node out",
     /*strict=*/true, IdlePorts},
    {"RDMA MTU", PortMtu,
     "large messages may be dropped between them; set one MTU on all ports "
     "and switches"},
    {"interface MTU", InterfaceMtu,
     "large packets may be dropped between them; set one MTU on all "
     "interfaces and switches"},
    {"NVIDIA driver", Driver,
     "a library may run on one node and fail on another; install one driver"},
    {"memlock limit", Memlock,
     "RDMA fails where it cannot lock memory; raise the limit as `rollcall "
     "doctor` on that node says"},
    {"/dev/shm", Shm,
     "NCCL and data loaders fail without enough shared memory; enlarge it as "
     "`rollcall doctor` on that node says"},
    {"clock", Clock,
     "certificates and tokens may count as expired, and log times cannot be "
     "compared; let chrony or systemd-timesyncd set the clock",
     /*strict=*/false},
    {"command", Command,
     "the nodes run different commands; give each the same one after --"},
}};

constexpr char kVariableAdvice[] =
    "ranks that communicate with different settings may hang; set it alike on "
    "all nodes, or on none";

constexpr char kFileAdvice[] =
    "--same says that all nodes have the same file; copy one of them to all";

constexpr char kFolderAdvice[] =
    "--shared says that all nodes see one folder there and can write to it; "
    "mount the launcher's there";

}  // namespace

std::string ComparedFact::value_of(const ComparedNode& node) const {
  return ShortenedValue(read != nullptr ? read(node)
                        : is_file()     ? FileValue(node, fact)
                                        : VariableValue(node, fact));
}

bool ComparedFact::required() const { return is_file() && IsFolder(fact); }

std::vector<ComparedFact> AllComparedFacts(
    const std::vector<ComparedNode>& nodes) {
  std::vector<ComparedFact> all(kCompared.begin(), kCompared.end());
  std::map<std::string_view, const char*> paths;
  for (const ComparedNode& node : nodes) {
    for (const v1::SameFile& file : node.facts->same_files()) {
      if (paths.size() < Limits::compared_files_max) {
        paths.try_emplace(file.path(), file.path().c_str());
      }
    }
  }
  for (const auto& [key, path] : paths) {
    all.push_back({path, nullptr, IsFolder(key) ? kFolderAdvice : kFileAdvice});
  }
  for (const char* const name : ComparedVariables(nodes)) {
    all.push_back(ComparedVariable(name));
  }
  return all;
}

ComparedFact ComparedVariable(const char* name) {
  return {name, nullptr, kVariableAdvice};
}

ComparedFact ComparedFactOf(const std::string& fact) {
  for (const ComparedFact& compared : kCompared) {
    if (compared.fact == fact) return compared;
  }
  const ComparedFact compared = ComparedVariable(fact.c_str());
  if (!compared.is_file()) return compared;
  return {fact.c_str(), nullptr, IsFolder(fact) ? kFolderAdvice : kFileAdvice};
}

std::vector<const char*> ComparedVariables(
    const std::vector<ComparedNode>& nodes) {
  struct Named {
    const char* name;
    size_t nodes = 0;
    // If only one node has it: how many such variables of this node come first.
    size_t place = 0;
  };
  std::map<std::string_view, Named> all;
  for (const ComparedNode& node : nodes) {
    for (const auto& variable : node.facts->communication().variables()) {
      const std::string& name = variable.name();
      if (!IsSharedVariable(name)) continue;
      ++all.try_emplace(name, Named{name.c_str()}).first->second.nodes;
    }
  }
  for (const ComparedNode& node : nodes) {
    size_t own = 0;
    for (const auto& variable : node.facts->communication().variables()) {
      const auto at = all.find(variable.name());
      if (at != all.end() && at->second.nodes == 1) at->second.place = own++;
    }
  }
  // All ranks get the same value of these, whatever the nodes set.
  if (!nodes.empty() && nodes.front().settings != nullptr) {
    for (const v1::JobVariable& each : nodes.front().settings->environment()) {
      all.erase(each.name());
    }
  }
  std::vector<Named> sorted;
  for (const auto& [name, named] : all) sorted.push_back(named);
  std::stable_sort(
      sorted.begin(), sorted.end(), [](const Named& a, const Named& b) {
        return std::pair(b.nodes, a.place) < std::pair(a.nodes, b.place);
      });
  if (sorted.size() > Limits::compared_variables_max) {
    sorted.resize(Limits::compared_variables_max);
  }
  std::vector<const char*> names;
  for (const Named& named : sorted) names.push_back(named.name);
  return names;
}

bool SetsVariable(const ComparedNode& node, std::string_view name) {
  return VariableOf(node, name) != nullptr;
}

bool PlanSetsVariable(const ComparedNode& node, std::string_view name) {
  return PlannedFor(node, name) != nullptr;
}

bool CannotUse(std::string_view value) { return value.starts_with(kCannotUse); }

std::string ShortenedValue(std::string text) {
  if (text.size() > kValueBytesMax) {
    text.resize(kValueBytesMax);
    text += "...";
  }
  return text;
}

}  // namespace rollcall
