#include "client/facts/watch/gpu_watch.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "client/facts/devices/nvml.h"
#include "client/facts/devices/nvml_library.h"
#include "client/facts/watch/fact_states.h"
#include "daemon/base/clock.h"
#include "daemon/base/mutex.h"
#include "daemon/core/admission/admission.h"

namespace rollcall {
namespace {

constexpr int kNvmlTimeout = 10;
constexpr uint64_t kDoubleBitEccEvent = 0x2;
constexpr uint64_t kXidEvent = 0x8;
// hw_slowdown, hw_thermal_slowdown and hw_power_brake_slowdown.
constexpr uint64_t kSlowedByHardware = 0x8 | 0x40 | 0x80;
constexpr absl::Duration kBetweenClocks = absl::Seconds(1);
// An event tells of most errors at once; others are found by this.
constexpr absl::Duration kBetweenEcc = absl::Seconds(10);

using NvmlEventSet = struct NvmlEventSetHandle*;

// nvmlEventData_t, version 2.
struct NvmlEvent {
  NvmlDevice device;
  unsigned long long type;
  unsigned long long data;
  unsigned gpu_instance;
  unsigned compute_instance;
};
static_assert(sizeof(NvmlEvent) == 32);

class GpuWatch {
 public:
  GpuWatch(const Nvml& nvml, std::vector<NvmlDevice> devices,
           FactReporter& reporter)
      : nvml_(nvml), devices_(std::move(devices)), reporter_(reporter) {}

  [[noreturn]] void Run() {
    Register();
    while (true) {
      const absl::Time now = MonotonicNow();
      if (now >= clocks_at_) {
        clocks_at_ = now + kBetweenClocks;
        for (size_t i = 0; i < devices_.size(); ++i) ReadClocks(i);
      }
      if (now >= ecc_at_) {
        ecc_at_ = now + kBetweenEcc;
        for (size_t i = 0; i < devices_.size(); ++i) ReadEcc(i);
        NameSource("gpus");
      }
      AwaitEvent(clocks_at_ - MonotonicNow());
    }
  }

 private:
  static std::string Name(size_t index) { return absl::StrCat("GPU ", index); }

  void Register() {
    if (nvml_.Call({"nvmlEventSetCreate"}, &events_) != kNvmlSuccess) return;
    for (NvmlDevice device : devices_) {
      if (device == nullptr) continue;
      for (const uint64_t type : {kXidEvent, kDoubleBitEccEvent}) {
        const int error =
            nvml_.Call({"nvmlDeviceRegisterEvents"}, device,
                       static_cast<unsigned long long>(type), events_);
        registered_ |= error == kNvmlSuccess;
      }
    }
  }

  void AwaitEvent(absl::Duration wait) {
    wait = std::max(wait, absl::ZeroDuration());
    NvmlEvent event{};
    int error = kNvmlTimeout;
    if (registered_) {
      error = nvml_.Call(
          {"nvmlEventSetWait_v2", "nvmlEventSetWait"}, events_, &event,
          static_cast<unsigned>(absl::ToInt64Milliseconds(wait) + 1));
      if (error == kNvmlTimeout) return;
    }
    if (error != kNvmlSuccess) {
      // Without events, the clocks are still read.
      registered_ = false;
      MutexLock lock(mutex_);
      return never_.WaitFor(mutex_, wait);
    }
    const auto at = std::find(devices_.begin(), devices_.end(), event.device);
    if (at == devices_.end()) return;
    const size_t index = at - devices_.begin();
    if (event.type == kXidEvent) {
      // Each code is a subject: the first one is usually the cause, and those
      // that follow it must not replace it.
      reporter_.Take(MakeFactChange(
          v1::FACT_KIND_XID, absl::StrCat(Name(index), " Xid ", event.data), "",
          "occurred"));
    } else {
      ReadEcc(index);
    }
  }

  void ReadClocks(size_t index) {
    if (devices_[index] == nullptr) return;
    unsigned long long bits = 0;
    const int error = nvml_.Call({"nvmlDeviceGetCurrentClocksEventReasons",
                                  "nvmlDeviceGetCurrentClocksThrottleReasons"},
                                 devices_[index], &bits);
    if (error == kNvmlGpuIsLost && lost_.insert(index).second) {
      reporter_.Take(
          MakeFactChange(v1::FACT_KIND_XID, Name(index), "", "is lost"));
    }
    if (error != kNvmlSuccess) return;
    const std::string reasons =
        absl::StrJoin(ThrottleReasons(bits & kSlowedByHardware), ", ");
    reporter_.Take(clocks_.Take(absl::StrCat(Name(index), " clocks"),
                                reasons.empty() ? "full" : reasons));
  }

  void ReadEcc(size_t index) {
    if (devices_[index] == nullptr) return;
    unsigned long long count = 0;
    if (nvml_.Call({"nvmlDeviceGetTotalEccErrors"}, devices_[index],
                   kErrorUncorrected, kVolatileEcc, &count) == kNvmlSuccess) {
      reporter_.Take(
          ecc_.Take(absl::StrCat(Name(index), " uncorrectable ECC errors"),
                    absl::StrCat(count)));
    }
  }

  const Nvml& nvml_;
  const std::vector<NvmlDevice> devices_;
  FactReporter& reporter_;
  FactStates clocks_{v1::FACT_KIND_THROTTLE};
  FactStates ecc_{v1::FACT_KIND_ECC};
  std::set<size_t> lost_;
  NvmlEventSet events_ = nullptr;
  bool registered_ = false;
  absl::Time clocks_at_ = absl::InfinitePast();
  absl::Time ecc_at_ = absl::InfinitePast();
  // Nothing notifies it.
  Mutex mutex_;
  CondVar never_;
};

}  // namespace

void WatchGpus(const std::vector<std::string>& libraries,
               FactReporter& reporter) {
  absl::StatusOr<Library> library = Library::Open(libraries);
  if (!library.ok()) return;
  const Nvml nvml(*std::move(library));
  if (nvml.Call({"nvmlInit_v2", "nvmlInit"}) != kNvmlSuccess) return;
  unsigned count = 0;
  if (nvml.Call({"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"}, &count) !=
      kNvmlSuccess) {
    return;
  }
  count = std::min<unsigned>(count, FactsLimits::devices_max);
  std::vector<NvmlDevice> devices;
  for (unsigned i = 0; i < count; ++i) {
    NvmlDevice device = nullptr;
    // A GPU without a handle keeps its number and is not watched.
    nvml.Call({"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"},
              i, &device);
    devices.push_back(device);
  }
  if (devices.empty()) return;
  GpuWatch(nvml, std::move(devices), reporter).Run();
}

}  // namespace rollcall
