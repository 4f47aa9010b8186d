#include "daemon/core/network_plan/differences.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "daemon/core/admission/communication_variables.h"
#include "daemon/core/limits.h"
#include "daemon/core/network_plan/fabric.h"
#include "daemon/core/network_plan/thresholds.h"

namespace rollcall {
namespace {

// At most this many nodes of one side are named; the total count is reported
// too.
constexpr size_t kNodesNamedMax = 8;
constexpr int kSidesMax = 8;
// Bytes of the text of one value: a node may have many GPU models.
constexpr size_t kValueBytesMax = 200;
// A value names at most this many of the ports that are down.
constexpr size_t kIdlePortsNamedMax = 4;
// How long a Hello may take, from the agent's reading of its clock to the
// daemon's reading of its own. This includes a TLS handshake.
constexpr absl::Duration kHelloTakesMax = absl::Seconds(20);

// Returns a node's value of a fact. Empty: unknown, so it is not compared.
using ValueOf = std::string (*)(const ComparedNode&);

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

std::string Shortened(std::string text) {
  if (text.size() > kValueBytesMax) {
    text.resize(kValueBytesMax);
    text += "...";
  }
  return text;
}

// What the node itself sets; null: it does not set the variable.
const v1::CommunicationVariable* SetVariable(const ComparedNode& node,
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
  if (const v1::CommunicationVariable* const set = SetVariable(node, name)) {
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

bool CannotUse(std::string_view value) { return value.starts_with(kCannotUse); }

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

struct Compared {
  // If `read` is null: the name of a variable, or the path of a file.
  const char* fact;
  ValueOf read;
  // The consequence of the difference, and what to do.
  const char* advice;
  // Whether a difference can exclude a node from a strict job.
  bool strict = true;
  // More text about a node whose value differs. It is not compared.
  ValueOf detail = nullptr;

  std::string value_of(const ComparedNode& node) const {
    return Shortened(read != nullptr ? read(node)
                     : is_file()     ? FileValue(node, fact)
                                     : VariableValue(node, fact));
  }
  bool is_file() const { return read == nullptr && *fact == '/'; }
  bool is_variable() const { return read == nullptr && !is_file(); }
  // A node that differs gets no seat even in a job that is not strict.
  bool required() const { return is_file() && IsFolder(fact); }
};

constexpr std::array<Compared, 10> kCompared = {{
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

// The names of communication variables that these nodes set, in the order in
// which differences are looked for: those of most nodes first. Of the others,
// one of each node, then a second one of each, and so on, so that a node with
// many of its own displaces none of another node. At most
// compared_variables_max.
std::vector<const char*> VariableNames(const std::vector<ComparedNode>& nodes) {
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

// kCompared, then the files of --same, by path, and the communication variables
// that these nodes set. The entries refer to the nodes' facts.
std::vector<Compared> AllCompared(const std::vector<ComparedNode>& nodes) {
  std::vector<Compared> all(kCompared.begin(), kCompared.end());
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
  for (const char* const name : VariableNames(nodes)) {
    all.push_back({name, nullptr, kVariableAdvice});
  }
  return all;
}

// The comparison of one fact. `fact` must outlive it.
Compared ComparedOf(const std::string& fact) {
  for (const Compared& compared : kCompared) {
    if (compared.fact == fact) return compared;
  }
  const Compared compared = {fact.c_str(), nullptr, kVariableAdvice};
  if (!compared.is_file()) return compared;
  return {fact.c_str(), nullptr, IsFolder(fact) ? kFolderAdvice : kFileAdvice};
}

// The nodes that have one value. Sides are in the order of their first nodes;
// nodes that do not know the fact are in no side.
struct Side {
  std::string value;
  std::vector<const ComparedNode*> nodes;
};

std::vector<Side> SidesOf(const Compared& compared,
                          const std::vector<ComparedNode>& nodes) {
  std::vector<Side> sides;
  std::map<std::string, size_t> at;
  for (const ComparedNode& node : nodes) {
    const std::string value = compared.value_of(node);
    if (value.empty()) continue;
    const auto [found, fresh] = at.try_emplace(value, sides.size());
    if (fresh) sides.push_back({value, {}});
    sides[found->second].nodes.push_back(&node);
  }
  return sides;
}

// "7 InfiniBand; mlx5_3:1 DOWN", or with the details of each node where they
// differ: "7 InfiniBand; c: mlx5_3:1 DOWN; d: mlx5_5:1 DOWN".
std::string SideText(const Compared& compared, const Side& side) {
  if (compared.detail == nullptr) return side.value;
  std::vector<std::string> details;
  bool alike = true;
  for (const ComparedNode* node : side.nodes) {
    if (details.size() == kNodesNamedMax) break;
    details.push_back(compared.detail(*node));
    alike = alike && details.back() == details.front();
  }
  std::string text;
  for (size_t i = 0; i < details.size(); ++i) {
    if (details[i].empty() || (alike && i > 0)) continue;
    absl::StrAppend(&text, "; ",
                    alike ? "" : absl::StrCat(side.nodes[i]->node, ": "),
                    details[i]);
  }
  return Shortened(absl::StrCat(side.value, text));
}

v1::Difference DifferenceOf(const Compared& compared,
                            const std::vector<Side>& sides) {
  v1::Difference difference;
  difference.set_fact(compared.fact);
  difference.set_advice(compared.advice);
  difference.set_side_count(static_cast<uint32_t>(sides.size()));
  for (const Side& side : sides) {
    if (difference.sides_size() == kSidesMax) break;
    v1::DifferenceSide& told = *difference.add_sides();
    told.set_value(SideText(compared, side));
    told.set_node_count(static_cast<uint32_t>(side.nodes.size()));
    const size_t named = std::min(side.nodes.size(), kNodesNamedMax);
    for (size_t i = 0; i < named; ++i) told.add_nodes(side.nodes[i]->node);
  }
  return difference;
}

}  // namespace

std::vector<v1::Difference> FindDifferences(
    const std::vector<ComparedNode>& nodes, size_t reference) {
  std::vector<v1::Difference> differences;
  size_t variables = 0;
  for (const Compared& compared : AllCompared(nodes)) {
    std::vector<Side> sides = SidesOf(compared, nodes);
    if (sides.size() < 2) continue;
    if (compared.is_variable() &&
        ++variables > Limits::differing_variables_max) {
      --variables;
      break;
    }
    const std::string first = compared.value_of(nodes[reference]);
    std::stable_sort(sides.begin(), sides.end(),
                     [&](const Side& a, const Side& b) {
                       return std::pair(a.value == first, a.nodes.size()) >
                              std::pair(b.value == first, b.nodes.size());
                     });
    differences.push_back(DifferenceOf(compared, sides));
  }
  std::sort(differences.end() - static_cast<ptrdiff_t>(variables),
            differences.end(),
            [](const v1::Difference& a, const v1::Difference& b) {
              return a.fact() < b.fact();
            });
  return differences;
}

SharedFacts::SharedFacts(const std::vector<ComparedNode>& members) {
  std::vector<Compared> all = AllCompared(members);
  for (const Compared& compared : all) {
    if (compared.is_variable()) variables_.insert(compared.fact);
  }
  const bool all_variables = variables_.size() < Limits::compared_variables_max;
  for (const ComparedNode& member : members) {
    if (member.plan == nullptr) continue;
    for (const v1::PlannedVariable& planned : *member.plan) {
      if (!IsSharedVariable(planned.name()) ||
          !variables_.insert(planned.name()).second) {
        continue;
      }
      all.push_back({planned.name().c_str(), nullptr, kVariableAdvice});
    }
  }
  const auto take = [&](const Compared& compared) -> std::optional<Shared> {
    const std::vector<Side> sides = SidesOf(compared, members);
    if (sides.size() != 1) return std::nullopt;
    const bool planned =
        compared.is_variable() &&
        std::any_of(members.begin(), members.end(), [&](const auto& member) {
          return SetVariable(member, compared.fact) == nullptr &&
                 PlannedFor(member, compared.fact) != nullptr;
        });
    return Shared{sides.front().value, planned, DifferenceOf(compared, sides)};
  };
  for (const Compared& compared : all) {
    if (!compared.strict) continue;
    if (auto shared = take(compared)) shared_.push_back(*std::move(shared));
  }
  if (all_variables) unset_ = take({"", nullptr, kVariableAdvice});
}

std::optional<v1::Difference> SharedFacts::FindDifference(
    const ComparedNode& newcomer, bool strict) const {
  const auto differs =
      [&](const Shared& shared,
          const std::string& fact) -> std::optional<v1::Difference> {
    const Compared compared = ComparedOf(fact);
    if (!strict && !compared.required()) return std::nullopt;
    if (shared.planned && SetVariable(newcomer, fact) == nullptr) {
      return std::nullopt;
    }
    const std::string value = compared.value_of(newcomer);
    if (value.empty() || value == shared.value) return std::nullopt;
    v1::Difference difference = shared.difference;
    difference.set_fact(fact);
    const v1::Difference own = DifferenceOf(compared, {{value, {&newcomer}}});
    *difference.add_sides() = own.sides(0);
    difference.set_side_count(2);
    return difference;
  };
  for (const Shared& shared : shared_) {
    if (auto found = differs(shared, shared.difference.fact())) return found;
  }
  if (!unset_.has_value()) return std::nullopt;
  for (const char* const name : VariableNames({newcomer})) {
    if (variables_.contains(name)) continue;
    if (auto found = differs(*unset_, name)) return found;
  }
  return std::nullopt;
}

size_t MostCommonNode(const std::vector<ComparedNode>& nodes) {
  // By node: how many times it is in a minority, and how many facts it knows.
  std::map<std::string_view, std::pair<size_t, size_t>> counts;
  for (const Compared& compared : AllCompared(nodes)) {
    const std::vector<Side> sides = SidesOf(compared, nodes);
    size_t most = 0;
    for (const Side& side : sides) most = std::max(most, side.nodes.size());
    for (const Side& side : sides) {
      for (const ComparedNode* node : side.nodes) {
        auto& [minorities, known] = counts[node->node];
        minorities += side.nodes.size() != most;
        ++known;
      }
    }
  }
  size_t best = 0;
  for (size_t i = 1; i < nodes.size(); ++i) {
    const auto& [minorities, known] = counts[nodes[i].node];
    const auto& [minorities_best, known_best] = counts[nodes[best].node];
    if (std::pair(minorities, known_best) < std::pair(minorities_best, known)) {
      best = i;
    }
  }
  return best;
}

std::string DifferenceText(const v1::Difference& difference) {
  std::vector<std::string> sides;
  for (const v1::DifferenceSide& side : difference.sides()) {
    const uint32_t more =
        side.node_count() - static_cast<uint32_t>(side.nodes_size());
    sides.push_back(
        absl::StrCat(side.value(), " on ", absl::StrJoin(side.nodes(), ", "),
                     more > 0 ? absl::StrCat(" and ", more, " more") : ""));
  }
  const uint32_t more =
      difference.side_count() - static_cast<uint32_t>(difference.sides_size());
  return absl::StrCat(
      difference.fact(), ": ", absl::StrJoin(sides, "; "),
      more > 0 ? absl::StrCat("; and ", more, " other values") : "");
}

namespace {

// The reference's side. If it cannot use the file and does not rule, the
// largest side that can.
const Side& RightSide(const std::vector<Side>& sides,
                      const std::string& of_reference, bool rules) {
  const auto own = std::find_if(
      sides.begin(), sides.end(),
      [&](const Side& side) { return side.value == of_reference; });
  if (rules || !CannotUse(of_reference)) return *own;
  const auto best = std::max_element(
      sides.begin(), sides.end(), [](const Side& a, const Side& b) {
        return std::pair(!CannotUse(a.value), a.nodes.size()) <
               std::pair(!CannotUse(b.value), b.nodes.size());
      });
  return CannotUse(best->value) ? *own : *best;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> NodesThatDiffer(
    const std::vector<ComparedNode>& nodes,
    const std::vector<v1::Difference>& differences, size_t reference,
    bool rules, bool strict) {
  if (differences.empty()) return {};
  std::map<std::string_view, const v1::Difference*> first;
  const std::vector<Compared> all = AllCompared(nodes);
  for (const v1::Difference& difference : differences) {
    const auto compared = std::find_if(
        all.begin(), all.end(),
        [&](const Compared& each) { return each.fact == difference.fact(); });
    const std::string of_reference = compared->value_of(nodes[reference]);
    if (!compared->strict || of_reference.empty()) continue;
    if (!strict && !compared->required()) continue;
    const std::vector<Side> sides = SidesOf(*compared, nodes);
    const Side& right = RightSide(sides, of_reference, rules);
    for (const Side& side : sides) {
      const bool outvoted = right.nodes.size() > side.nodes.size();
      if (&side == &right || !(rules || outvoted || CannotUse(side.value))) {
        continue;
      }
      for (const ComparedNode* node : side.nodes) {
        first.try_emplace(node->node, &difference);
      }
    }
  }
  std::vector<std::pair<std::string, std::string>> differing;
  for (const ComparedNode& node : nodes) {
    const auto at = first.find(node.node);
    if (at == first.end()) continue;
    differing.emplace_back(node.node, DifferenceText(*at->second));
  }
  return differing;
}

}  // namespace rollcall
