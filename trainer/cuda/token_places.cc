#include "trainer/cuda/token_places.h"

#include <algorithm>

namespace rollcall::cuda {
namespace {

constexpr size_t kCopyAlign = 128;  // In elements: 256 bytes.
constexpr int kVocabularyStep = 128;

size_t Up(size_t value, size_t step) {
  return (value + step - 1) / step * step;
}

}  // namespace

void TokenIndex::Sort(absl::Span<const Token> tokens) {
  std::vector<int32_t> count(GptConfig::kVocabularyMax + 1);
  for (Token t : tokens) ++count[t + 1];
  places.clear();
  for (int t = 0; t < GptConfig::kVocabularyMax; ++t) {
    const int32_t begin = count[t];
    const int32_t end = begin + count[t + 1];
    if (end > begin) places.push_back({t, begin, end});
    count[t + 1] = end;
  }
  order.resize(tokens.size());
  for (size_t row = 0; row < tokens.size(); ++row) {
    order[count[tokens[row]]++] = static_cast<int32_t>(row);
  }
}

int PaddedVocabulary(int vocabulary) {
  return static_cast<int>(Up(vocabulary, kVocabularyStep));
}

std::vector<size_t> CopyOffsets(const GptLayout& layout) {
  std::vector<size_t> offsets;
  size_t at = 0;
  for (const Tensor& tensor : layout.tensors) {
    offsets.push_back(at);
    size_t size = tensor.size;
    if (tensor.offset == layout.token_table) {
      size = size_t(PaddedVocabulary(tensor.shape[0])) * tensor.shape[1];
    }
    at += Up(size, kCopyAlign);
  }
  offsets.push_back(at);
  return offsets;
}

size_t CopySize(const GptLayout& layout) { return CopyOffsets(layout).back(); }

std::vector<Piece> CutPieces(const GptLayout& layout, uint32_t max) {
  const std::vector<size_t> offsets = CopyOffsets(layout);
  std::vector<Piece> pieces;
  for (size_t t = 0; t < layout.tensors.size(); ++t) {
    const Tensor& tensor = layout.tensors[t];
    for (size_t at = 0; at < tensor.size; at += max) {
      const size_t count = std::min<size_t>(max, tensor.size - at);
      pieces.push_back({tensor.offset + at, offsets[t] + at,
                        static_cast<uint32_t>(count),
                        tensor.decays() ? 1u : 0u});
    }
  }
  return pieces;
}

AdamWNumbers NextNumbers(const AdamWConfig& config, double norm,
                         float learning_rate, AdamWPowers& powers) {
  powers.beta1 *= config.beta1;
  powers.beta2 *= config.beta2;
  AdamWNumbers n;
  n.beta1 = config.beta1;
  n.beta2 = config.beta2;
  n.epsilon = config.epsilon;
  n.shrink = norm > config.clip ? static_cast<float>(config.clip / norm) : 1.0f;
  n.bias1 = static_cast<float>(1 / (1 - powers.beta1));
  n.bias2 = static_cast<float>(1 / (1 - powers.beta2));
  n.learning_rate = learning_rate;
  n.keep = 1 - learning_rate * config.weight_decay;
  return n;
}

}  // namespace rollcall::cuda
