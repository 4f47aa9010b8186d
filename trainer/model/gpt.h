// Gpt: a GPT on the CPU: weights, gradients, and the way from tokens
// to both loss and gradients.
//
// Pre-norm blocks, GELU by tanh, learned positions, the output matrix tied to
// the token table, as GPT-2. It draws no samples, takes no step and talks to no
// peer: the training loop does.
//
// Thread rule: one thread, which has others of its own: as many as OpenBLAS is
// told to use. For float (training) and double (tests).
#ifndef ROLLCALL_TRAINER_MODEL_GPT_H_
#define ROLLCALL_TRAINER_MODEL_GPT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/types/span.h"
#include "trainer/model/crew.h"
#include "trainer/model/parameters.h"

namespace rollcall {

template <typename T>
class Gpt {
 public:
  // `config` must be valid. Takes memory for batches of up to `sequences_max`
  // sequences: MemoryBytes of it. `behind`: values behind the gradients.
  Gpt(const GptConfig& config, int sequences_max, size_t behind = 0);

  // In double, since a careless configuration exceeds every integer.
  static double MemoryBytes(const GptConfig& config, int sequences_max);

  const GptConfig& config() const { return config_; }
  const GptLayout& layout() const { return layout_; }
  absl::Span<T> weights() { return absl::MakeSpan(weights_); }
  // Of layout().size values, and `behind` more that are the caller's.
  absl::Span<T> gradients() { return absl::MakeSpan(gradients_); }
  // The threads that the last call used.
  Crew& crew() { return crew_; }

  // The loss of each position's next token, summed over `tokens`, which holds
  // whole sequences of `context`; `targets` are the tokens that follow. All are
  // below the vocabulary.
  double Loss(absl::Span<const Token> tokens, absl::Span<const Token> targets);

  // The same, and leaves d(scale * that sum)/d(weights) in gradients().
  // `on_way_back` is called with the loss before the way back begins, and
  // `block_done` with i when no more is added to block i's gradients or to
  // those of later ones and of the last norm; i = 0 comes before those of the
  // tables.
  struct Watch {
    std::function<void(double loss)> on_way_back;
    std::function<void(int block)> block_done;
  };
  double LossAndGradients(absl::Span<const Token> tokens,
                          absl::Span<const Token> targets, T scale,
                          const Watch& watch = Watch());

 private:
  // What one block keeps of its way forward; `rows` x the width named.
  struct Block {
    std::vector<T> norm1, mean1, deviation1;  // width, 1, 1
    std::vector<T> qkv;                       // 3 width
    std::vector<T> attention;                 // heads x context
    std::vector<T> mixed;                     // width
    std::vector<T> middle;                    // width: after attention
    std::vector<T> norm2, mean2, deviation2;  // width, 1, 1
    std::vector<T> up, tanhs, active;         // 4 width
    std::vector<T> out;                       // width
  };

  int Rows(absl::Span<const Token> tokens,
           absl::Span<const Token> targets) const;
  // As many as products have.
  void TakeThreads();
  void Forward(const Token* tokens, int rows);
  void ForwardBlock(const BlockLayout& at, const T* in, Block& block, int rows);
  void Backward(const Token* tokens, int rows, const Watch& watch);
  void BackwardBlock(const BlockLayout& at, const T* in, Block& block,
                     int rows);
  const T* W(size_t offset) const { return weights_.data() + offset; }
  T* G(size_t offset) { return gradients_.data() + offset; }

  const GptConfig config_;
  const GptLayout layout_;
  const int rows_max_;
  Crew crew_;
  std::vector<T> weights_, gradients_;

  std::vector<T> embedded_;
  std::vector<Block> blocks_;
  std::vector<T> norm_, mean_, deviation_;
  std::vector<T> logits_;  // Becomes their gradient.

  // On the way back: the residual's gradient, and room for the layers'.
  std::vector<T> dresidual_, dnarrow_, dmiddle_, dwide_, dscores_;
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_MODEL_GPT_H_
