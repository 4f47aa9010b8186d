#include "trainer/cuda/gpt_passes.h"

#include <algorithm>

#include "trainer/cuda/token_places.h"

namespace rollcall {

using cuda::Bf16;

GptPasses::GptPasses(const GptConfig& config, const GptLayout& layout,
                     const GptState& state, cuda::Stream stream,
                     Products& products)
    : config_(config),
      layout_(layout),
      state_(state),
      stream_(stream),
      products_(products),
      copy_offsets_(cuda::CopyOffsets(layout)),
      padded_(cuda::PaddedVocabulary(config.vocabulary)) {}

const Bf16* GptPasses::WeightsBf16(size_t offset) const {
  const auto tensor = std::lower_bound(
      layout_.tensors.begin(), layout_.tensors.end(), offset,
      [](const Tensor& t, size_t at) { return t.offset < at; });
  return state_.copy + copy_offsets_[tensor - layout_.tensors.begin()];
}

void GptPasses::Do(int error, absl::string_view purpose) {
  if (status_.ok()) status_ = KernelStatus(error, purpose);
}

void GptPasses::Multiply(const Product& product) {
  if (status_.ok()) status_ = products_.Multiply(product);
}

// --- Forward -----------------------------------------------------------------

// out = in * weight + bias (+ residual), or GELU of that; then the input of
// GELU is kept in `before_gelu`.
void GptPasses::Linear(Bf16* out, const Bf16* in, size_t weight, size_t bias,
                       int64_t rows, int64_t from, int64_t to,
                       const Bf16* residual, Bf16* before_gelu) {
  Product p;
  p.m = rows;
  p.n = to;
  p.k = from;
  p.a = in;
  p.a_stride = from;
  p.b = WeightsBf16(weight);
  p.b_stride = to;
  p.out = out;
  p.out_stride = to;
  p.add = residual;
  p.bias = WeightsBf16(bias);
  p.before = before_gelu;
  p.epilogue = before_gelu == nullptr ? Epilogue::kBias : Epilogue::kBiasGelu;
  Multiply(p);
}

void GptPasses::Forward(const GptActivations& a, int64_t rows) {
  Do(cuda::EmbedForward(
         stream_, a.embedded, a.tokens, Weights(layout_.token_table),
         Weights(layout_.position_table), rows, config_.context, config_.width),
     "the embedding");
  const Bf16* x = a.embedded;
  for (int i = 0; i < config_.layers; ++i) {
    ForwardBlock(a, layout_.blocks[i], x, a.blocks[i], rows);
    x = a.blocks[i].out;
  }
  Do(cuda::LayerNormForward(stream_, a.norm, a.mean, a.rstd, x,
                            Weights(layout_.norm_gain),
                            Weights(layout_.norm_bias), rows, config_.width),
     "a layer norm");
}

void GptPasses::ForwardBlock(const GptActivations&, const BlockLayout& at,
                             const Bf16* in, const GptActivations::Block& b,
                             int64_t rows) {
  const int64_t width = config_.width;
  Do(cuda::LayerNormForward(stream_, b.norm1, b.mean1, b.rstd1, in,
                            Weights(at.norm1_gain), Weights(at.norm1_bias),
                            rows, width),
     "a layer norm");
  Linear(b.qkv, b.norm1, at.qkv_weight, at.qkv_bias, rows, width, 3 * width,
         nullptr, nullptr);
  Do(cuda::AttentionForward(stream_, b.attention_out, b.lse, b.qkv,
                            rows / config_.context, config_.context, width,
                            config_.heads),
     "attention");
  Linear(b.residual, b.attention_out, at.merge_weight, at.merge_bias, rows,
         width, width, in, nullptr);
  Do(cuda::LayerNormForward(stream_, b.norm2, b.mean2, b.rstd2, b.residual,
                            Weights(at.norm2_gain), Weights(at.norm2_bias),
                            rows, width),
     "a layer norm");
  Linear(b.active, b.norm2, at.up_weight, at.up_bias, rows, width, 4 * width,
         nullptr, b.up);
  Linear(b.out, b.active, at.down_weight, at.down_bias, rows, 4 * width, width,
         b.residual, nullptr);
}

// The logits of rows first, ... and their losses. The logits become gradients.
void GptPasses::Logits(const GptActivations& a, int64_t first, int64_t rows,
                       float scale) {
  Product p;
  p.m = rows;
  p.n = padded_;
  p.k = config_.width;
  p.a = a.norm + first * config_.width;
  p.a_stride = config_.width;
  p.b = WeightsBf16(layout_.token_table);
  p.b_stride = config_.width;
  p.transpose_b = true;
  p.out = a.logits;
  p.out_stride = padded_;
  Multiply(p);
  Do(cuda::CrossEntropy(stream_, a.logits, a.losses + first, a.targets + first,
                        scale, rows, config_.vocabulary, padded_),
     "the loss");
}

absl::Status GptPasses::Loss(const GptActivations& a, int64_t rows, bool add) {
  Forward(a, rows);
  for (int64_t first = 0; first < rows; first += a.chunk) {
    Logits(a, first, std::min(a.chunk, rows - first), 0);
  }
  Do(cuda::SumLosses(stream_, state_.sum, state_.unread_extras, a.losses, rows,
                     0, 0, add),
     "the loss");
  return status_;
}

// --- Backward ----------------------------------------------------------------

// The output matrix is the token table: this is the first part of its gradient,
// summed over all chunks in order.
void GptPasses::LogitsBackward(const GptActivations& a, int64_t first,
                               int64_t rows) {
  const int64_t width = config_.width;
  Product dnorm;
  dnorm.m = rows;
  dnorm.n = width;
  dnorm.k = padded_;
  dnorm.a = a.logits;
  dnorm.a_stride = padded_;
  dnorm.b = WeightsBf16(layout_.token_table);
  dnorm.b_stride = width;
  dnorm.out = a.dnarrow + first * width;
  dnorm.out_stride = width;
  Multiply(dnorm);
  // Hopper's kernels need a multiple of 8 rows; the others come by themselves.
  const int64_t aligned = config_.vocabulary / cuda::kPack * cuda::kPack;
  TableGradient(a, first, rows, 0, aligned);
  TableGradient(a, first, rows, aligned, config_.vocabulary);
}

// Rows begin to end - 1 of the token table's gradient.
void GptPasses::TableGradient(const GptActivations& a, int64_t first,
                              int64_t rows, int64_t begin, int64_t end) {
  if (begin == end) return;
  const int64_t width = config_.width;
  Product dtable;
  dtable.m = end - begin;
  dtable.n = width;
  dtable.k = rows;
  dtable.a = a.logits + begin;
  dtable.a_stride = padded_;
  dtable.transpose_a = true;
  dtable.b = a.norm + first * width;
  dtable.b_stride = width;
  dtable.floats = true;
  dtable.out = Gradients(layout_.token_table) + begin * width;
  dtable.out_stride = width;
  if (first > 0 || add_) dtable.add = dtable.out;
  Multiply(dtable);
}

// din = dout * weight^T, through GELU if `before_gelu` has the input of GELU;
// and the gradients of weight and bias.
void GptPasses::LinearBackward(const GptActivations& a, Bf16* din,
                               const Bf16* dout, const Bf16* in, size_t weight,
                               size_t bias, int64_t rows, int64_t from,
                               int64_t to, Bf16* before_gelu) {
  Product d;
  d.m = rows;
  d.n = from;
  d.k = to;
  d.a = dout;
  d.a_stride = to;
  d.b = WeightsBf16(weight);
  d.b_stride = to;
  d.transpose_b = true;
  d.out = din;
  d.out_stride = from;
  d.before = before_gelu;
  d.epilogue =
      before_gelu == nullptr ? Epilogue::kNone : Epilogue::kGeluBackward;
  Multiply(d);
  Product dweight;
  dweight.m = from;
  dweight.n = to;
  dweight.k = rows;
  dweight.a = in;
  dweight.a_stride = from;
  dweight.transpose_a = true;
  dweight.b = dout;
  dweight.b_stride = to;
  dweight.floats = true;
  dweight.out = Gradients(weight);
  dweight.out_stride = to;
  if (add_) dweight.add = dweight.out;
  Multiply(dweight);
  Do(cuda::BiasBackward(stream_, Gradients(bias), a.parts, dout, rows, to,
                        add_),
     "a bias's gradient");
}

// On entry a.dresidual holds the gradient of the block's output, on return that
// of its input.
void GptPasses::BackwardBlock(const GptActivations& a, const BlockLayout& at,
                              const Bf16* in, const GptActivations::Block& b,
                              int64_t rows) {
  const int64_t width = config_.width;
  LinearBackward(a, a.dwide, a.dresidual, b.active, at.down_weight,
                 at.down_bias, rows, 4 * width, width, b.up);
  LinearBackward(a, a.dnarrow, a.dwide, b.norm2, at.up_weight, at.up_bias, rows,
                 width, 4 * width, nullptr);
  Do(cuda::LayerNormBackward(stream_, a.dresidual, Gradients(at.norm2_gain),
                             Gradients(at.norm2_bias), a.parts, a.dnarrow,
                             b.residual, Weights(at.norm2_gain), b.mean2,
                             b.rstd2, rows, width, add_),
     "a layer norm's gradient");
  LinearBackward(a, a.dattention_out, a.dresidual, b.attention_out,
                 at.merge_weight, at.merge_bias, rows, width, width, nullptr);
  Do(cuda::AttentionBackward(
         stream_, a.dwide, a.dots, a.dattention_out, b.attention_out, b.qkv,
         b.lse, rows / config_.context, config_.context, width, config_.heads),
     "attention's gradient");
  LinearBackward(a, a.dnarrow, a.dwide, b.norm1, at.qkv_weight, at.qkv_bias,
                 rows, width, 3 * width, nullptr);
  Do(cuda::LayerNormBackward(stream_, a.dresidual, Gradients(at.norm1_gain),
                             Gradients(at.norm1_bias), a.parts, a.dnarrow, in,
                             Weights(at.norm1_gain), b.mean1, b.rstd1, rows,
                             width, add_),
     "a layer norm's gradient");
}

absl::Status GptPasses::LossAndGradients(const GptActivations& a,
                                         const Step& step) {
  const int64_t rows = step.rows;
  add_ = step.add;
  const int64_t width = config_.width;
  Forward(a, rows);
  for (int64_t first = 0; first < rows; first += a.chunk) {
    const int64_t chunk = std::min(a.chunk, rows - first);
    Logits(a, first, chunk, step.scale);
    LogitsBackward(a, first, chunk);
  }
  Do(cuda::SumLosses(stream_, state_.sum, Gradients(layout_.size), a.losses,
                     rows, step.scale, step.stop ? 1.0f : 0.0f, add_),
     "the loss");
  Do(cuda::Zero(stream_, a.dresidual, rows * width * sizeof(Bf16)),
     "the residual's gradient");
  Do(cuda::LayerNormBackward(stream_, a.dresidual, Gradients(layout_.norm_gain),
                             Gradients(layout_.norm_bias), a.parts, a.dnarrow,
                             a.blocks.back().out, Weights(layout_.norm_gain),
                             a.mean, a.rstd, rows, width, add_),
     "a layer norm's gradient");
  for (int i = config_.layers - 1; i >= 0; --i) {
    const Bf16* in = i > 0 ? a.blocks[i - 1].out : a.embedded;
    BackwardBlock(a, layout_.blocks[i], in, a.blocks[i], rows);
    if (status_.ok() && step.block_done) status_ = step.block_done(i);
    if (!status_.ok()) return status_;
  }
  Do(cuda::EmbedBackward(stream_, Gradients(layout_.token_table),
                         Gradients(layout_.position_table), a.places,
                         step.words, a.order, a.dresidual, rows,
                         config_.context, width, add_),
     "the embedding's gradient");
  return status_;
}

}  // namespace rollcall
