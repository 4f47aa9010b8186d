#include "client/facts/devices/infiniband.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/facts/devices/verbs_merge.h"
#include "client/facts/system/missing.h"
#include "client/facts/system/network.h"
#include "client/facts/system/pci.h"
#include "client/facts/system/system.h"
#include "daemon/base/text/address_text.h"
#include "daemon/core/admission/admission.h"
#include "daemon/core/ranking.h"

namespace rollcall {
namespace {

constexpr size_t kNamesMax = 4096;
constexpr size_t kLineBytesMax = 256;

// The names in a folder, in natural order; none if the folder does not exist.
std::vector<std::string> FolderNames(const std::string& folder) {
  std::vector<std::string> names;
  DIR* dir = opendir(folder.c_str());
  if (dir == nullptr) return names;
  while (const dirent* entry = readdir(dir)) {
    if (entry->d_name[0] == '.' || names.size() >= kNamesMax) continue;
    names.emplace_back(entry->d_name);
  }
  closedir(dir);
  std::sort(names.begin(), names.end(), NaturalLess);
  return names;
}

// Why a folder cannot be listed; empty: it can.
std::string WhyUnlisted(const std::string& folder) {
  DIR* dir = opendir(folder.c_str());
  if (dir == nullptr) return absl::StrCat(folder, ": ", std::strerror(errno));
  closedir(dir);
  return "";
}

std::string ReadLine(const std::string& path) {
  return PlainText(
      absl::StripAsciiWhitespace(ReadSmallFile(path, kLineBytesMax)));
}

// A number in decimal, or in hex after 0x.
std::optional<uint32_t> ReadNumber(const std::string& path) {
  const std::string line = ReadLine(path);
  absl::string_view text = line;
  uint32_t number = 0;
  const bool read = absl::ConsumePrefix(&text, "0x")
                        ? absl::SimpleHexAtoi(text, &number)
                        : absl::SimpleAtoi(text, &number);
  return read ? std::make_optional(number) : std::nullopt;
}

// The last component of a link's target.
std::string LinkName(const std::string& link) {
  char target[4096];
  const ssize_t size = readlink(link.c_str(), target, sizeof(target));
  if (size <= 0) return "";
  const absl::string_view path(target, static_cast<size_t>(size));
  return PlainText(path.substr(path.rfind('/') + 1));
}

std::string ClassFolder(const std::string& root) {
  return absl::StrCat(root == "/" ? "" : root, "/sys/class/infiniband");
}

std::string PortFolder(const std::string& root,
                       const v1::InfinibandPort& port) {
  return absl::StrCat(ClassFolder(root), "/", port.device(), "/ports/",
                      port.port());
}

// `name`, or empty if a Hello may not carry it.
std::string InterfaceName(const std::string& name) {
  return IsInterfaceName(name) ? name : "";
}

// The interface of a port, from the device's own folder. If the link layer is
// InfiniBand, this is the IPoIB interface. dev_port counts ports from 0; older
// kernels have dev_id instead.
std::string DeviceInterface(const std::string& device,
                            const v1::InfinibandPort& port) {
  constexpr uint32_t kArphrdInfiniband = 32;  // linux/if_arp.h
  const std::string folder = device + "/device/net/";
  for (const std::string& name : FolderNames(folder)) {
    const std::string interface = folder + name;
    const bool is_ipoib = ReadNumber(interface + "/type") == kArphrdInfiniband;
    if (is_ipoib != (port.link_layer() == "InfiniBand")) continue;
    const uint32_t place =
        std::max(ReadNumber(interface + "/dev_port").value_or(0),
                 ReadNumber(interface + "/dev_id").value_or(0));
    if (place + 1 == port.port()) return InterfaceName(name);
  }
  return "";
}

// Reads the values that all ports of a device share.
v1::InfinibandPort ReadDevice(const std::string& device) {
  v1::InfinibandPort port;
  port.set_firmware(ReadLine(device + "/fw_ver"));
  // Only rdma_rxe has the file `parent`, which names the interface that it
  // uses. Its `device`, if there is one, is then that interface's hardware
  // (rxe_verbs.c).
  if (const std::string parent = ReadLine(device + "/parent");
      !parent.empty()) {
    port.set_driver("rdma_rxe");
    port.set_net_device(InterfaceName(parent));
  } else {
    port.set_driver(LinkName(device + "/device/driver"));
  }
  port.set_pci(PlainText(ReadPciPath(device + "/device")));
  int32_t node = -1;
  if (!absl::SimpleAtoi(ReadLine(device + "/device/numa_node"), &node) ||
      node < -1 || node > UINT16_MAX) {
    node = -1;
  }
  port.set_numa_node(node);
  return port;
}

void ReadPort(const std::string& device, v1::InfinibandPort& port) {
  const std::string folder = absl::StrCat(device, "/ports/", port.port());
  port.set_state(StateWord(ReadLine(folder + "/state")));
  port.set_phys_state(StateWord(ReadLine(folder + "/phys_state")));
  const std::string layer = ReadLine(folder + "/link_layer");
  // The kernel writes "Unknown" for EFA; libibverbs calls the same state
  // unspecified.
  port.set_link_layer(layer != "Unknown"       ? layer
                      : port.driver() == "efa" ? "Unspecified"
                                               : "");
  port.set_rate_gbps(RateGbps(ReadLine(folder + "/rate")));
  if (layer == "InfiniBand") {
    const auto lid = [&](const char* name) {
      return std::min<uint32_t>(ReadNumber(folder + name).value_or(0),
                                UINT16_MAX);
    };
    port.set_lid(lid("/lid"));
    port.set_sm_lid(lid("/sm_lid"));
  }
  if (port.net_device().empty()) {
    port.set_net_device(DeviceInterface(device, port));
  }
}

// The name of the device's uverbs node; empty: the kernel has none.
std::string UverbsName(const std::string& root, const std::string& device) {
  const std::string folder =
      absl::StrCat(root == "/" ? "" : root, "/sys/class/infiniband_verbs/");
  for (const std::string& name : FolderNames(folder)) {
    if (ReadLine(absl::StrCat(folder, name, "/ibdev")) == device) return name;
  }
  return "";
}

}  // namespace

std::string ReadPortState(const std::string& root, const std::string& device,
                          uint32_t port) {
  const std::string folder =
      absl::StrCat(ClassFolder(root), "/", device, "/ports/", port);
  const std::string state = StateWord(ReadLine(folder + "/state"));
  const uint32_t rate = RateGbps(ReadLine(folder + "/rate"));
  if (state.empty()) return "gone";
  return rate == 0 ? state : absl::StrCat(state, ", ", rate, " Gb/s");
}

void SayWhyNoPort(const std::string& root, v1::Facts& facts) {
  const std::string prefix = root == "/" ? "" : root;
  constexpr char kFact[] = "infiniband";
  if (access((prefix + "/sys/class").c_str(), F_OK) != 0) {
    return AddMissing(facts, kFact, "/sys/class is not there",
                      "`mount -t sysfs sysfs /sys`");
  }
  const std::string folder = ClassFolder(root);
  const std::string unlisted = WhyUnlisted(folder);
  if (!unlisted.empty() && access(folder.c_str(), F_OK) == 0) {
    return AddMissing(facts, kFact, unlisted, "");
  }
  if (const auto names = FolderNames(folder); !names.empty()) {
    return AddMissing(
        facts, kFact,
        absl::StrCat("/sys/class/infiniband shows no port of ", names[0]), "");
  }
  const std::string device = FindPciDevice(prefix, IsRdma);
  if (device.empty()) return;
  AddMissing(facts, kFact,
             absl::StrCat("the PCI device ", device,
                          " can carry RDMA, and /sys/class/infiniband does not "
                          "show it"),
             "load its RDMA driver on the host (mlx5_ib, mlx4_ib, efa) with "
             "ib_uverbs, if the device is to carry RDMA");
}

void AddUnreadFields(const std::string& root, const VerbsAnswer& verbs,
                     v1::Facts& facts) {
  std::set<std::pair<std::string, uint32_t>> told;
  for (const VerbsDevice& device : verbs.devices) {
    for (const v1::InfinibandPort& port : device.ports) {
      told.emplace(device.name, port.port());
    }
  }
  for (const v1::InfinibandPort& port : facts.infiniband()) {
    const std::string folder = PortFolder(root, port);
    const auto lack = [&](const char* field, const char* file) {
      AddMissing(facts, absl::StrCat("infiniband.", port.device(), ".", field),
                 WhyUnread(folder + file), "");
    };
    if (port.state().empty()) lack("state", "/state");
    if (port.phys_state().empty()) lack("phys_state", "/phys_state");
    if (port.link_layer().empty()) lack("link_layer", "/link_layer");
    if (port.rate_gbps() == 0) lack("rate_gbps", "/rate");
    // A LID of 0 may be valid or not read, so the file is read again.
    if (port.link_layer() == "InfiniBand" &&
        !told.contains({port.device(), port.port()})) {
      if (!ReadNumber(folder + "/lid")) lack("lid", "/lid");
      if (!ReadNumber(folder + "/sm_lid")) lack("sm_lid", "/sm_lid");
    }
    const std::string unlisted = WhyUnlisted(folder + "/gids");
    if (port.gids().empty() && !unlisted.empty()) {
      AddMissing(facts, absl::StrCat("infiniband.", port.device(), ".gids"),
                 unlisted, "");
    }
  }
}

std::string StateWord(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits(": ", 1));
  uint32_t number = 0;
  if (!absl::SimpleAtoi(parts.first, &number)) return "";
  const absl::string_view word = absl::StripAsciiWhitespace(parts.second);
  // The kernel writes "<unknown>" or "UNKNOWN" for a number that has no name.
  if (absl::StartsWith(word, "<") || word == "UNKNOWN") return "";
  return PlainText(word);
}

