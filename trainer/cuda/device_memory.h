// DeviceMemory: owns one allocation of GPU memory.
#ifndef ROLLCALL_TRAINER_CUDA_DEVICE_MEMORY_H_
#define ROLLCALL_TRAINER_CUDA_DEVICE_MEMORY_H_

#include <cstddef>
#include <utility>

#include "absl/status/statusor.h"
#include "trainer/cuda/cuda.h"

namespace rollcall {

class DeviceMemory {
 public:
  DeviceMemory() = default;
  // `device` must outlive it. RESOURCE_EXHAUSTED: not enough memory.
  static absl::StatusOr<DeviceMemory> Take(CudaDevice& device, size_t bytes,
                                           absl::string_view purpose) {
    const absl::StatusOr<void*> memory = device.Allocate(bytes, purpose);
    if (!memory.ok()) return memory.status();
    return DeviceMemory(&device, *memory, bytes);
  }
  DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~DeviceMemory() {
    if (memory_ != nullptr) device_->Free(memory_);
  }

  char* get() const { return static_cast<char*>(memory_); }
  size_t bytes() const { return bytes_; }

 private:
  DeviceMemory(CudaDevice* device, void* memory, size_t bytes)
      : device_(device), memory_(memory), bytes_(bytes) {}

  CudaDevice* device_ = nullptr;
  void* memory_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CUDA_DEVICE_MEMORY_H_
