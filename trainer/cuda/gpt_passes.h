// GptPasses: the forward and backward pass of a GPT on a GPU, as work put into
// a stream, layer by layer. gpt.cc does the same on the CPU. The types show
// where values are rounded to bf16.
//
// It owns no memory and does not wait. It keeps the first error; the results
// after an error are invalid.
//
// Thread rule: one thread.
#ifndef ROLLCALL_TRAINER_CUDA_GPT_PASSES_H_
#define ROLLCALL_TRAINER_CUDA_GPT_PASSES_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "trainer/cuda/gpt_memory.h"
#include "trainer/cuda/products.h"
#include "trainer/model/parameters.h"

namespace rollcall {

class GptPasses {
 public:
  // All arguments must outlive it. `state` and `activations` are placed.
  GptPasses(const GptConfig& config, const GptLayout& layout,
            const GptState& state, cuda::Stream stream, Products& products);

  // `tokens` and `targets` of `a` are filled, and for the backward pass also
  // `order` and `places` (for `words` different tokens). Stores the sum of
  // losses in state.sum; `add`: adds it to what is there.
  absl::Status Loss(const GptActivations& a, int64_t rows, bool add);

  // Also stores d(scale * loss)/d(weights) in state.gradients, followed by the
  // extras. `add`: adds them to those of the earlier micro-batches, in fp32.
  // `block_done(i)`: the work that finishes block i and all later ones is in
  // the stream; may be null. An error of it ends the call.
  struct Step {
    int64_t rows = 0;
    int64_t words = 0;
    float scale = 0;
    bool stop = false;
    bool add = false;
    std::function<absl::Status(int block)> block_done;
  };
  absl::Status LossAndGradients(const GptActivations& a, const Step& step);

 private:
  // The bf16 copy, the fp32 master and the gradient of the tensor at `offset`
  // in the layout.
  const cuda::Bf16* WeightsBf16(size_t offset) const;
  const float* Weights(size_t offset) const { return state_.weights + offset; }
  float* Gradients(size_t offset) const { return state_.gradients + offset; }

  void Do(int error, absl::string_view purpose);
  void Multiply(const Product& product);

  void Forward(const GptActivations& a, int64_t rows);
  void ForwardBlock(const GptActivations& a, const BlockLayout& at,
                    const cuda::Bf16* in, const GptActivations::Block& b,
                    int64_t rows);
  void Logits(const GptActivations& a, int64_t first, int64_t rows,
              float scale);
  void LogitsBackward(const GptActivations& a, int64_t first, int64_t rows);
  void TableGradient(const GptActivations& a, int64_t first, int64_t rows,
                     int64_t begin, int64_t end);
  void BackwardBlock(const GptActivations& a, const BlockLayout& at,
                     const cuda::Bf16* in, const GptActivations::Block& b,
                     int64_t rows);
  void Linear(cuda::Bf16* out, const cuda::Bf16* in, size_t weight, size_t bias,
              int64_t rows, int64_t from, int64_t to,
              const cuda::Bf16* residual, cuda::Bf16* before_gelu);
  void LinearBackward(const GptActivations& a, cuda::Bf16* din,
                      const cuda::Bf16* dout, const cuda::Bf16* in,
                      size_t weight, size_t bias, int64_t rows, int64_t from,
                      int64_t to, cuda::Bf16* before_gelu);

  const GptConfig& config_;
  const GptLayout& layout_;
  const GptState& state_;
  const cuda::Stream stream_;
  Products& products_;
  const std::vector<size_t> copy_offsets_;
  const int64_t padded_;
  bool add_ = false;  // Of the step.
  absl::Status status_;
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CUDA_GPT_PASSES_H_
