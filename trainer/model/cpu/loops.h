// Loops: everything in a GPT except matrix products, over plain arrays, as fast
// as this processor's vectors allow.
//
// The same source (loops_body.h) is built for several instruction sets, and the
// best one that the processor has is used. All give the same bits: sums use
// kLanes partial sums for any width of a vector, no operation is fused, and the
// exponential for float is our own, made of correctly rounded operations only
// (for double it is the library's). layers.h and adamw.h describe what each
// loop is for.
//
// Pure; any thread. For float (training) and double (tests).
#ifndef ROLLCALL_TRAINER_MODEL_CPU_LOOPS_H_
#define ROLLCALL_TRAINER_MODEL_CPU_LOOPS_H_

#include <stdint.h>

namespace rollcall {

template <typename T>
struct Loops {
  // The same as LayerNormForward, row by row.
  void (*norm_forward)(T* out, T* mean, T* rstd, const T* in, const T* gain,
                       const T* bias, int64_t rows, int64_t width);
  // Adds to din.
  void (*norm_backward)(T* din, const T* dout, const T* in, const T* gain,
                        const T* mean, const T* rstd, int64_t rows,
                        int64_t width);
  // Adds to dgain and dbias, only in the columns from `begin` to `end`.
  void (*norm_backward_weights)(T* dgain, T* dbias, const T* dout, const T* in,
                                const T* mean, const T* rstd, int64_t rows,
                                int64_t width, int64_t begin, int64_t end);

  // out[r] = bias, plus more[r] if `more` is not null.
  void (*fill_rows)(T* out, const T* bias, const T* more, int64_t rows,
                    int64_t width);
  // sums[i] += in[r][i] over all rows, for the columns from `begin` to `end`.
  void (*add_rows)(T* sums, const T* in, int64_t rows, int64_t width,
                   int64_t begin, int64_t end);

  void (*gelu_forward)(T* out, T* tanhs, const T* in, int64_t count);
  void (*gelu_backward)(T* d, const T* in, const T* tanhs, int64_t count);

  // In place: the softmax of the first `count` values, then zeros up to
  // `width`.
  void (*softmax)(T* row, int64_t count, int64_t width);
  // In place: on entry `d` is the gradient of `weights` = softmax(input), on
  // return the gradient of the input; zeros from `count` to `width`.
  void (*softmax_backward)(T* d, const T* weights, int64_t count,
                           int64_t width);
  // The same as CrossEntropy, for one row.
  double (*cross_entropy)(T* row, uint16_t target, T scale, int64_t vocabulary);

  // Computes exp(in[i]); for tests.
  void (*exponentials)(T* out, const T* in, int64_t count);

  // The sum of squares, exact up to a double's rounding.
  double (*squares)(const T* values, int64_t count);
};

// AdamW: the factors of one step.
struct AdamWFactors {
  float shrink;        // Scales the gradients, to clip their norm.
  float beta1, beta2;  // For the moments.
  float bias1, bias2;  // 1 / (1 - beta^step).
  float epsilon;
  float learning_rate;
  float keep;  // 1 - learning rate * decay.
};
using AdamWLoop = void (*)(float* weights, float* first, float* second,
                           const float* gradients, int64_t count,
                           const AdamWFactors& factors);

template <typename T>
const Loops<T>& LoopsHere();
AdamWLoop AdamWLoopHere();

// The loops by instruction set, best first, for tests that compare them. Null:
// this processor does not have the instruction set.
inline constexpr int kLoopSets = 3;
template <typename T>
const Loops<T>* LoopsOf(int set);
AdamWLoop AdamWLoopOf(int set);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_MODEL_CPU_LOOPS_H_
