// The tensors of a GPT in one flat array: names, shapes, offsets and initial
// values.
//
// Names, shapes and orientation are those of Hugging Face's GPT-2
// (`wte.weight`, `h.0.attn.c_attn.weight` as [in, out], ...). Pure.
#ifndef ROLLCALL_TRAINER_MODEL_PARAMETERS_H_
#define ROLLCALL_TRAINER_MODEL_PARAMETERS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace rollcall {

// An element of the vocabulary: a byte, or one of GPT-2's 50,257.
using Token = uint16_t;

struct GptConfig {
  int layers = 3;
  int heads = 4;
  int width = 128;
  int context = 64;

  int vocabulary = 256;

  static constexpr int kVocabularyMax = 65536;  // The number of values of a
                                                // Token.
  static constexpr int kLayersMax = 256;
  static constexpr int kWidthMax = 16384;
  static constexpr int kContextMax = 8192;

  // INVALID_ARGUMENT: the message names the field, its value and the valid
  // range.
  absl::Status Validate() const;
};

struct Tensor {
  std::string name;
  std::vector<int> shape;
  size_t offset = 0;  // In the flat array, in elements.
  size_t size = 0;

  // Weight decay applies to matrices, not to gains and biases.
  bool decays() const { return shape.size() > 1; }
};

// Offsets of one block's tensors in the flat array.
struct BlockLayout {
  size_t norm1_gain, norm1_bias;
  size_t qkv_weight, qkv_bias;
  size_t merge_weight, merge_bias;
  size_t norm2_gain, norm2_bias;
  size_t up_weight, up_bias;
  size_t down_weight, down_bias;
};

struct GptLayout {
  // `config` must be valid.
  explicit GptLayout(const GptConfig& config);

  std::vector<Tensor> tensors;  // In the order of the flat array.
  size_t size = 0;              // Total, in elements.
  size_t token_table, position_table;
  std::vector<BlockLayout> blocks;
  size_t norm_gain, norm_bias;

 private:
  size_t Add(std::string name, std::vector<int> shape);
};

// Sets initial values from the seed: GPT-2's standard deviations (0.02; for
// projections into the residual divided by the square root of their number),
// gains 1, biases 0. Uses only integer arithmetic and exact products, so that
// every machine gets the same bits with any math library.
void InitializeWeights(const GptConfig& config, const GptLayout& layout,
                       uint64_t seed, absl::Span<float> weights);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_MODEL_PARAMETERS_H_
