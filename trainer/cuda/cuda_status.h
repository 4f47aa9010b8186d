// CudaStatus: an error of CUDA's runtime as a message: the call, its purpose,
// and CUDA's text.
#ifndef ROLLCALL_TRAINER_CUDA_CUDA_STATUS_H_
#define ROLLCALL_TRAINER_CUDA_CUDA_STATUS_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace rollcall {

// RESOURCE_EXHAUSTED: memory. INTERNAL: any other error, after which this
// process cannot use the device any more.
inline absl::Status CudaStatus(int code, absl::string_view call,
                               absl::string_view purpose) {
  if (code == cudaSuccess) return absl::OkStatus();
  const auto error = static_cast<cudaError_t>(code);
  const std::string message =
      absl::StrCat(call, " for ", purpose, ": ", cudaGetErrorString(error),
                   " (", cudaGetErrorName(error), ")");
  if (error == cudaErrorMemoryAllocation) {
    return absl::ResourceExhaustedError(message);
  }
  return absl::InternalError(message);
}

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CUDA_CUDA_STATUS_H_
