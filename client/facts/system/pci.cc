#include "client/facts/system/pci.h"

#include <limits.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/facts/system/system.h"

namespace rollcall {
namespace {

// Longer than any real chain of bridges.
constexpr size_t kDepthMax = 16;

bool IsHex(absl::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return absl::ascii_isxdigit(c); });
}

// Whether `text` has the form DDDD:BB:DD.F.
bool IsPciAddress(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  return parts.size() == 3 && parts[0].size() >= 4 && parts[0].size() <= 8 &&
         IsHex(parts[0]) && parts[1].size() == 2 && IsHex(parts[1]) &&
         parts[2].size() == 4 && parts[2][2] == '.' &&
         IsHex(parts[2].substr(0, 2)) && IsHex(parts[2].substr(3));
}

// The number of leading bridges that two paths share.
size_t SharedBridges(absl::string_view a, absl::string_view b) {
  const std::vector<absl::string_view> left = absl::StrSplit(a, '/');
  const std::vector<absl::string_view> right = absl::StrSplit(b, '/');
  // The last component of each path is the device itself.
  const size_t most = std::min(left.size(), right.size()) - 1;
  size_t shared = 0;
  while (shared < most && left[shared] == right[shared]) ++shared;
  return shared;
}

// The ID in a file of sysfs; 0: it cannot be read.
uint32_t ReadId(const std::string& path) {
  uint32_t id = 0;
  const std::string text = ReadSmallFile(path, 32);
  return absl::SimpleHexAtoi(text, &id) ? id : 0;
}

}  // namespace

bool IsRdma(const PciIds& ids) {
  // From linux/pci_ids.h: PCI_CLASS_NETWORK_INFINIBAND, PCI_BASE_CLASS_NETWORK,
  // PCI_VENDOR_ID_MELLANOX, PCI_VENDOR_ID_AMAZON. The IDs of EFA's devices
  // begin at 0xefa0 (efa_main.c).
  return ids.class_code >> 8 == 0x0207 ||
         (ids.vendor == 0x15b3 && ids.class_code >> 16 == 0x02) ||
         (ids.vendor == 0x1d0f && (ids.device & 0xfff0) == 0xefa0);
}

bool IsNvidiaGpu(const PciIds& ids) {
  return ids.vendor == 0x10de && ids.class_code >> 16 == 0x03;
}

std::string FindPciDevice(const std::string& root,
                          bool (*wanted)(const PciIds& ids)) {
  namespace fs = std::filesystem;
  std::error_code failed;
  const fs::path folder = root + "/sys/bus/pci/devices";
  std::string first;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end;
       at.increment(failed)) {
    const std::string device = at->path();
    const PciIds ids = {ReadId(device + "/vendor"), ReadId(device + "/device"),
                        ReadId(device + "/class")};
    const std::string name = at->path().filename();
    if (wanted(ids) && (first.empty() || name < first)) first = name;
  }
  return first;
}

std::string PciPath(absl::string_view sysfs_folder) {
  std::vector<absl::string_view> path;
  bool below_root = false;
  for (absl::string_view part : absl::StrSplit(sysfs_folder, '/')) {
    if (!below_root) {
      // The root has the form pciDDDD:BB.
      const size_t colon = part.find(':');
      below_root = absl::ConsumePrefix(&part, "pci") && colon != part.npos &&
                   IsHex(part.substr(0, colon - 3));
    } else if (IsPciAddress(part) && path.size() < kDepthMax) {
      path.push_back(part);
    } else {
      break;
    }
  }
  return absl::StrJoin(path, "/");
}

std::string PciAddress(uint32_t domain, uint32_t bus, uint32_t device,
                       uint32_t function) {
  return absl::StrFormat("%04x:%02x:%02x.%x", domain, bus, device, function);
}

std::string ReadPciPath(const std::string& link) {
  char folder[PATH_MAX];
  if (realpath(link.c_str(), folder) == nullptr) return "";
  return PciPath(folder);
}

std::vector<std::string> NearHcas(
    absl::string_view gpu_path, int32_t gpu_numa_node,
    const google::protobuf::RepeatedPtrField<v1::InfinibandPort>& ports) {
  size_t longest = 0;
  std::vector<std::string> on_switch;
  std::vector<std::string> on_node;
  const auto add = [](std::vector<std::string>& names,
                      const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      names.push_back(name);
    }
  };
  for (const v1::InfinibandPort& port : ports) {
    if (port.numa_node() == gpu_numa_node && gpu_numa_node >= 0) {
      add(on_node, port.device());
    }
    if (gpu_path.empty() || port.pci().empty()) continue;
    const size_t shared = SharedBridges(gpu_path, port.pci());
    if (shared > longest) on_switch.clear();
    longest = std::max(longest, shared);
    if (shared > 0 && shared == longest) add(on_switch, port.device());
  }
  return on_switch.empty() ? on_node : on_switch;
}

}  // namespace rollcall
