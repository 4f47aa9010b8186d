// Tables that the kernels work by, made on the host: where each token stands,
// and tensors cut into pieces.
//
// Pure.
#ifndef ROLLCALL_TRAINER_CUDA_TOKEN_PLACES_H_
#define ROLLCALL_TRAINER_CUDA_TOKEN_PLACES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "trainer/cuda/kernels.h"
#include "trainer/model/adamw.h"
#include "trainer/model/parameters.h"

namespace rollcall::cuda {

// The rows of each token, in their order: so that its gradient is summed by
// one block, always alike.
struct TokenIndex {
  std::vector<TokenPlaces> places;
  std::vector<int32_t> order;

  void Sort(absl::Span<const Token> tokens);
};

// Rows of the token table in the bf16 copy: so many that products with it have
// sides which tensor cores like. Those behind the vocabulary stay zero.
int PaddedVocabulary(int vocabulary);

// Where each tensor begins in the bf16 copy, aligned as products want it, and
// how many elements that has in all.
std::vector<size_t> CopyOffsets(const GptLayout& layout);
size_t CopySize(const GptLayout& layout);

// All tensors in pieces of up to `most`.
std::vector<Piece> CutPieces(const GptLayout& layout,
                             uint32_t most = kPieceMost);

// What the next update computes with, `norm` being that of the gradients;
// moves `powers` on, as AdamW::Step does.
AdamWNumbers NextNumbers(const AdamWConfig& config, double norm,
                         float learning_rate, AdamWPowers& powers);

}  // namespace rollcall::cuda

#endif  // ROLLCALL_TRAINER_CUDA_TOKEN_PLACES_H_
