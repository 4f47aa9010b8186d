#include "client/agent/nccl/network_settings.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "daemon/base/text/nccl_list.h"
#include "daemon/core/admission/job_variables.h"
#include "daemon/core/limits.h"
#include "daemon/core/network_plan/comparison/fabric.h"

namespace rollcall {
namespace {

constexpr size_t kConfBytesMax = 64 << 10;
// Limits the interfaces or ports that a warning names.
constexpr size_t kSettingsNamedMax = 8;

// Excludes variables that load or run code.
bool IsNetworkSetting(const v1::PlannedVariable& variable) {
  const std::string& name = variable.name();
  const bool known = absl::StartsWith(name, "NCCL_SOCKET_") ||
                     absl::StartsWith(name, "NCCL_IB_") ||
                     name == "NCCL_HOSTID" || name == "UCX_NET_DEVICES" ||
                     name == "GLOO_SOCKET_IFNAME" || name == "TP_SOCKET_IFNAME";
  const bool plain = name.find('=') == std::string::npos &&
                     name.find('\0') == std::string::npos &&
                     variable.value().find('\0') == std::string::npos;
  return known && plain;
}

// A value that the user has set, and where it was set.
struct OwnSetting {
  std::string value;
  std::string where;
};

class SettingsChooser {
 public:
  SettingsChooser(const v1::World& world, const v1::Member& row,
                  const std::vector<std::string>& environment,
                  const NetworkOptions& options)
      : world_(world), row_(row), options_(options) {
    for (const auto& [name, value] : options.job_variables) {
      own_.insert({name, {value, "--env of the launcher"}});
    }
    for (const std::string& entry : environment) {
      const size_t at = entry.find('=');
      if (at == std::string::npos || at == 0) continue;
      own_.insert({entry.substr(0, at), {entry.substr(at + 1), "environment"}});
    }
    for (const auto& [name, setting] : options.conf) {
      own_.insert({name, {setting.first, setting.second}});
    }
  }

  NetworkSettings Choose() {
    if (options_.nccl_env != NcclEnv::kNone) {
      for (const v1::PlannedVariable& variable : row_.plan()) {
        if (IsNetworkSetting(variable)) Set(variable.name(), variable.value());
      }
    }
    if (options_.nccl_env == NcclEnv::kAll && !world_.one_machine()) SetAll();
    if (!world_.one_machine()) {
      JudgeInterfaces("NCCL_SOCKET_IFNAME");
      JudgeFamily();
      JudgeGloo();
      if (UsesIb()) JudgePorts();
      if (UsesIb()) JudgeGidIndex();
    }
    return std::move(settings_);
  }

 private:
  // Returns the user's value; null: unset or empty. NCCL and Gloo treat an
  // empty value as unset (NCCL: strlen in ncclFindInterfaces and
  // ncclLoadParam).
  const OwnSetting* OwnOf(const std::string& name) const {
    const auto at = own_.find(name);
    return at == own_.end() || at->second.value.empty() ? nullptr : &at->second;
  }

  void Set(const std::string& name, const std::string& value) {
    if (OwnOf(name) != nullptr || !set_.insert(name).second) return;
    if (absl::StartsWith(name, "NCCL_IB_") && !UsesIb()) return;
    if (name == "NCCL_SOCKET_FAMILY" && !MayUsePeerInterface()) return;
    settings_.variables.emplace_back(name, value);
  }

  // Whether NCCL uses its own InfiniBand transport (unset NCCL_NET: it may). A
  // network plugin has its own settings.
  bool UsesIb() const {
    const OwnSetting* net = OwnOf("NCCL_NET");
    return net == nullptr || net->value.empty() ||
           absl::EqualsIgnoreCase(net->value, "IB");
  }

  // The interface that has the address at which peers reach this node.
  std::string PeerInterface() const {
    for (const v1::Interface& interface : options_.facts.interfaces()) {
      for (const v1::InterfaceAddress& address : interface.addresses()) {
        if (address.address() == row_.address()) return interface.name();
      }
    }
    return "";
  }

  // Whether NCCL may use the peer interface, which has an address of the plan's
  // family. The user may have named only other interfaces.
  bool MayUsePeerInterface() const {
    const OwnSetting* own = OwnOf("NCCL_SOCKET_IFNAME");
    return own == nullptr || own->value.empty() ||
           NcclListSelects(own->value, PeerInterface(), 0);
  }

