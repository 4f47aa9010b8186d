// Products: products of bf16 matrices on a GPU, summed in fp32. With kernels.h
// they make up a GPT.
//
// An interface, so that the passes can be tested without a GPU; Blas is the
// real implementation.
//
// Thread rule: one thread.
#ifndef ROLLCALL_TRAINER_CUDA_PRODUCTS_H_
#define ROLLCALL_TRAINER_CUDA_PRODUCTS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "trainer/cuda/kernels/kernels.h"

namespace rollcall {

// The operation that is applied to a product before it is rounded.
enum class Epilogue {
  kNone,
  kBias,
  kBiasGelu,      // Stores the input of GELU in `before`.
  kGeluBackward,  // Multiplies by the slope of GELU at `before`.
};

// out[m,n] = op(a)[m,k] * op(b)[k,n] (+ add), all row-major; `..._stride` is
// the distance between rows in memory. `out` is bf16, or float if `floats`.
// `add` has the type of `out` and may be `out`. With an epilogue, the rows of
// `out` and `before` must be n apart.
struct Product {
  int64_t m = 0, n = 0, k = 0;
  const cuda::Bf16* a = nullptr;
  const cuda::Bf16* b = nullptr;
  int64_t a_stride = 0, b_stride = 0, out_stride = 0;
  bool transpose_a = false, transpose_b = false;
  bool floats = false;
  void* out = nullptr;
  const void* add = nullptr;
  Epilogue epilogue = Epilogue::kNone;
  const cuda::Bf16* bias = nullptr;
  cuda::Bf16* before = nullptr;
};

// The size of the device memory that the implementation may use.
inline constexpr size_t kWorkspaceBytes = 32 << 20;

class Products {
 public:
  virtual ~Products() = default;

  // Puts the product into the stream. UNIMPLEMENTED: it cannot be computed.
  // INTERNAL: a call failed.
  virtual absl::Status Multiply(const Product& product) = 0;
};

// Computes the product without its epilogue by `products`, and then the
// epilogue by kernels.
absl::Status MultiplyInSteps(Products& products, cuda::Stream stream,
                             const Product& product);

// INTERNAL: a kernel did not start; the message has `purpose` and the error.
absl::Status KernelStatus(int error, absl::string_view purpose);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CUDA_PRODUCTS_H_
