// CudaDevice: the GPU that a rank uses; and the Backend that trains on it.
//
// A build without CUDA has the same functions, which then say so. Nothing of
// CUDA is needed to start: driver, cuBLASLt and NCCL are looked for when they
// are asked for.
//
// Thread rule: one thread, the one that chose the device.
#ifndef ROLLCALL_TRAINER_CUDA_CUDA_H_
#define ROLLCALL_TRAINER_CUDA_CUDA_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trainer/cuda/products.h"
#include "trainer/cuda/streams.h"
#include "trainer/model/backend.h"

namespace rollcall {

// OK: a GPU that the kernels run on is there, and so is cuBLASLt. Else
// FAILED_PRECONDITION: what is missing, and how to get it.
absl::Status CudaAvailable();

class CudaDevice : public Streams {
 public:
  // The rank's GPU: that of its number on its node; where there are fewer, they
  // are shared in turn. Errors: CudaAvailable's.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Choose(int local_rank);

  // --- For what lives on it: in the order of compute() --------------------
  virtual absl::StatusOr<size_t> FreeBytes() = 0;
  // RESOURCE_EXHAUSTED: there is not so much. Free waits for all work.
  virtual absl::StatusOr<void*> Allocate(size_t bytes,
                                         absl::string_view purpose) = 0;
  virtual void Free(void* memory) = 0;
  // When it returns, `host` has been read.
  virtual absl::Status Upload(void* device, const void* host, size_t bytes,
                              absl::string_view purpose) = 0;
  // When it returns, `host` has been written, and all work before it is done.
  virtual absl::Status Download(void* host, const void* device, size_t bytes,
                                absl::string_view purpose) = 0;
  // Until all work is done.
  virtual absl::Status Synchronize(absl::string_view purpose) = 0;
  // `workspace` is the device's, of kWorkspaceBytes.
  virtual absl::StatusOr<std::unique_ptr<Products>> MakeProducts(
      void* workspace) = 0;

  // For a person: "GPU 0, NVIDIA H100 80GB HBM3, 79.6 GiB".
  virtual std::string description() const = 0;
  virtual size_t memory_bytes() const = 0;
};

// A GPT on `device`, which must outlive it: bf16 activations and products, fp32
// sums, master weights and gradients. INVALID_ARGUMENT: `config` is not valid,
// or its heads are of a width that the kernels do not take.
// RESOURCE_EXHAUSTED: weights and moments alone are too large.
absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(
    const GptConfig& config, const AdamWConfig& optimizer, CudaDevice& device);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CUDA_CUDA_H_
