#include "trainer/cuda/cuda.h"

namespace rollcall {

absl::Status CudaAvailable() {
  return absl::FailedPreconditionError(
      "this build of rollcall-train has no CUDA: nvcc was not found when it "
      "was configured, or ROLLCALL_CUDA was off; install the CUDA toolkit, set "
      "CUDA_HOME if it is not in /usr/local/cuda, and configure and build "
      "again, or train with --device cpu");
}

absl::StatusOr<std::vector<CudaDevice::Known>> CudaDevice::List() {
  return CudaAvailable();
}

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Choose(int) {
  return CudaAvailable();
}

absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(const GptConfig&,
                                                         const AdamWConfig&,
                                                         CudaDevice&) {
  return CudaAvailable();
}

}  // namespace rollcall