  std::vector<const v1::MemberPort*> Rails() const {
    std::vector<const v1::MemberPort*> rails;
    for (const v1::MemberPort& port : row_.ports()) {
      if (port.has_rail()) rails.push_back(&port);
    }
    return rails;
  }

  // Also sets what NCCL would find by itself.
  void SetAll() {
    if (const std::string interface = PeerInterface(); !interface.empty()) {
      Set("NCCL_SOCKET_IFNAME", absl::StrCat("=", interface));
    }
    std::vector<std::string> names;
    std::set<uint32_t> indices;
    bool roce = false;
    for (const v1::MemberPort* port : Rails()) {
      names.push_back(absl::StrCat(port->device(), ":", port->port()));
      indices.insert(port->gid().index());
      roce = port->link_layer() == "Ethernet";
    }
    if (names.empty()) return;
    const std::string list = absl::StrJoin(names, ",");
    Set("NCCL_IB_HCA", absl::StrCat("=", list));
    Set("UCX_NET_DEVICES", list);
    if (roce && indices.size() == 1) {
      Set("NCCL_IB_GID_INDEX", absl::StrCat(*indices.begin()));
    }
  }

  void Warn(const std::string& name, const OwnSetting& own,
            const std::string& text) {
    settings_.warnings.push_back(
        absl::StrCat(name, "=", own.value, " (", own.where, ") ", text));
  }

  std::string InterfaceNames() const {
    std::vector<std::string> names;
    for (const v1::Interface& interface : options_.facts.interfaces()) {
      if (!interface.up() || interface.loopback()) continue;
      if (names.size() < kSettingsNamedMax) names.push_back(interface.name());
    }
    return names.empty() ? "none" : absl::StrJoin(names, ", ");
  }

  void JudgeInterfaces(const std::string& name) {
    const OwnSetting* own = OwnOf(name);
    if (own == nullptr || own->value.empty()) return;
    const auto& all = options_.facts.interfaces();
    const bool any =
        std::any_of(all.begin(), all.end(), [&](const v1::Interface& each) {
          return each.up() && NcclListSelects(own->value, each.name(), 0);
        });
    const std::string peers = PeerInterface();
    if (!any && !all.empty()) {
      Warn(name, *own,
           absl::StrCat("selects no interface of this node that is up; it has ",
                        InterfaceNames()));
    } else if (!peers.empty() && !NcclListSelects(own->value, peers, 0)) {
      Warn(name, *own,
           absl::StrCat("leaves out ", peers, ", where the other nodes reach ",
                        "this one at ", row_.address()));
    }
  }

  void JudgeFamily() {
    const OwnSetting* own = OwnOf("NCCL_SOCKET_FAMILY");
    if (own == nullptr) return;
    const bool ipv6 = absl::StrContains(row_.address(), ':');
    if (own->value != (ipv6 ? "AF_INET" : "AF_INET6")) return;
    Warn("NCCL_SOCKET_FAMILY", *own,
         absl::StrCat("leaves out ", row_.address(),
                      ", where the other nodes reach this one"));
  }

  void JudgeGloo() {
    const OwnSetting* own = OwnOf("GLOO_SOCKET_IFNAME");
    if (own == nullptr || own->value.empty()) return;
    const auto& all = options_.facts.interfaces();
    for (const absl::string_view wanted : absl::StrSplit(own->value, ',')) {
      const bool there =
          std::any_of(all.begin(), all.end(), [&](const v1::Interface& each) {
            return each.up() && each.name() == wanted;
          });
      if (there || all.empty()) continue;
      return Warn("GLOO_SOCKET_IFNAME", *own,
                  absl::StrCat("names an interface that is not up here; there "
                               "is ",
                               InterfaceNames()));
    }
  }

  void JudgePorts() {
    const OwnSetting* own = OwnOf("NCCL_IB_HCA");
    if (own == nullptr || own->value.empty()) return;
    const auto& ports = options_.facts.infiniband();
    std::vector<std::string> names;
    for (const v1::InfinibandPort& port : ports) {
      if (!IsActive(port)) continue;
      if (NcclListSelects(own->value, port.device(), port.port())) return;
      if (names.size() < kSettingsNamedMax) {
        names.push_back(absl::StrCat(port.device(), ":", port.port()));
      }
    }
    Warn("NCCL_IB_HCA", *own,
         absl::StrCat("selects no active RDMA port of this node; it has ",
                      names.empty() ? "none" : absl::StrJoin(names, ", ")));
  }

