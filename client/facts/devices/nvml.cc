#include "client/facts/devices/nvml.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <initializer_list>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/facts/devices/nvml_library.h"
#include "client/facts/system/missing.h"
#include "client/facts/system/pci.h"
#include "daemon/core/admission/admission.h"

namespace rollcall {
namespace {

// Values and layouts from nvml.h, API version 13.
constexpr int kNvmlInvalidArgument = 2;
constexpr int kNvmlNotSupported = 3;
constexpr int kNvmlInsufficientSize = 7;

constexpr int kClockSm = 1;            // nvmlClockType_t
constexpr int kDoubleBitEccError = 1;  // nvmlPageRetirementCause_t
constexpr int kFeatureEnabled = 1;     // nvmlEnableState_t
constexpr int kNvlinksMax = 36;        // NVML_NVLINK_MAX_LINKS
constexpr int kFabricStateCompleted = 3;

constexpr char kLookForXid[] = "dmesg may have an Xid error of this GPU";

constexpr size_t kTextBytes = 96;  // The largest of its text buffers.

// nvmlPciInfo_t, version 3. The two older forms end after 52 bytes and have the
// same first 36 bytes.
struct NvmlPciInfo {
  char bus_id_legacy[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pci_device_id;
  unsigned pci_subsystem_id;
  char bus_id[32];
};
static_assert(offsetof(NvmlPciInfo, bus_id) == 36);

struct NvmlMemory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

// nvmlGpuFabricInfo_t; its version 2 begins with a version number.
struct NvmlFabric {
  unsigned char cluster_uuid[16];
  int status;
  unsigned clique;
  unsigned char state;
};
struct NvmlFabricV2 {
  unsigned version;
  unsigned char cluster_uuid[16];
  int status;
  unsigned clique;
  unsigned char state;
  unsigned health_mask;
};
// NVML_STRUCT_VERSION of nvml.h.
constexpr unsigned kFabricV2 = sizeof(NvmlFabricV2) | 2u << 24;
static_assert(sizeof(NvmlFabricV2) == 36);

// Gathers the facts of one GPU, field by field.
class GpuQuestions {
 public:
  GpuQuestions(const Nvml& nvml, NvmlDevice device, v1::Facts& facts,
               v1::Gpu& gpu)
      : nvml_(nvml), device_(device), facts_(facts), gpu_(gpu) {}

  void AskAll() {
    for (const auto ask :
         {&GpuQuestions::AskNames, &GpuQuestions::AskPci,
          &GpuQuestions::AskMemory, &GpuQuestions::AskErrors,
          &GpuQuestions::AskClocks, &GpuQuestions::AskNvlinks,
          &GpuQuestions::AskFabric, &GpuQuestions::AskCapability}) {
      if (!lost_) (this->*ask)();
    }
  }

 private:
  // Whether the call succeeded; otherwise adds a MissingFact.
  bool Good(int error, absl::string_view call, absl::string_view fact) {
    if (error == kNvmlSuccess) return true;
    if (error == kNvmlNotSupported || lost_) return false;
    if (error == kNvmlGpuIsLost) {
      // All other calls for this GPU would fail as well, so this is reported
      // once.
      lost_ = true;
      AddMissing(facts_, absl::StrCat("gpus.", gpu_.index()),
                 nvml_.Text(call, error), kLookForXid);
      return false;
    }
    // A call that the library lacks is missing for all GPUs, so it is reported
    // once.
    const std::string where = error == kNvmlFunctionNotFound
                                  ? "gpus."
                                  : absl::StrCat("gpus.", gpu_.index(), ".");
    AddMissing(facts_, where + std::string(fact), nvml_.Text(call, error), "");
    return false;
  }

  std::string Text(absl::string_view call, absl::string_view fact) {
    char text[kTextBytes + 1] = "";
    const std::string name(call);
    const int error =
        nvml_.Call({name.c_str()}, device_, static_cast<char*>(text),
                   static_cast<unsigned>(kTextBytes));
    return Good(error, call, fact) ? PlainText(text) : "";
  }

  void AskNames() {
    gpu_.set_name(Text("nvmlDeviceGetName", "name"));
    gpu_.set_uuid(Text("nvmlDeviceGetUUID", "uuid"));
  }

  void AskPci() {
    NvmlPciInfo info{};
    const int error =
        nvml_.Call({"nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2",
                    "nvmlDeviceGetPciInfo"},
                   device_, &info);
    if (Good(error, "nvmlDeviceGetPciInfo", "pci")) {
      // A GPU is function 0 of its device.
      gpu_.set_pci(
          PciAddress(info.domain, info.bus & 0xff, info.device & 0x1f, 0));
    }
  }

  void AskMemory() {
    NvmlMemory memory{};
    const int error = nvml_.Call({"nvmlDeviceGetMemoryInfo"}, device_, &memory);
    if (Good(error, "nvmlDeviceGetMemoryInfo", "memory_bytes")) {
      gpu_.set_memory_bytes(memory.total);
    }
  }