uint32_t RateGbps(absl::string_view text) {
  const size_t space = text.find(' ');
  if (space == text.npos || !absl::StartsWith(text.substr(space), " Gb/sec")) {
    return 0;
  }
  double rate = 0;
  if (!absl::SimpleAtod(text.substr(0, space), &rate)) return 0;
  return rate > 0 && rate < 1e6 ? static_cast<uint32_t>(rate) : 0;
}

std::string GidTextOfBytes(const unsigned char* bytes) {
  return AddressText({reinterpret_cast<const char*>(bytes), sizeof(in6_addr)});
}

std::string GidText(absl::string_view text) {
  in6_addr address{};
  const std::string stripped(absl::StripAsciiWhitespace(text));
  if (inet_pton(AF_INET6, stripped.c_str(), &address) != 1) return "";
  const bool is_set = std::any_of(address.s6_addr + 8, address.s6_addr + 16,
                                  [](unsigned char c) { return c != 0; });
  return is_set ? GidTextOfBytes(address.s6_addr) : "";
}

std::vector<v1::InfinibandPort> ReadInfinibandPorts(const std::string& root) {
  std::vector<v1::InfinibandPort> ports;
  for (const std::string& name : FolderNames(ClassFolder(root))) {
    const std::string device = absl::StrCat(ClassFolder(root), "/", name);
    const v1::InfinibandPort common = ReadDevice(device);
    for (const std::string& number : FolderNames(device + "/ports")) {
      v1::InfinibandPort port = common;
      uint32_t place = 0;
      if (!absl::SimpleAtoi(number, &place) || place > UINT16_MAX ||
          ports.size() >= FactsLimits::devices_max) {
        continue;
      }
      port.set_device(PlainText(name));
      port.set_port(place);
      ReadPort(device, port);
      ports.push_back(std::move(port));
    }
  }
  return ports;
}

