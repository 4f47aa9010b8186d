// Products: products of bf16 matrices on a GPU, summed in fp32: all that a GPT
// is made of beside kernels.h.
//
// An interface, so that the way that they are put together can be tried without
// a GPU; Blas is the real one.
//
// Thread rule: one thread.
#ifndef ROLLCALL_TRAINER_CUDA_PRODUCTS_H_
#define ROLLCALL_TRAINER_CUDA_PRODUCTS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "trainer/cuda/kernels.h"

namespace rollcall {

// What follows a product, before it is rounded.
enum class Epilogue {
  kNone,
  kBias,
  kBiasGelu,      // Keeps what GELU was given in `before`.
  kGeluBackward,  // Times GELU's slope at `before`.
};

// out[m,n] = op(a)[m,k] * op(b)[k,n] (+ add), all by rows, `..._apart` being
// the distance between rows as stored. `out` is of bf16, or of floats; `add` is
// like it and may be it. Where there is an epilogue, rows of `out` and `before`
// are n apart.
struct Product {
  int64_t m = 0, n = 0, k = 0;
  const cuda::Bf16* a = nullptr;
  const cuda::Bf16* b = nullptr;
  int64_t a_apart = 0, b_apart = 0, out_apart = 0;
  bool transpose_a = false, transpose_b = false;
  bool floats = false;
  void* out = nullptr;
  const void* add = nullptr;
  Epilogue epilogue = Epilogue::kNone;
  const cuda::Bf16* bias = nullptr;
  cuda::Bf16* before = nullptr;
};

// Of the device's memory, for whoever computes them.
inline constexpr size_t kWorkspaceBytes = 32 << 20;

class Products {
 public:
  virtual ~Products() = default;

  // Puts it into the stream. UNIMPLEMENTED: there is no way to compute it;
  // INTERNAL: it failed.
  virtual absl::Status Multiply(const Product& product) = 0;
};

// The product without its epilogue, by `products`, and that by kernels.
absl::Status MultiplyInSteps(Products& products, cuda::Stream stream,
                             const Product& product);

// INTERNAL: a kernel did not start, for what, and why.
absl::Status KernelStatus(int error, absl::string_view purpose);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CUDA_PRODUCTS_H_