  void AskErrors() {
    int current = 0;
    int pending = 0;
    int error =
        nvml_.Call({"nvmlDeviceGetEccMode"}, device_, &current, &pending);
    if (Good(error, "nvmlDeviceGetEccMode", "ecc")) {
      gpu_.set_ecc(current == kFeatureEnabled);
    }
    unsigned long long count = 0;
    error = nvml_.Call({"nvmlDeviceGetTotalEccErrors"}, device_,
                       kErrorUncorrected, kVolatileEcc, &count);
    if (Good(error, "nvmlDeviceGetTotalEccErrors", "ecc_errors_uncorrected")) {
      gpu_.set_ecc_errors_uncorrected(count);
    }
    AskRetired();
  }

  // Ampere and newer GPUs remap rows; older GPUs retire pages.
  void AskRetired() {
    unsigned corrected = 0;
    unsigned uncorrected = 0;
    unsigned pending = 0;
    unsigned failed = 0;
    int error = nvml_.Call({"nvmlDeviceGetRemappedRows"}, device_, &corrected,
                           &uncorrected, &pending, &failed);
    const char* call = "nvmlDeviceGetRemappedRows";
    if (error == kNvmlNotSupported || error == kNvmlFunctionNotFound) {
      call = "nvmlDeviceGetRetiredPages";
      // Count 0 asks only for the number of pages.
      unsigned long long unused = 0;
      uncorrected = 0;
      error = nvml_.Call({call}, device_, kDoubleBitEccError, &uncorrected,
                         &unused);
      if (error == kNvmlInsufficientSize) error = kNvmlSuccess;
    }
    if (Good(error, call, "retired_pages")) gpu_.set_retired_pages(uncorrected);
  }

  void AskClocks() {
    unsigned mhz = 0;
    int error = nvml_.Call({"nvmlDeviceGetClockInfo"}, device_, kClockSm, &mhz);
    if (Good(error, "nvmlDeviceGetClockInfo", "sm_clock_mhz")) {
      gpu_.set_sm_clock_mhz(mhz);
    }
    error = nvml_.Call({"nvmlDeviceGetMaxClockInfo"}, device_, kClockSm, &mhz);
    if (Good(error, "nvmlDeviceGetMaxClockInfo", "sm_clock_mhz_max")) {
      gpu_.set_sm_clock_mhz_max(mhz);
    }
    unsigned long long bits = 0;
    error = nvml_.Call({"nvmlDeviceGetCurrentClocksEventReasons",
                        "nvmlDeviceGetCurrentClocksThrottleReasons"},
                       device_, &bits);
    if (Good(error, "nvmlDeviceGetCurrentClocksEventReasons",
             "throttle_reasons")) {
      for (std::string& reason : ThrottleReasons(bits)) {
        gpu_.add_throttle_reasons(std::move(reason));
      }
    }
  }

  void AskNvlinks() {
    uint32_t links = 0;
    uint32_t active = 0;
    for (unsigned link = 0; link < kNvlinksMax; ++link) {
      int state = 0;
      const int error =
          nvml_.Call({"nvmlDeviceGetNvLinkState"}, device_, link, &state);
      // The GPU has no link with this or a higher number.
      if (error == kNvmlInvalidArgument) break;
      if (error == kNvmlNotSupported) continue;
      if (!Good(error, "nvmlDeviceGetNvLinkState", "nvlinks")) return;
      ++links;
      if (state == kFeatureEnabled) ++active;
    }
    // 0 is a known value: a PCIe card has no links.
    gpu_.set_nvlinks(links);
    gpu_.set_nvlinks_active(active);
  }

  void AskFabric() {
    NvmlFabric fabric{};
    NvmlFabricV2 versioned{};
    versioned.version = kFabricV2;
    int error =
        nvml_.Call({"nvmlDeviceGetGpuFabricInfoV"}, device_, &versioned);
    if (error == kNvmlSuccess) {
      std::memcpy(fabric.cluster_uuid, versioned.cluster_uuid,
                  sizeof(fabric.cluster_uuid));
      fabric.status = versioned.status;
      fabric.clique = versioned.clique;
      fabric.state = versioned.state;
    } else if (error == kNvmlFunctionNotFound) {
      error = nvml_.Call({"nvmlDeviceGetGpuFabricInfo"}, device_, &fabric);
      // The driver is older than NVLink fabrics; this is not a missing fact.
      if (error == kNvmlFunctionNotFound) return;
    }
    if (!Good(error, "nvmlDeviceGetGpuFabricInfo", "nvlink_domain")) return;
    const bool has_cluster = std::any_of(
        std::begin(fabric.cluster_uuid), std::end(fabric.cluster_uuid),
        [](unsigned char c) { return c != 0; });
    if (fabric.state != kFabricStateCompleted || fabric.status != 0 ||
        !has_cluster) {
      return;
    }
    gpu_.set_nvlink_domain(
        absl::StrCat(absl::BytesToHexString(absl::string_view(
                         reinterpret_cast<const char*>(fabric.cluster_uuid),
                         sizeof(fabric.cluster_uuid))),
                     ".", fabric.clique));
  }

