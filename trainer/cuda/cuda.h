// CudaDevice: the GPU that a rank uses, and the Backend that trains on it.
//
// A build without CUDA has the same functions; they return an error. The
// program starts without any part of CUDA: driver, cuBLASLt and NCCL are
// opened when they are needed.
//
// Thread rule: one thread, the one that called Choose.
#ifndef ROLLCALL_TRAINER_CUDA_CUDA_H_
#define ROLLCALL_TRAINER_CUDA_CUDA_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trainer/cuda/products.h"
#include "trainer/cuda/streams.h"
#include "trainer/model/backend.h"

namespace rollcall {

// OK: there is a GPU that the kernels run on, and cuBLASLt. Otherwise
// FAILED_PRECONDITION: what is missing, and how to get it.
absl::Status CudaAvailable();

class CudaDevice : public Streams {
 public:
  struct Known {
    int number;  // In CUDA's order.
    std::string uuid;
    std::string model;  // "NVIDIA H100 80GB HBM3 (compute capability 9.0)".
  };
  // The GPUs that this process sees and the kernels run on, at least one.
  // Errors: CudaAvailable's; FAILED_PRECONDITION if the kernels run on none.
  static absl::StatusOr<std::vector<Known>> List();
  // Opens the GPU of that number in CUDA's order. Errors: CudaAvailable's, and
  // FAILED_PRECONDITION if the kernels do not run on it.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Choose(int number);

  // --- Memory and work, in the order of compute() -------------------------
  virtual absl::StatusOr<size_t> FreeBytes() = 0;
  // RESOURCE_EXHAUSTED: not enough memory. Free waits for all work.
  virtual absl::StatusOr<void*> Allocate(size_t bytes,
                                         absl::string_view purpose) = 0;
  virtual void Free(void* memory) = 0;
  // When it returns, `host` has been read.
  virtual absl::Status Upload(void* device, const void* host, size_t bytes,
                              absl::string_view purpose) = 0;
  // When it returns, `host` has been written and all earlier work is done.
  virtual absl::Status Download(void* host, const void* device, size_t bytes,
                                absl::string_view purpose) = 0;
  // Pins memory of the host, which makes Download to it faster, until the
  // result is dropped; the memory must live as long. Null: that is not
  // possible, for example because the system limits such memory.
  virtual std::shared_ptr<void> Pin(void* host, size_t bytes) = 0;
  // Waits for all work.
  virtual absl::Status Synchronize(absl::string_view purpose) = 0;
  // `workspace` is device memory of kWorkspaceBytes.
  virtual absl::StatusOr<std::unique_ptr<Products>> MakeProducts(
      void* workspace) = 0;

  // As CUDA names it: "NVIDIA H100 80GB HBM3".
  virtual std::string name() const = 0;
  // For a person: "GPU 0, NVIDIA H100 80GB HBM3, 79.6 GiB".
  virtual std::string description() const = 0;
  virtual size_t memory_bytes() const = 0;
};

// A GPT on `device`, which must outlive it: activations and products in bf16;
// sums, master weights and gradients in fp32. INVALID_ARGUMENT: `config` is not
// valid, or the kernels do not support the width of its heads.
// RESOURCE_EXHAUSTED: weights and moments alone are too large.
absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(
    const GptConfig& config, const AdamWConfig& optimizer, CudaDevice& device);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CUDA_CUDA_H_
