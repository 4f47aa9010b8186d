#include "client/facts/devices/gpu.h"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/facts/system/missing.h"
#include "client/facts/system/pci.h"
#include "client/facts/system/system.h"

namespace rollcall {
namespace {

constexpr uint32_t kDevicesMax = 1024;

// The number of entries for which `wanted` is true; nullopt: the folder does
// not exist.
template <typename Wanted>
std::optional<uint32_t> CountEntries(const std::string& folder, Wanted wanted) {
  DIR* dir = opendir(folder.c_str());
  if (dir == nullptr) return std::nullopt;
  uint32_t count = 0;
  while (const dirent* entry = readdir(dir)) {
    if (wanted(absl::string_view(entry->d_name)) && count < kDevicesMax)
      ++count;
  }
  closedir(dir);
  return count;
}

std::optional<absl::string_view> Variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return value;
}

// GPU-<uuid> or MIG-<uuid>; a prefix of a UUID is enough for CUDA.
bool IsUuid(absl::string_view entry) {
  return absl::StartsWith(entry, "GPU-") || absl::StartsWith(entry, "MIG-");
}

}  // namespace

uint32_t CountGpuDevices(const std::string& driver_folder,
                         const std::string& device_folder) {
  const auto listed = CountEntries(driver_folder, [](absl::string_view name) {
    return !name.empty() && name[0] != '.';
  });
  if (listed.has_value()) return *listed;
  return CountEntries(device_folder,
                      [](absl::string_view name) {
                        constexpr absl::string_view kPrefix = "nvidia";
                        if (!absl::StartsWith(name, kPrefix)) return false;
                        name.remove_prefix(kPrefix.size());
                        return !name.empty() &&
                               std::all_of(name.begin(), name.end(),
                                           absl::ascii_isdigit);
                      })
      .value_or(0);
}

uint32_t CountVisibleGpus(uint32_t present,
                          std::optional<absl::string_view> nvidia_visible,
                          std::optional<absl::string_view> cuda_visible) {
  if (nvidia_visible.has_value()) {
    const absl::string_view list = absl::StripAsciiWhitespace(*nvidia_visible);
    if (list == "none") return 0;
    // "void" and an empty list do not change which GPUs the container has.
    if (list != "all" && list != "void" && !list.empty()) {
      const uint32_t entries = std::count(list.begin(), list.end(), ',') + 1;
      present = std::min(present, entries);
    }
  }
  if (!cuda_visible.has_value()) return present;
  uint32_t visible = 0;
  for (absl::string_view entry : absl::StrSplit(*cuda_visible, ',')) {
    entry = absl::StripAsciiWhitespace(entry);
    uint32_t index = 0;
    const bool names_device =
        IsUuid(entry) || (absl::SimpleAtoi(entry, &index) && index < present);
    if (!names_device || visible == kDevicesMax) break;
    ++visible;
  }
  // A MIG list may name several slices of one GPU.
  const bool slices = absl::StrContains(*cuda_visible, "MIG-");
  return present == 0 ? 0 : slices ? visible : std::min(visible, present);
}

bool CountGpus(const std::string& root, v1::Facts& facts) {
  const std::string prefix = root == "/" ? "" : root;
  const uint32_t present =
      CountGpuDevices(prefix + "/proc/driver/nvidia/gpus", prefix + "/dev");
  facts.set_gpu_count(CountVisibleGpus(present,
                                       Variable("NVIDIA_VISIBLE_DEVICES"),
                                       Variable("CUDA_VISIBLE_DEVICES")));
  const bool wsl = access((prefix + "/dev/dxg").c_str(), F_OK) == 0;
  return present > 0 || wsl;
}

void SayWhyNoGpu(const std::string& root, v1::Facts& facts) {
  const std::string device = FindPciDevice(root, IsNvidiaGpu);
  if (device.empty()) return;
  AddMissing(facts, "gpus",
             absl::StrCat("the PCI device ", device,
                          " is an NVIDIA GPU, and neither "
                          "/proc/driver/nvidia/gpus nor /dev shows one"),
             "in a container: run it with --gpus all; on a host: install and "
             "load the NVIDIA driver");
}

void PlaceGpus(const std::string& root, v1::Facts& facts) {
  const std::string devices =
      absl::StrCat(root == "/" ? "" : root, "/sys/bus/pci/devices/");
  for (v1::Gpu& gpu : *facts.mutable_gpus()) {
    if (gpu.pci().empty()) continue;
    const std::string device = devices + gpu.pci();
    int32_t node = -1;
    const std::string text = ReadSmallFile(device + "/numa_node", 32);
    if (absl::SimpleAtoi(text, &node) && node >= 0 && node <= UINT16_MAX) {
      gpu.set_numa_node(node);
    }
    for (std::string& name :
         NearHcas(ReadPciPath(device), gpu.numa_node(), facts.infiniband())) {
      gpu.add_near_hcas(std::move(name));
    }
  }
}

void CountListedGpus(v1::Facts& facts) {
  if (facts.gpu_count() > 0 || facts.gpus().empty()) return;
  // Environment variables may hide some of the listed GPUs.
  facts.set_gpu_count(CountVisibleGpus(static_cast<uint32_t>(facts.gpus_size()),
                                       Variable("NVIDIA_VISIBLE_DEVICES"),
                                       Variable("CUDA_VISIBLE_DEVICES")));
}

}  // namespace rollcall
