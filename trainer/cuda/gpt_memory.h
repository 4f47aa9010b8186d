// The GPU memory of a GPT: its state, and the activations of a batch.
//
// Pure. The same function counts and assigns: with an Arena without memory it
// only counts the bytes, and all pointers are null.
#ifndef ROLLCALL_TRAINER_CUDA_GPT_MEMORY_H_
#define ROLLCALL_TRAINER_CUDA_GPT_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainer/cuda/kernels/kernels.h"
#include "trainer/model/backend.h"

namespace rollcall {

// Hands out aligned arrays, one after the other. Without memory it counts how
// much the same calls need.
class Arena {
 public:
  explicit Arena(char* memory = nullptr) : memory_(memory) {}

  template <typename T>
  void Take(T** array, size_t count) {
    *array =
        memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + bytes_);
    bytes_ += (count * sizeof(T) + kAlign - 1) / kAlign * kAlign;
  }
  size_t bytes() const { return bytes_; }

 private:
  static constexpr size_t kAlign = 256;

  char* const memory_;
  size_t bytes_ = 0;
};

// The part that does not depend on the batch.
struct GptState {
  float *weights, *first, *second, *gradients;
  cuda::Bf16* copy;  // Of the weights (CopyOffsets).
  cuda::Piece* pieces;
  double* square_parts;
  double* sum;  // Of squares or losses.
  uint64_t *fingerprint, *fingerprint_parts;
  float* unread_extras;  // Of a loss without a backward pass.
  char* workspace;       // Of Blas.

  void Place(const GptLayout& layout, size_t pieces_count, Arena& arena);
};

// The activations of `rows` positions. Logits are the largest array: they are
// computed and consumed in chunks of rows.
struct GptActivations {
  // What a block keeps from the forward pass: rows x the width named.
  struct Block {
    cuda::Bf16 *norm1, *norm2, *attention_out, *residual, *out;  // width
    cuda::Bf16* qkv;                                             // 3 width
    cuda::Bf16 *up, *active;                                     // 4 width
    float *mean1, *rstd1, *mean2, *rstd2;                        // 1
    float* lse;                                                  // heads
  };

  uint16_t *tokens, *targets;
  int32_t* order;
  cuda::TokenPlaces* places;
  cuda::Bf16* embedded;
  std::vector<Block> blocks;
  cuda::Bf16* norm;
  float *mean, *rstd;
  cuda::Bf16* logits;  // chunk x padded vocabulary
  float* losses;
  // For the backward pass.
  cuda::Bf16 *dresidual, *dnarrow, *dattention_out, *dwide;
  float *dots, *parts;
  int64_t chunk = 0;

  void Place(const GptConfig& config, int64_t rows, Arena& arena);
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CUDA_GPT_MEMORY_H_
