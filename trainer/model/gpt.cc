#include "trainer/model/gpt.h"

#include <algorithm>

#include "daemon/base/check.h"
#include "trainer/model/cpu/gemm.h"
#include "trainer/model/layers.h"

namespace rollcall {
namespace {

int RoundUp(int value, int step) { return (value + step - 1) / step * step; }

}  // namespace

template <typename T>
Gpt<T>::Gpt(const GptConfig& config, int sequences_max, size_t extras)
    : config_(config),
      layout_(config),
      unit_(UnitSequences(config) * config.context),
      rows_max_(RoundUp(std::max(sequences_max, 1), UnitSequences(config)) *
                config.context),
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
int Gpt<T>::UnitSequences(const GptConfig& config) {
  return (kUnitRows + config.context - 1) / config.context;
}

template <typename T>
double Gpt<T>::MemoryBytes(const GptConfig& config, int sequences_max) {
  const double c = config.width;
  const double rows =
      double(RoundUp(sequences_max, UnitSequences(config))) * config.context;
  const double weights =
      c * (config.vocabulary + config.context) + 12 * c * c * config.layers;
  const double block = 20 * c + double(config.heads) * config.context;
  const double head = 9 * c + config.vocabulary;
  return sizeof(T) * (2 * weights + rows * (config.layers * block + head) +
                      double(config.context) * config.context);
}

template <typename T>
int64_t Gpt<T>::Rows(absl::Span<const Token> tokens,
                     absl::Span<const Token> targets) const {
  CHECK_EQ(tokens.size(), targets.size());
  CHECK_EQ(tokens.size() % config_.context, 0u);
  return static_cast<int64_t>(tokens.size());
}

template <typename T>
template <typename F>
void Gpt<T>::EachMicroBatch(int64_t rows, const F& work) const {
  for (int64_t first = 0; first < rows; first += rows_max_) {
    work(first, static_cast<int>(std::min<int64_t>(rows_max_, rows - first)));
  }
}

template <typename T>
template <typename F>
void Gpt<T>::EachUnit(int rows, const F& work) const {
  for (int first = 0; first < rows; first += unit_) {
    work(first, std::min(unit_, rows - first));
  }
}

template <typename T>
absl::Span<const T> Gpt<T>::Next(absl::Span<const Token> tokens) {
  CHECK_GE(config_.context, static_cast<int>(tokens.size()));
  CHECK_GE(tokens.size(), 1u);
  TakeThreads();
  // No position sees the padding after it.
  std::vector<Token> padded(tokens.begin(), tokens.end());
  padded.resize(config_.context);
  Forward(padded.data(), config_.context);
  const size_t v = config_.vocabulary;
  return absl::MakeConstSpan(logits_).subspan((tokens.size() - 1) * v, v);
}

template <typename T>
double Gpt<T>::Loss(absl::Span<const Token> tokens,
                    absl::Span<const Token> targets) {
  TakeThreads();
  double loss = 0;
  EachMicroBatch(Rows(tokens, targets), [&](int64_t first, int rows) {
    Forward(tokens.data() + first, rows);
    loss = CrossEntropy(logits_.data(), targets.data() + first, T(0), rows,
                        config_.vocabulary, &pool_, loss);
  });
  return loss;
}

template <typename T>
double Gpt<T>::LossAndGradients(absl::Span<const Token> tokens,
                                absl::Span<const Token> targets, T scale,
                                const Watch& watch) {
  const int64_t all = Rows(tokens, targets);
  TakeThreads();
  pool_.Split(gradients_.size(), 16384, [&](int64_t begin, int64_t end, int) {
    std::fill(gradients_.begin() + begin, gradients_.begin() + end, T(0));
  });
  if (all == 0) {
    if (watch.before_backward) watch.before_backward(0);
    if (watch.block_done) watch.block_done(0);
    return 0;
  }
  double loss = 0;
  EachMicroBatch(all, [&](int64_t first, int rows) {
    Forward(tokens.data() + first, rows);
    loss = CrossEntropy(logits_.data(), targets.data() + first, scale, rows,
                        config_.vocabulary, &pool_, loss);
    const bool last = first + rows == all;
    if (last && watch.before_backward) watch.before_backward(loss);
    Backward(tokens.data() + first, rows, last ? &watch : nullptr);
  });
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
  const int64_t v = config_.vocabulary;
  EachUnit(rows, [&](int64_t first, int count) {
    Gemm(Transpose::kNo, Transpose::kYes, count, v, c, T(1),
         norm_.data() + first * c, c, W(layout_.token_table), c, T(0),
         logits_.data() + first * v, v);
  });
}

template <typename T>
void Gpt<T>::Linear(T* out, const T* in, size_t weight, size_t bias, int rows,
                    int from, int to, const T* more) {
  EachUnit(rows, [&](int64_t first, int count) {
    LinearForward(out + first * to, in + first * from, W(weight), W(bias),
                  count, from, to,
                  more == nullptr ? nullptr : more + first * to, &pool_);
  });
}

template <typename T>
void Gpt<T>::ForwardBlock(const BlockLayout& at, const T* in, Block& b,
                          int rows) {
  const int c = config_.width;
  const size_t narrow = size_t(rows) * c;
  LayerNormForward(b.norm1.data(), b.mean1.data(), b.rstd1.data(), in,
                   W(at.norm1_gain), W(at.norm1_bias), rows, c, &pool_);
  Linear(b.qkv.data(), b.norm1.data(), at.qkv_weight, at.qkv_bias, rows, c,
         3 * c, nullptr);
  AttentionForward(b.attention_out.data(), b.attention_weights.data(),
                   b.qkv.data(), rows / config_.context, config_.context, c,
                   config_.heads, &pool_);
  Linear(b.residual.data(), b.attention_out.data(), at.merge_weight,
         at.merge_bias, rows, c, c, in);

  LayerNormForward(b.norm2.data(), b.mean2.data(), b.rstd2.data(),
                   b.residual.data(), W(at.norm2_gain), W(at.norm2_bias), rows,
                   c, &pool_);
  Linear(b.up.data(), b.norm2.data(), at.up_weight, at.up_bias, rows, c, 4 * c,
         nullptr);
  GeluForward(b.active.data(), b.tanhs.data(), b.up.data(), 4 * narrow, &pool_);
  Linear(b.out.data(), b.active.data(), at.down_weight, at.down_bias, rows,
         4 * c, c, b.residual.data());
}

template <typename T>
void Gpt<T>::Backward(const Token* tokens, int rows, const Watch* watch) {
  const int c = config_.width;
  const int64_t v = config_.vocabulary;
  EachUnit(rows, [&](int64_t first, int count) {
    Gemm(Transpose::kNo, Transpose::kNo, count, c, v, T(1),
         logits_.data() + first * v, v, W(layout_.token_table), c, T(0),
         dnarrow_.data() + first * c, c);
  });
  std::fill_n(dresidual_.begin(), size_t(rows) * c, T(0));
  LayerNormBackward(dresidual_.data(), G(layout_.norm_gain),
                    G(layout_.norm_bias), dnarrow_.data(),
                    blocks_.back().out.data(), W(layout_.norm_gain),
                    mean_.data(), rstd_.data(), rows, c, &pool_);
  for (int i = config_.layers - 1; i >= 0; --i) {
    const T* in = i > 0 ? blocks_[i - 1].out.data() : embedded_.data();
    BackwardBlock(layout_.blocks[i], in, blocks_[i], rows);
    if (watch != nullptr && watch->block_done) watch->block_done(i);
  }
  // The output matrix is the token table, so its gradient has two parts. Both
  // are added unit by unit, because a later unit may be in another micro-batch.
  EachUnit(rows, [&](int64_t first, int count) {
    Gemm(Transpose::kYes, Transpose::kNo, v, c, count, T(1),
         logits_.data() + first * v, v, norm_.data() + first * c, c, T(1),
         G(layout_.token_table), c);
    EmbedBackward(G(layout_.token_table), G(layout_.position_table),
                  tokens + first, dresidual_.data() + first * c, count,
                  config_.context, c);
  });
}

template <typename T>
void Gpt<T>::LinearBack(T* din, const T* dout, const T* in, size_t weight,
                        size_t bias, int rows, int from, int to) {
  EachUnit(rows, [&](int64_t first, int count) {
    LinearBackward(din + first * from, G(weight), G(bias), dout + first * to,
                   in + first * from, W(weight), count, from, to, &pool_);
  });
}

// On entry dresidual_ holds the gradient of the block's output, on return that
// of the block's input: the residual path passes the gradient on, and the
// layers add theirs.
template <typename T>
void Gpt<T>::BackwardBlock(const BlockLayout& at, const T* in, Block& b,
                           int rows) {
  const int c = config_.width;
  const size_t narrow = size_t(rows) * c;
  T* dresidual = dresidual_.data();
  LinearBack(dwide_.data(), dresidual, b.active.data(), at.down_weight,
             at.down_bias, rows, 4 * c, c);
  GeluBackward(dwide_.data(), b.up.data(), b.tanhs.data(), 4 * narrow, &pool_);
  LinearBack(dnarrow_.data(), dwide_.data(), b.norm2.data(), at.up_weight,
             at.up_bias, rows, c, 4 * c);
  LayerNormBackward(dresidual, G(at.norm2_gain), G(at.norm2_bias),
                    dnarrow_.data(), b.residual.data(), W(at.norm2_gain),
                    b.mean2.data(), b.rstd2.data(), rows, c, &pool_);

  LinearBack(dattention_out_.data(), dresidual, b.attention_out.data(),
             at.merge_weight, at.merge_bias, rows, c, c);
  AttentionBackward(dwide_.data(), dscores_.data(), dattention_out_.data(),
                    b.qkv.data(), b.attention_weights.data(),
                    rows / config_.context, config_.context, c, config_.heads,
                    &pool_);
  LinearBack(dnarrow_.data(), dwide_.data(), b.norm1.data(), at.qkv_weight,
             at.qkv_bias, rows, c, 3 * c);
  LayerNormBackward(dresidual, G(at.norm1_gain), G(at.norm1_bias),
                    dnarrow_.data(), in, W(at.norm1_gain), b.mean1.data(),
                    b.rstd1.data(), rows, c, &pool_);
}

template class Gpt<float>;
template class Gpt<double>;

}  // namespace rollcall