void SetNetDevice(v1::InfinibandPort& port) {
  if (port.link_layer() == "InfiniBand") return;
  for (const v1::Gid& gid : port.gids()) {
    if (gid.net_device().empty()) continue;
    port.set_net_device(gid.net_device());
    return;
  }
}

void ReadGids(const std::string& root, v1::InfinibandPort& port) {
  const std::string folder = PortFolder(root, port);
  for (const std::string& name : FolderNames(absl::StrCat(folder, "/gids"))) {
    uint32_t index = 0;
    const std::string address =
        GidText(ReadLine(absl::StrCat(folder, "/gids/", name)));
    if (!absl::SimpleAtoi(name, &index) || index > UINT16_MAX ||
        address.empty() ||
        port.gids_size() >= static_cast<int>(FactsLimits::devices_max)) {
      continue;
    }
    v1::Gid& gid = *port.add_gids();
    gid.set_index(index);
    gid.set_address(address);
    // The kernel has one text for two types; the link layer tells them apart.
    const std::string type =
        ReadLine(absl::StrCat(folder, "/gid_attrs/types/", name));
    gid.set_type(type != "IB/RoCE v1"                ? type
                 : port.link_layer() == "InfiniBand" ? "IB"
                                                     : "RoCE v1");
    gid.set_net_device(InterfaceName(
        ReadLine(absl::StrCat(folder, "/gid_attrs/ndevs/", name))));
  }
  SetNetDevice(port);
}