  void JudgeGidIndex() {
    const OwnSetting* own = OwnOf("NCCL_IB_GID_INDEX");
    uint32_t index = 0;
    if (own == nullptr || !absl::SimpleAtoi(own->value, &index)) return;
    const OwnSetting* list = OwnOf("NCCL_IB_HCA");
    for (const v1::InfinibandPort& port : options_.facts.infiniband()) {
      if (!IsActive(port) || port.link_layer() != "Ethernet") continue;
      if (list != nullptr &&
          !NcclListSelects(list->value, port.device(), port.port())) {
        continue;
      }
      const auto gid = std::find_if(
          port.gids().begin(), port.gids().end(),
          [&](const v1::Gid& each) { return each.index() == index; });
      const bool good = gid != port.gids().end() && gid->type() == "RoCE v2" &&
                        !absl::StartsWith(gid->address(), "fe80:");
      const v1::Gid* right = PeerGid(port);
      if (good || right == nullptr) continue;
      return Warn(
          "NCCL_IB_GID_INDEX", *own,
          absl::StrCat("is ",
                       gid == port.gids().end()
                           ? "not there"
                           : absl::StrCat(gid->type(), " ", gid->address()),
                       " on ", port.device(), ":", port.port(),
                       "; RoCE v2 with an address is at ", right->index()));
    }
  }

  const v1::World& world_;
  const v1::Member& row_;
  const NetworkOptions& options_;
  std::map<std::string, OwnSetting> own_;
  std::set<std::string> set_;
  NetworkSettings settings_;
};

std::string EnvironmentValue(const std::vector<std::string>& environment,
                             absl::string_view name) {
  for (const std::string& entry : environment) {
    if (entry.size() > name.size() && entry[name.size()] == '=' &&
        absl::StartsWith(entry, name)) {
      return entry.substr(name.size() + 1);
    }
  }
  return "";
}

}  // namespace

NetworkSettings SettingsFor(const v1::World& world, uint32_t node_rank,
                            const std::vector<std::string>& environment,
                            const NetworkOptions& options) {
  return SettingsChooser(world, world.members(static_cast<int>(node_rank)),
                         environment, options)
      .Choose();
}

std::map<std::string, std::string> JobVariables(
    const v1::JobSettings& settings, std::vector<std::string>& refused) {
  std::map<std::string, std::string> variables;
  for (const v1::JobVariable& variable : settings.environment()) {
    if (variables.size() + refused.size() == Limits::job_variables_max) break;
    if (absl::Status good = AdmitJobVariable(variable); !good.ok()) {
      refused.push_back(absl::StrCat("not taken from the daemon: ",
                                     std::string(good.message())));
      continue;
    }
    variables.emplace(variable.name(), variable.value());
  }
  return variables;
}

std::map<std::string, std::pair<std::string, std::string>> ReadNcclConf(
    const std::vector<std::string>& environment) {
  std::vector<std::string> paths;
  const std::string named = EnvironmentValue(environment, "NCCL_CONF_FILE");
  const std::string home = EnvironmentValue(environment, "HOME");
  if (!named.empty()) {
    paths.push_back(named);
  } else {
    if (!home.empty()) paths.push_back(home + "/.nccl.conf");
    // NCCL up to 2.28 asks the user database; later versions use HOME.
    const passwd* user = getpwuid(getuid());
    if (user != nullptr && user->pw_dir != nullptr && user->pw_dir != home) {
      paths.push_back(absl::StrCat(user->pw_dir, "/.nccl.conf"));
    }
  }
  paths.push_back("/etc/nccl.conf");
  std::map<std::string, std::pair<std::string, std::string>> conf;
  for (const std::string& path : paths) {
    // Opening a FIFO at this path would block, because it has no writer.
    struct stat found;
    if (stat(path.c_str(), &found) != 0 || !S_ISREG(found.st_mode)) continue;
    std::ifstream file(path);
    std::string text(kConfBytesMax, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(
        static_cast<size_t>(std::max<std::streamsize>(0, file.gcount())));
    for (const absl::string_view line : absl::StrSplit(text, '\n')) {
      const size_t at = line.find('=');
      if (at == absl::string_view::npos || absl::StartsWith(line, "#"))
        continue;
      // As in NCCL, blanks are part of the name and of the value.
      const std::string name(line.substr(0, at));
      if (name.empty()) continue;
      conf.insert({name, {std::string(line.substr(at + 1)), path}});
    }
  }
  return conf;
}

}  // namespace rollcall