  void AskCapability() {
    int major = 0;
    int minor = 0;
    const int error = nvml_.Call({"nvmlDeviceGetCudaComputeCapability"},
                                 device_, &major, &minor);
    if (Good(error, "nvmlDeviceGetCudaComputeCapability",
             "compute_capability")) {
      gpu_.set_compute_capability(absl::StrCat(major, ".", minor));
    }
  }

  const Nvml& nvml_;
  NvmlDevice device_;
  v1::Facts& facts_;
  v1::Gpu& gpu_;
  bool lost_ = false;
};

void AskVersions(const Nvml& nvml, v1::Facts& facts) {
  char text[kTextBytes + 1] = "";
  int error =
      nvml.Call({"nvmlSystemGetDriverVersion"}, static_cast<char*>(text),
                static_cast<unsigned>(kTextBytes));
  if (error == kNvmlSuccess) {
    facts.mutable_versions()->set_driver(PlainText(text));
  } else {
    AddMissing(facts, "versions.driver",
               nvml.Text("nvmlSystemGetDriverVersion", error), "");
  }
  int version = 0;
  error = nvml.Call(
      {"nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"},
      &version);
  if (error == kNvmlSuccess) {
    facts.mutable_versions()->set_cuda(CudaVersionText(version));
  } else {
    AddMissing(facts, "versions.cuda",
               nvml.Text("nvmlSystemGetCudaDriverVersion", error), "");
  }
}

}  // namespace

std::vector<std::string> NvmlLibraryNames(const std::string& explicit_path) {
  if (!explicit_path.empty()) return {explicit_path};
  return {"libnvidia-ml.so.1", "/usr/lib/wsl/lib/libnvidia-ml.so.1"};
}

void AskNvml(const std::vector<std::string>& libraries,
             const std::function<void(absl::string_view gpu)>& before,
             v1::Facts& facts) {
  before("");
  absl::StatusOr<Library> library = Library::Open(libraries);
  if (!library.ok()) {
    AddMissing(
        facts, "gpus",
        absl::StrCat("NVML cannot be opened: ", library.status().message()),
        "in a container: run it with --gpus all and the driver "
        "capability `utility`; on a host: install the NVIDIA driver's "
        "libnvidia-ml.so.1");
    return;
  }
  const Nvml nvml(*std::move(library));
  if (const int error = nvml.Call({"nvmlInit_v2", "nvmlInit"});
      error != kNvmlSuccess) {
    AddMissing(facts, "gpus", nvml.Text("nvmlInit", error),
               "`nvidia-smi` should work on this node; dmesg may say why not");
    return;
  }
  AskVersions(nvml, facts);
  unsigned count = 0;
  if (const int error =
          nvml.Call({"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"}, &count);
      error != kNvmlSuccess) {
    AddMissing(facts, "gpus", nvml.Text("nvmlDeviceGetCount", error), "");
    return;
  }
  int (*get_handle)(unsigned, NvmlDevice*) = nullptr;
  nvml.Find(&get_handle,
            {"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"});
  if (get_handle == nullptr) {
    AddMissing(facts, "gpus",
               nvml.Text("nvmlDeviceGetHandleByIndex", kNvmlFunctionNotFound),
               "");
    return;
  }
  count = std::min<unsigned>(count, FactsLimits::devices_max);
  for (unsigned i = 0; i < count; ++i) {
    before(absl::StrCat("gpus.", i));
    v1::Gpu& gpu = *facts.add_gpus();
    gpu.set_index(i);
    gpu.set_numa_node(-1);
    gpu.set_driver(facts.versions().driver());
    NvmlDevice device = nullptr;
    if (const int error = get_handle(i, &device); error != kNvmlSuccess) {
      AddMissing(facts, absl::StrCat("gpus.", i),
                 nvml.Text("nvmlDeviceGetHandleByIndex", error), kLookForXid);
      continue;
    }
    GpuQuestions(nvml, device, facts, gpu).AskAll();
  }
  nvml.Call({"nvmlShutdown"});
}

std::vector<std::string> ThrottleReasons(uint64_t bits) {
  // nvmlClocksEventReason* of nvml.h, by the names of
  // `nvidia-smi --query-gpu=clocks_event_reasons.*`.
  constexpr struct {
    uint64_t bit;
    const char* word;
  } kWords[] = {
      {0x2, "applications_clocks_setting"},
      {0x4, "sw_power_cap"},
      {0x8, "hw_slowdown"},
      {0x10, "sync_boost"},
      {0x20, "sw_thermal_slowdown"},
      {0x40, "hw_thermal_slowdown"},
      {0x80, "hw_power_brake_slowdown"},
      {0x100, "display_clock_setting"},
  };
  constexpr uint64_t kGpuIdle = 0x1;
  std::vector<std::string> reasons;
  bits &= ~kGpuIdle;
  for (const auto& [bit, word] : kWords) {
    if ((bits & bit) != 0) reasons.push_back(word);
    bits &= ~bit;
  }
  if (bits != 0) reasons.push_back(absl::StrFormat("0x%x", bits));
  return reasons;
}

std::string CudaVersionText(int version) {
  if (version <= 0) return "";
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

}  // namespace rollcall
