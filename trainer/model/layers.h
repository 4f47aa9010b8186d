// The layers of a GPT, each as a forward function and its derivative, on plain
// arrays.
//
// Pure: no state. A `pool` shares the work; the result is bitwise equal with
// and without it. Matrix products use OpenBLAS's own threads. Rows are
// positions: `rows` = sequences x context. Derivatives are named d<value>.
// Every backward function adds to the gradients of weights; its comment says
// what it does with the gradient of its input.
//
// For float and double (explicit instances in layers.cc).
#ifndef ROLLCALL_TRAINER_MODEL_LAYERS_H_
#define ROLLCALL_TRAINER_MODEL_LAYERS_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "trainer/model/cpu/thread_pool.h"
#include "trainer/model/parameters.h"

namespace rollcall {

// out[r] = token_table[tokens[r]] + position_table[r % context].
template <typename T>
void EmbedForward(T* out, const Token* tokens, const T* token_table,
                  const T* position_table, int64_t rows, int64_t context,
                  int64_t width);
template <typename T>
void EmbedBackward(T* dtoken_table, T* dposition_table, const Token* tokens,
                   const T* dout, int64_t rows, int64_t context, int64_t width);

// out = (in - mean) / sqrt(variance + 1e-5) * gain + bias, row by row. Stores
// each row's mean and rstd = 1 / sqrt(variance + 1e-5) for the backward pass.
template <typename T>
void LayerNormForward(T* out, T* mean, T* rstd, const T* in, const T* gain,
                      const T* bias, int64_t rows, int64_t width,
                      ThreadPool* pool = nullptr);
// Adds to din, which already holds the residual's gradient.
template <typename T>
void LayerNormBackward(T* din, T* dgain, T* dbias, const T* dout, const T* in,
                       const T* gain, const T* mean, const T* rstd,
                       int64_t rows, int64_t width, ThreadPool* pool = nullptr);

// out[rows, to] = in[rows, from] * weight[from, to] + bias. Also adds `more`,
// which has the shape of out, if it is not null.
template <typename T>
void LinearForward(T* out, const T* in, const T* weight, const T* bias,
                   int64_t rows, int64_t from, int64_t to,
                   std::type_identity_t<const T*> more = nullptr,
                   ThreadPool* pool = nullptr);
// Overwrites din.
template <typename T>
void LinearBackward(T* din, T* dweight, T* dbias, const T* dout, const T* in,
                    const T* weight, int64_t rows, int64_t from, int64_t to,
                    ThreadPool* pool = nullptr);

// GELU in its tanh form, as in GPT-2. Stores the tanh for the backward pass.
template <typename T>
void GeluForward(T* out, T* tanhs, const T* in, int64_t count,
                 ThreadPool* pool = nullptr);
// In place: `d` holds dout and becomes din.
template <typename T>
void GeluBackward(T* d, const T* in, const T* tanhs, int64_t count,
                  ThreadPool* pool = nullptr);

// Causal self-attention. Each row of `qkv` holds query, key and value, each of
// `width` values, in which the heads are side by side. `weights` keeps the
// softmax, [sequences, heads, context, context], for the backward pass; it is
// zero above the diagonal.
template <typename T>
void AttentionForward(T* out, T* weights, const T* qkv, int64_t sequences,
                      int64_t context, int64_t width, int64_t heads,
                      ThreadPool* pool = nullptr);
// Overwrites dqkv. `scratch` holds AttentionScratch values.
template <typename T>
void AttentionBackward(T* dqkv, T* scratch, const T* dout, const T* qkv,
                       const T* weights, int64_t sequences, int64_t context,
                       int64_t width, int64_t heads,
                       ThreadPool* pool = nullptr);
// Up to this context, one thread computes a whole head. Above it, all threads
// share each head's products.
inline constexpr int kAttentionAlone = 128;
size_t AttentionScratch(int64_t context, int threads);

// Softmax cross-entropy, summed over rows. Replaces `logits` with their
// gradient times `scale`. Returns `before` plus the sum of -log p(target),
// added row by row, as a double so that a long sum stays precise. If scale is
// 0, only the loss is computed.
template <typename T>
double CrossEntropy(T* logits, const Token* targets, T scale, int64_t rows,
                    int64_t vocabulary, ThreadPool* pool = nullptr,
                    double before = 0);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_MODEL_LAYERS_H_
