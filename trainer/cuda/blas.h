// Blas: products of bf16 matrices by cuBLASLt.
//
// cuBLASLt is opened at run time. For each kind of product it is asked once for
// an algorithm. If it has none with the requested epilogue (bias, GELU), the
// product is computed without the epilogue, which one of our kernels then
// applies.
//
// Thread rule: one thread.
#ifndef ROLLCALL_TRAINER_CUDA_BLAS_H_
#define ROLLCALL_TRAINER_CUDA_BLAS_H_

#include <cublasLt.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/cuda/products.h"

namespace rollcall {

// The functions of cuBLASLt that are used.
struct BlasLibrary {
  // FAILED_PRECONDITION: the library or one of the functions is missing.
  static absl::StatusOr<BlasLibrary> Open();

  decltype(cublasLtCreate)* create;
  decltype(cublasLtDestroy)* destroy;
  decltype(cublasLtGetStatusString)* status_string;
  decltype(cublasLtMatmul)* matmul;
  decltype(cublasLtMatmulAlgoGetHeuristic)* heuristic;
  decltype(cublasLtMatmulDescCreate)* operation_create;
  decltype(cublasLtMatmulDescDestroy)* operation_destroy;
  decltype(cublasLtMatmulDescSetAttribute)* operation_set;
  decltype(cublasLtMatrixLayoutCreate)* layout_create;
  decltype(cublasLtMatrixLayoutDestroy)* layout_destroy;
  decltype(cublasLtMatmulPreferenceCreate)* preference_create;
  decltype(cublasLtMatmulPreferenceDestroy)* preference_destroy;
  decltype(cublasLtMatmulPreferenceSetAttribute)* preference_set;
};

class Blas final : public Products {
 public:
  // `workspace` is device memory of kWorkspaceBytes. Errors: those of
  // BlasLibrary::Open; INTERNAL: cublasLtCreate failed.
  static absl::StatusOr<std::unique_ptr<Blas>> Create(cuda::Stream stream,
                                                      void* workspace);
  ~Blas() override;

  absl::Status Multiply(const Product& product) override;

 private:
  struct Plan {
    cublasLtMatmulDesc_t operation = nullptr;
    cublasLtMatrixLayout_t first = nullptr, second = nullptr, out = nullptr;
    cublasLtMatmulAlgo_t algorithm;
    bool found = false;
  };
  using Key = std::array<int64_t, 16>;

  Blas(const BlasLibrary& library, cuda::Stream stream, void* workspace)
      : library_(library), stream_(stream), workspace_(workspace) {}
  static Key KeyOf(const Product& product);
  absl::StatusOr<Plan*> PlanFor(const Product& product);
  absl::Status MakePlan(const Product& product, Plan* plan);
  absl::Status Choose(const Product& product, Plan* plan);
  absl::Status SetPointers(const Product& product, const Plan& plan);
  absl::Status Check(cublasStatus_t status, const char* call,
                     const Product& product) const;
  void Drop(Plan& plan);

  const BlasLibrary library_;
  const cuda::Stream stream_;
  void* const workspace_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<Key, Plan> plans_;
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CUDA_BLAS_H_
