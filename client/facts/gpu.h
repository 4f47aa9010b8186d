// The GPU part of the facts: how many there are for this process.
// Counts what the driver shows in the file system; opens no device.
#ifndef ROLLCALL_CLIENT_FACTS_GPU_H_
#define ROLLCALL_CLIENT_FACTS_GPU_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Sets gpu_count. What NVML tells of each GPU goes into `gpus`, beside it.
void GatherGpus(v1::Facts& facts);

// GPUs that the driver shows: entries of `driver_folder`
// (/proc/driver/nvidia/gpus), or, where that is not there, nvidia0, nvidia1...
// in `device_folder` (/dev).
uint32_t CountGpuDevices(const std::string& driver_folder,
                         const std::string& device_folder);

// How many of `present` GPUs the two variables leave visible; unset: nullopt.
// As the CUDA runtime reads its list, it ends at the first entry that names no
// device; a list of UUIDs counts its entries. Pure.
uint32_t CountVisibleGpus(uint32_t present,
                          std::optional<absl::string_view> nvidia_visible,
                          std::optional<absl::string_view> cuda_visible);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_FACTS_GPU_H_
