// The layers of a GPT, each a forward function and its derivative, on plain
// arrays.
//
// Pure: no state. A `crew` shares the work; the result is the same to the bit
// with and without it. Matrix products use OpenBLAS's own threads. Rows are
// positions: `rows` = sequences x context. Derivatives are named d<value>.
// Every backward function adds to the gradients of weights; what it does with
// the gradient of its input is said at each.
//
// For float and double (explicit instances in layers.cc).
#ifndef ROLLCALL_TRAINER_MODEL_LAYERS_H_
#define ROLLCALL_TRAINER_MODEL_LAYERS_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "trainer/model/crew.h"
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

// out = (in - mean) / sqrt(variance + 1e-5) * gain + bias, row by row. Keeps
// mean and 1/sqrt(...) of each row for the way back.
template <typename T>
void LayerNormForward(T* out, T* mean, T* inverse_deviation, const T* in,
                      const T* gain, const T* bias, int64_t rows, int64_t width,
                      Crew* crew = nullptr);
// Adds to din, which carries the residual's gradient already.
template <typename T>
void LayerNormBackward(T* din, T* dgain, T* dbias, const T* dout, const T* in,
                       const T* gain, const T* mean, const T* inverse_deviation,
                       int64_t rows, int64_t width, Crew* crew = nullptr);

// out[rows, to] = in[rows, from] * weight[from, to] + bias, plus `more`, of
// out's shape, where that is not null.
template <typename T>
void LinearForward(T* out, const T* in, const T* weight, const T* bias,
                   int64_t rows, int64_t from, int64_t to,
                   std::type_identity_t<const T*> more = nullptr,
                   Crew* crew = nullptr);
// Overwrites din.
template <typename T>
void LinearBackward(T* din, T* dweight, T* dbias, const T* dout, const T* in,
                    const T* weight, int64_t rows, int64_t from, int64_t to,
                    Crew* crew = nullptr);

// GELU by its tanh form, as GPT-2 has it. Keeps the tanh for the way back.
template <typename T>
void GeluForward(T* out, T* tanhs, const T* in, int64_t count,
                 Crew* crew = nullptr);
// In place: `d` holds dout and becomes din.
template <typename T>
void GeluBackward(T* d, const T* in, const T* tanhs, int64_t count,
                  Crew* crew = nullptr);

// Causal self-attention. `qkv` rows hold query, key and value, `width` each,
// heads side by side within them. `weights` keeps the softmax, [sequences,
// heads, context, context], for the way back; zero above the diagonal.
template <typename T>
void AttentionForward(T* out, T* weights, const T* qkv, int64_t sequences,
                      int64_t context, int64_t width, int64_t heads,
                      Crew* crew = nullptr);
// Overwrites dqkv. `scratch` holds AttentionScratch of values.
template <typename T>
void AttentionBackward(T* dqkv, T* scratch, const T* dout, const T* qkv,
                       const T* weights, int64_t sequences, int64_t context,
                       int64_t width, int64_t heads, Crew* crew = nullptr);
// Up to this context heads are shared out; from there on, each one's products.
inline constexpr int kAttentionAlone = 128;
size_t AttentionScratch(int64_t context, int threads);

// Softmax cross-entropy, summed over rows: turns `logits` into their gradient
// times `scale` in place and returns the sum of -log p(target), in double so
// that a long sum keeps its digits. scale 0: only the loss is wanted.
template <typename T>
double CrossEntropy(T* logits, const Token* targets, T scale, int64_t rows,
                    int64_t vocabulary, Crew* crew = nullptr);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_MODEL_LAYERS_H_
