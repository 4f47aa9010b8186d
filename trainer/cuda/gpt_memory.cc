#include "trainer/cuda/gpt_memory.h"

#include <algorithm>

#include "trainer/cuda/products.h"
#include "trainer/cuda/token_places.h"

namespace rollcall {
namespace {

// Larger chunks of logits would not make the products' shapes better.
constexpr int64_t kChunkBytes = 512 << 20;
// Rows of a chunk are a multiple of this, which the products' tiles are, unless
// one chunk has all rows.
constexpr int64_t kChunkStep = 128;

// Rows of a chunk, of which all but the last are equal, and about as many.
int64_t ChunkRows(int64_t rows, int64_t row_bytes) {
  const int64_t most =
      std::max(kChunkBytes / row_bytes / kChunkStep, int64_t{1}) * kChunkStep;
  const int64_t chunks = (rows + most - 1) / most;
  const int64_t even = (rows + chunks - 1) / chunks;
  return std::min((even + kChunkStep - 1) / kChunkStep * kChunkStep, rows);
}

}  // namespace

void GptState::Place(const GptLayout& layout, size_t pieces_count,
                     Arena& arena) {
  for (float** part : {&weights, &first, &second}) {
    arena.Take(part, layout.size);
  }
  arena.Take(&gradients, layout.size + kExtras);
  arena.Take(&copy, cuda::CopySize(layout));
  arena.Take(&pieces, pieces_count);
  arena.Take(&square_parts, cuda::kSquareParts);
  arena.Take(&sum, 1);
  arena.Take(&fingerprint, 1);
  arena.Take(&fingerprint_parts, cuda::kFingerprintParts);
  arena.Take(&unread_extras, kExtras);
  arena.Take(&workspace, kWorkspaceBytes);
}

void GptActivations::Place(const GptConfig& config, int64_t rows,
                           Arena& arena) {
  const int64_t narrow = rows * config.width;
  const int64_t padded = cuda::PaddedVocabulary(config.vocabulary);
  chunk = ChunkRows(rows, padded * int64_t{sizeof(cuda::Bf16)});
  arena.Take(&tokens, rows);
  arena.Take(&targets, rows);
  arena.Take(&order, rows);
  arena.Take(&places, std::min<int64_t>(rows, config.vocabulary));
  arena.Take(&embedded, narrow);
  blocks.resize(config.layers);
  for (Block& b : blocks) {
    for (cuda::Bf16** v :
         {&b.norm1, &b.norm2, &b.attention_out, &b.residual, &b.out}) {
      arena.Take(v, narrow);
    }
    arena.Take(&b.qkv, 3 * narrow);
    for (cuda::Bf16** v : {&b.up, &b.active}) arena.Take(v, 4 * narrow);
    for (float** v : {&b.mean1, &b.rstd1, &b.mean2, &b.rstd2}) {
      arena.Take(v, rows);
    }
    arena.Take(&b.lse, rows * config.heads);
  }
  for (cuda::Bf16** v : {&norm, &dresidual, &dnarrow, &dattention_out}) {
    arena.Take(v, narrow);
  }
  for (float** v : {&mean, &rstd, &losses}) arena.Take(v, rows);
  arena.Take(&logits, chunk * padded);
  arena.Take(&dwide, 4 * narrow);
  arena.Take(&dots, rows * config.heads);
  arena.Take(&parts, cuda::Parts(rows) * 4 * config.width);
}

}  // namespace rollcall
