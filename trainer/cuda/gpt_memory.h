// What a GPT keeps in a GPU's memory: its state, and the activations of a
// batch.
//
// Pure but for Arena's pointers, which may be none: the same function counts
// and places.
#ifndef ROLLCALL_TRAINER_CUDA_GPT_MEMORY_H_
#define ROLLCALL_TRAINER_CUDA_GPT_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainer/cuda/kernels.h"
#include "trainer/model/backend.h"

namespace rollcall {

// Gives out arrays, aligned, one behind the other. Without memory it counts
// what the same calls will need.
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

// Whatever the batch.
struct GptState {
  float *weights, *first, *second, *gradients;
  cuda::Bf16* copy;  // The weights' (CopyOffsets).
  cuda::Piece* pieces;
  double* square_parts;
  double* sum;           // Of squares, or of losses.
  float* unread_extras;  // Of a loss that is not trained on.
  char* workspace;       // Blas's.

  void Place(const GptLayout& layout, size_t pieces_count, Arena& arena);
};

// Of `rows` positions. Logits, the largest of all, are made and used up in
// chunks of rows.
struct GptActivations {
  // What a block keeps of its way forward: rows x the width named.
  struct Block {
    cuda::Bf16 *norm1, *norm2, *mixed, *middle, *out;  // width
    cuda::Bf16* qkv;                                   // 3 width
    cuda::Bf16 *up, *active;                           // 4 width
    float *mean1, *deviation1, *mean2, *deviation2;    // 1
    float* logsum;                                     // heads
  };

  uint16_t *tokens, *targets;
  int32_t* order;
  cuda::TokenPlaces* places;
  cuda::Bf16* embedded;
  std::vector<Block> blocks;
  cuda::Bf16* norm;
  float *mean, *deviation;
  cuda::Bf16* logits;  // chunk x padded vocabulary
  float* losses;
  // On the way back.
  cuda::Bf16 *dresidual, *dnarrow, *dmiddle, *dwide;
  float *dots, *parts;
  int64_t chunk = 0;

  void Place(const GptConfig& config, int64_t rows, Arena& arena);
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CUDA_GPT_MEMORY_H_
