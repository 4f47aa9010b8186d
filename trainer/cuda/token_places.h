// Tables for the kernels, made on the host: the rows of each token, and tensors
// cut into pieces.
//
// Pure.
#ifndef ROLLCALL_TRAINER_CUDA_TOKEN_PLACES_H_
#define ROLLCALL_TRAINER_CUDA_TOKEN_PLACES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "trainer/cuda/kernels/kernels.h"
#include "trainer/model/adamw.h"
#include "trainer/model/parameters.h"

namespace rollcall::cuda {

// The rows of each token, in order. One block sums the gradient of one token,
// always in the same order.
struct TokenIndex {
  std::vector<TokenPlaces> places;
  std::vector<int32_t> order;

  void Sort(absl::Span<const Token> tokens);
};

// The number of rows of the token table in the bf16 copy, padded so that
// products with it suit the tensor cores. The rows after the vocabulary stay
// zero.
int PaddedVocabulary(int vocabulary);

// The offset of each tensor in the bf16 copy, aligned for products, and at the
// end the total number of elements. CopySize returns only that total.
std::vector<size_t> CopyOffsets(const GptLayout& layout);
size_t CopySize(const GptLayout& layout);

// All tensors in pieces of at most `max` elements.
std::vector<Piece> CutPieces(const GptLayout& layout, uint32_t max = kPieceMax);

// The numbers of the next AdamW update. `norm` is the norm of the gradients.
// Advances `powers`, as AdamW::Step does.
AdamWNumbers NextNumbers(const AdamWConfig& config, double norm,
                         float learning_rate, AdamWPowers& powers);

}  // namespace rollcall::cuda

#endif  // ROLLCALL_TRAINER_CUDA_TOKEN_PLACES_H_
