// Gpt: a GPT on the CPU: weights, gradients, forward and backward pass.
//
// It has GPT-2's architecture: pre-norm blocks, GELU by tanh, learned
// positions, the output matrix tied to the token table. It draws no samples,
// applies no update and talks to no peer: the training loop does.
//
// Thread rule: one thread. It has worker threads of its own, as many as
// OpenBLAS is set to use. For float (training) and double (tests).
//
// A batch of any size is computed in micro-batches for which the activations
// have room. The result has the same bits for any size of micro-batch, because
// matrix products always take one unit of sequences, and every sum over rows is
// in the order of the rows.
#ifndef ROLLCALL_TRAINER_MODEL_GPT_H_
#define ROLLCALL_TRAINER_MODEL_GPT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/types/span.h"
#include "trainer/model/cpu/thread_pool.h"
#include "trainer/model/parameters.h"

namespace rollcall {

template <typename T>
class Gpt {
 public:
  // `config` must be valid. Allocates MemoryBytes for micro-batches of up to
  // `sequences_max` sequences, rounded up to whole units. `extras`: number of
  // values after the gradients.
  Gpt(const GptConfig& config, int sequences_max, size_t extras = 0);

  // The number of sequences in one unit, which has about kUnitRows positions. A
  // larger unit would not make the products faster.
  static constexpr int kUnitRows = 1024;
  static int UnitSequences(const GptConfig& config);
  // A double, because a wrong configuration may exceed every integer type. 0
  // sequences: only weights and gradients.
  static double MemoryBytes(const GptConfig& config, int sequences_max);

  const GptConfig& config() const { return config_; }
  const GptLayout& layout() const { return layout_; }
  absl::Span<T> weights() { return absl::MakeSpan(weights_); }
  // layout().size values, followed by `extras` values that belong to the
  // caller.
  absl::Span<T> gradients() { return absl::MakeSpan(gradients_); }
  // The worker threads, as many as the last call used.
  ThreadPool& pool() { return pool_; }

  // The logits of the token that follows `tokens`, of which there are 1 to
  // `context`. Valid until the next call.
  absl::Span<const T> Next(absl::Span<const Token> tokens);

  // Returns the loss of each position's next token, summed. `tokens` holds
  // whole sequences of `context`; `targets` are the tokens that follow. All are
  // below the vocabulary.
  double Loss(absl::Span<const Token> tokens, absl::Span<const Token> targets);

  // Returns the same, and stores d(scale * loss)/d(weights) in gradients().
  // Calls `before_backward` with the loss before the last micro-batch's
  // backward pass. Calls `block_done` with i when the gradients of block i, of
  // all later blocks and of the final norm are complete. i = 0 comes before the
  // gradients of the tables.
  struct Watch {
    std::function<void(double loss)> before_backward;
    std::function<void(int block)> block_done;
  };
  double LossAndGradients(absl::Span<const Token> tokens,
                          absl::Span<const Token> targets, T scale,
                          const Watch& watch = Watch());

 private:
  // What one block keeps from the forward pass. Each vector has `rows` times
  // the named width.
  struct Block {
    std::vector<T> norm1, mean1, rstd1;  // width, 1, 1
    std::vector<T> qkv;                  // 3 width
    std::vector<T> attention_weights;    // heads x context
    std::vector<T> attention_out;        // width
    std::vector<T> residual;             // width: after attention
    std::vector<T> norm2, mean2, rstd2;  // width, 1, 1
    std::vector<T> up, tanhs, active;    // 4 width
    std::vector<T> out;                  // width
  };

  int64_t Rows(absl::Span<const Token> tokens,
               absl::Span<const Token> targets) const;
  // Calls `work(first, count)` for each micro-batch of `rows`, in order.
  template <typename F>
  void EachMicroBatch(int64_t rows, const F& work) const;
  // The same for each unit of a micro-batch.
  template <typename F>
  void EachUnit(int rows, const F& work) const;
  // Takes as many threads as OpenBLAS uses.
  void TakeThreads();
  void Forward(const Token* tokens, int rows);
  void ForwardBlock(const BlockLayout& at, const T* in, Block& block, int rows);
  void Backward(const Token* tokens, int rows, const Watch* watch);
  void BackwardBlock(const BlockLayout& at, const T* in, Block& block,
                     int rows);
  // The functions of layers.h, unit by unit.
  void Linear(T* out, const T* in, size_t weight, size_t bias, int rows,
              int from, int to, const T* more);
  void LinearBack(T* din, const T* dout, const T* in, size_t weight,
                  size_t bias, int rows, int from, int to);
  const T* W(size_t offset) const { return weights_.data() + offset; }
  T* G(size_t offset) { return gradients_.data() + offset; }

  const GptConfig config_;
  const GptLayout layout_;
  const int unit_;      // In rows.
  const int rows_max_;  // A multiple of unit_.
  ThreadPool pool_;
  std::vector<T> weights_, gradients_;

  std::vector<T> embedded_;
  std::vector<Block> blocks_;
  std::vector<T> norm_, mean_, rstd_;
  std::vector<T> logits_;  // Becomes the gradient of the logits.

  // Used by the backward pass: the residual's gradient, and buffers for the
  // layers' gradients.
  std::vector<T> dresidual_, dnarrow_, dattention_out_, dwide_, dscores_;
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_MODEL_GPT_H_
