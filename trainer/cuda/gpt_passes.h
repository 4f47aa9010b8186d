// GptPasses: a GPT's way forward and back on a GPU, as work put into a stream,
// layer by layer. gpt.cc is the same on the CPU; what rounds where is said
// there in T, and here by what is bf16.
//
// It owns no memory and waits for nothing. The first error of any work is kept,
// and what comes after it does nothing that counts.
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
  // All must outlive it. `state` and `activations` are placed.
  GptPasses(const GptConfig& config, const GptLayout& layout,
            const GptState& state, cuda::Stream stream, Products& products);

  // `tokens`, `targets`, and on the way back `order` and `places` (of `words`
  // different tokens) of `a` are filled. Leaves the sum of losses in state.sum.
  absl::Status Loss(const GptActivations& a, int64_t rows);

  // And d(scale * that sum)/d(weights) in state.gradients, extras behind them.
  // `block_done(i)`: the work that finishes what is of block i and later ones
  // is in the stream. Its error ends the call.
  struct Step {
    int64_t rows = 0;
    int64_t words = 0;
    float scale = 0;
    bool stop = false;
    std::function<absl::Status(int block)> block_done;
  };
  absl::Status LossAndGradients(const GptActivations& a, const Step& step);

 private:
  // bf16 copy, fp32 master and gradient of what stands at `offset` in the
  // layout.
  const cuda::Bf16* C(size_t offset) const;
  const float* W(size_t offset) const { return state_.weights + offset; }
  float* G(size_t offset) const { return state_.gradients + offset; }

  void Do(int error, absl::string_view purpose);
  void Multiply(const Product& product);

  void Forward(const GptActivations& a, int64_t rows);
  void ForwardBlock(const GptActivations& a, const BlockLayout& at,
                    const cuda::Bf16* in, const GptActivations::Block& b,
                    int64_t rows);
  void Logits(const GptActivations& a, int64_t first, int64_t rows,
              float scale);
  void LogitsBackward(const GptActivations& a, int64_t first, int64_t rows);
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
  absl::Status status_;
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CUDA_GPT_PASSES_H_
