#include "trainer/model/gpt.h"

#include <algorithm>

#include "daemon/base/check.h"
#include "trainer/model/gemm.h"
#include "trainer/model/layers.h"

namespace rollcall {

template <typename T>
Gpt<T>::Gpt(const GptConfig& config, int sequences_max, size_t extras)
    : config_(config),
      layout_(config),
      rows_max_(sequences_max * config.context),
      weights_(layout_.size),
      gradients_(layout_.size + extras),
      blocks_(config.layers) {
  CHECK(config.Validate().ok());
  const size_t rows = rows_max_;
  const size_t narrow = rows * config.width;
  embedded_.resize(narrow);
  for (Block& b : blocks_) {
    for (auto* v :
         {&b.norm1, &b.attention_out, &b.residual, &b.norm2, &b.out}) {
      v->resize(narrow);
    }
    for (auto* v : {&b.mean1, &b.rstd1, &b.mean2, &b.rstd2}) {
      v->resize(rows);
    }
    b.qkv.resize(3 * narrow);
    b.attention_weights.resize(rows * config.heads * config.context);
    for (auto* v : {&b.up, &b.tanhs, &b.active}) v->resize(4 * narrow);
  }
  for (auto* v : {&norm_, &dresidual_, &dnarrow_, &dattention_out_}) {
    v->resize(narrow);
  }
  mean_.resize(rows);
  rstd_.resize(rows);
  logits_.resize(rows * config_.vocabulary);
  dwide_.resize(4 * narrow);
}

template <typename T>
double Gpt<T>::MemoryBytes(const GptConfig& config, int sequences_max) {
  const double c = config.width;
  const double rows = double(sequences_max) * config.context;
  const double weights =
      c * (config.vocabulary + config.context) + 12 * c * c * config.layers;
  const double block = 20 * c + double(config.heads) * config.context;
  const double head = 9 * c + config.vocabulary;
  return sizeof(T) * (2 * weights + rows * (config.layers * block + head) +
                      double(config.context) * config.context);
}

template <typename T>
int Gpt<T>::Rows(absl::Span<const Token> tokens,
                 absl::Span<const Token> targets) const {
  CHECK_EQ(tokens.size(), targets.size());
  CHECK_LE(tokens.size(), static_cast<size_t>(rows_max_));
  CHECK_EQ(tokens.size() % config_.context, 0u);
  return static_cast<int>(tokens.size());
}

template <typename T>
double Gpt<T>::Loss(absl::Span<const Token> tokens,
                    absl::Span<const Token> targets) {
  const int rows = Rows(tokens, targets);
  TakeThreads();
  Forward(tokens.data(), rows);
  return CrossEntropy(logits_.data(), targets.data(), T(0), rows,
                      config_.vocabulary, &pool_);
}

template <typename T>
double Gpt<T>::LossAndGradients(absl::Span<const Token> tokens,
                                absl::Span<const Token> targets, T scale,
                                const Watch& watch) {
  const int rows = Rows(tokens, targets);
  TakeThreads();
  pool_.Split(gradients_.size(), 16384, [&](int64_t begin, int64_t end, int) {
    std::fill(gradients_.begin() + begin, gradients_.begin() + end, T(0));
  });
  if (rows == 0) {
    if (watch.before_backward) watch.before_backward(0);
    if (watch.block_done) watch.block_done(0);
    return 0;
  }
  Forward(tokens.data(), rows);
  const double loss = CrossEntropy(logits_.data(), targets.data(), scale, rows,
                                   config_.vocabulary, &pool_);
  if (watch.before_backward) watch.before_backward(loss);
  Backward(tokens.data(), rows, watch);
  return loss;
}

template <typename T>
void Gpt<T>::TakeThreads() {
  pool_.Resize(openblas_get_num_threads());
  dscores_.resize(AttentionScratch(config_.context, pool_.threads()));
}

template <typename T>
void Gpt<T>::Forward(const Token* tokens, int rows) {
  const int c = config_.width;
  EmbedForward(embedded_.data(), tokens, W(layout_.token_table),
               W(layout_.position_table), rows, config_.context, c);
  const T* x = embedded_.data();
  for (int i = 0; i < config_.layers; ++i) {
    ForwardBlock(layout_.blocks[i], x, blocks_[i], rows);
    x = blocks_[i].out.data();
  }
  LayerNormForward(norm_.data(), mean_.data(), rstd_.data(), x,
                   W(layout_.norm_gain), W(layout_.norm_bias), rows, c, &pool_);
  Gemm(Transpose::kNo, Transpose::kYes, rows, config_.vocabulary, c, T(1),
       norm_.data(), c, W(layout_.token_table), c, T(0), logits_.data(),
       config_.vocabulary);
}

template <typename T>
void Gpt<T>::ForwardBlock(const BlockLayout& at, const T* in, Block& b,
                          int rows) {
  const int c = config_.width;
  const size_t narrow = size_t(rows) * c;
  LayerNormForward(b.norm1.data(), b.mean1.data(), b.rstd1.data(), in,
                   W(at.norm1_gain), W(at.norm1_bias), rows, c, &pool_);
  LinearForward(b.qkv.data(), b.norm1.data(), W(at.qkv_weight), W(at.qkv_bias),
                rows, c, 3 * c, nullptr, &pool_);
  AttentionForward(b.attention_out.data(), b.attention_weights.data(),
                   b.qkv.data(), rows / config_.context, config_.context, c,
                   config_.heads, &pool_);
  LinearForward(b.residual.data(), b.attention_out.data(), W(at.merge_weight),
                W(at.merge_bias), rows, c, c, in, &pool_);

  LayerNormForward(b.norm2.data(), b.mean2.data(), b.rstd2.data(),
                   b.residual.data(), W(at.norm2_gain), W(at.norm2_bias), rows,
                   c, &pool_);
  LinearForward(b.up.data(), b.norm2.data(), W(at.up_weight), W(at.up_bias),
                rows, c, 4 * c, nullptr, &pool_);
  GeluForward(b.active.data(), b.tanhs.data(), b.up.data(), 4 * narrow, &pool_);
  LinearForward(b.out.data(), b.active.data(), W(at.down_weight),
                W(at.down_bias), rows, 4 * c, c, b.residual.data(), &pool_);
}

template <typename T>
void Gpt<T>::Backward(const Token* tokens, int rows, const Watch& watch) {
  const int c = config_.width;
  const int v = config_.vocabulary;
  // The output matrix is the token table, so its gradient has two parts.
  Gemm(Transpose::kNo, Transpose::kNo, rows, c, v, T(1), logits_.data(), v,
       W(layout_.token_table), c, T(0), dnarrow_.data(), c);
  Gemm(Transpose::kYes, Transpose::kNo, v, c, rows, T(1), logits_.data(), v,
       norm_.data(), c, T(1), G(layout_.token_table), c);
  std::fill_n(dresidual_.begin(), size_t(rows) * c, T(0));
  LayerNormBackward(dresidual_.data(), G(layout_.norm_gain),
                    G(layout_.norm_bias), dnarrow_.data(),
                    blocks_.back().out.data(), W(layout_.norm_gain),
                    mean_.data(), rstd_.data(), rows, c, &pool_);
  for (int i = config_.layers - 1; i >= 0; --i) {
    const T* in = i > 0 ? blocks_[i - 1].out.data() : embedded_.data();
    BackwardBlock(layout_.blocks[i], in, blocks_[i], rows);
    if (watch.block_done) watch.block_done(i);
  }
  EmbedBackward(G(layout_.token_table), G(layout_.position_table), tokens,
                dresidual_.data(), rows, config_.context, c);
}

// On entry dresidual_ holds the gradient of the block's output, on return that
// of its input: the residual path passes it on, and the layers add theirs.
template <typename T>
void Gpt<T>::BackwardBlock(const BlockLayout& at, const T* in, Block& b,
                           int rows) {
  const int c = config_.width;
  const size_t narrow = size_t(rows) * c;
  T* dresidual = dresidual_.data();
  LinearBackward(dwide_.data(), G(at.down_weight), G(at.down_bias), dresidual,
                 b.active.data(), W(at.down_weight), rows, 4 * c, c, &pool_);
  GeluBackward(dwide_.data(), b.up.data(), b.tanhs.data(), 4 * narrow, &pool_);
  LinearBackward(dnarrow_.data(), G(at.up_weight), G(at.up_bias), dwide_.data(),
                 b.norm2.data(), W(at.up_weight), rows, c, 4 * c, &pool_);
  LayerNormBackward(dresidual, G(at.norm2_gain), G(at.norm2_bias),
                    dnarrow_.data(), b.residual.data(), W(at.norm2_gain),
                    b.mean2.data(), b.rstd2.data(), rows, c, &pool_);

  LinearBackward(dattention_out_.data(), G(at.merge_weight), G(at.merge_bias),
                 dresidual, b.attention_out.data(), W(at.merge_weight), rows, c,
                 c, &pool_);
  AttentionBackward(dwide_.data(), dscores_.data(), dattention_out_.data(),
                    b.qkv.data(), b.attention_weights.data(),
                    rows / config_.context, config_.context, c, config_.heads,
                    &pool_);
  LinearBackward(dnarrow_.data(), G(at.qkv_weight), G(at.qkv_bias),
                 dwide_.data(), b.norm1.data(), W(at.qkv_weight), rows, c,
                 3 * c, &pool_);
  LayerNormBackward(dresidual, G(at.norm1_gain), G(at.norm1_bias),
                    dnarrow_.data(), in, W(at.norm1_gain), b.mean1.data(),
                    b.rstd1.data(), rows, c, &pool_);
}

template class Gpt<float>;
template class Gpt<double>;

}  // namespace rollcall
