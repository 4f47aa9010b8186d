// The GPU part of the facts: how many GPUs this process sees, and their
// positions.
//
// Counts the GPUs that the driver shows in the file system, and reads sysfs;
// opens no device. For NVML's facts of each GPU see nvml.h.
#ifndef ROLLCALL_CLIENT_FACTS_DEVICES_GPU_H_
#define ROLLCALL_CLIENT_FACTS_DEVICES_GPU_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Sets gpu_count, from files below `root`. Returns whether the driver shows a
// GPU there, even if the environment hides it.
bool CountGpus(const std::string& root, v1::Facts& facts);

// For a `root` where the driver shows no GPU: adds the MissingFact `gpus` if
// the PCI bus shows a GPU.
void SayWhyNoGpu(const std::string& root, v1::Facts& facts);

// Sets numa_node and near_hcas of the GPUs that have a PCI address, from sysfs
// below `root` and the RDMA ports of `facts`.
void PlaceGpus(const std::string& root, v1::Facts& facts);

// Sets gpu_count from NVML's list if the files show no GPU. WSL2 shows its GPUs
// only by /dev/dxg, which does not give their number.
void CountListedGpus(v1::Facts& facts);

// The number of GPUs that the driver shows: the entries of `driver_folder`
// (/proc/driver/nvidia/gpus), or, if that folder does not exist, nvidia0,
// nvidia1... in `device_folder` (/dev).
uint32_t CountGpuDevices(const std::string& driver_folder,
                         const std::string& device_folder);

// How many of `present` GPUs the two variables leave visible; nullopt: the
// variable is unset. As in the CUDA runtime, a list ends at the first entry
// that names no device. In a list of UUIDs each entry counts. Pure.
uint32_t CountVisibleGpus(uint32_t present,
                          std::optional<absl::string_view> nvidia_visible,
                          std::optional<absl::string_view> cuda_visible);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_FACTS_DEVICES_GPU_H_