Unusable WhyNotOpened(const std::string& root, const std::string& device) {
  const std::string uverbs = UverbsName(root, device);
  if (uverbs.empty()) return {};
  const std::string node = absl::StrCat("/dev/infiniband/", uverbs);
  const std::string path = root == "/" ? node : root + node;
  // Opens the node, because a container's device cgroup may refuse what the
  // file mode allows.
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd >= 0) {
    close(fd);
    return {};
  }
  const int error = errno;
  return {error == ENOENT                     ? Unusable::Why::kNoNode
          : error == EACCES || error == EPERM ? Unusable::Why::kNotPermitted
                                              : Unusable::Why::kOther,
          absl::StrCat(node, ": ", std::strerror(error))};
}

Unusable WhyNotListed(const std::string& root, const v1::InfinibandPort& port) {
  if (UverbsName(root, port.device()).empty()) {
    return {Unusable::Why::kNoKernel,
            absl::StrCat("/sys/class/infiniband_verbs has no entry for ",
                         port.device(), ": no process can open it")};
  }
  const Unusable node = WhyNotOpened(root, port.device());
  if (node.why != Unusable::Why::kUsable) return node;
  return {Unusable::Why::kNoProvider,
          absl::StrCat("libibverbs has no provider for ", port.driver(), " (",
                       "lib", ProviderOf(port.driver()), "-rdmav*.so)")};
}

bool HasEfa(const v1::Facts& facts) {
  return std::any_of(
      facts.infiniband().begin(), facts.infiniband().end(),
      [](const v1::InfinibandPort& port) { return port.driver() == "efa"; });
}

void CheckEfaPlugin(const std::string& net_plugin,
                    const std::function<bool(const std::string&)>& opens,
                    v1::Facts& facts) {
  if (!HasEfa(facts)) return;
  std::vector<std::string> names;
  if (!net_plugin.empty()) {
    names = {net_plugin, absl::StrCat("libnccl-net-", net_plugin, ".so")};
  }
  names.insert(names.end(), {"libnccl-net.so", "libnccl-net-ofi.so"});
  for (const std::string& name : names) {
    if (opens(name)) return;
  }
  AddMissing(facts, kEfaPluginFact,
             absl::StrCat("NCCL reaches EFA through a plugin, and none of ",
                          absl::StrJoin(names, ", "), " can be opened"),
             "install aws-ofi-nccl (part of the EFA installer), with its "
             "folder in LD_LIBRARY_PATH");
}

}  // namespace rollcall
