// The CUDA backend's own kernels, as functions that start them on a stream.
//
// All that a GPT needs beside matrix products: embedding, layer norm, GELU,
// attention, cross entropy, and the update. What layers.h does for the CPU;
// here activations are bf16, while sums, statistics, gradients of weights and
// the optimizer's state are fp32. No result depends on the order in which
// blocks happen to run: there are no atomic additions.
//
// Rows are positions: `rows` = sequences x context. Widths, and the share of a
// head, are multiples of kPack; rows of bf16 are aligned as a pack is.
//
// Each returns 0 or the number of CUDA's error. They only start: what goes
// wrong on the device shows in a later call. The same sources run on the CPU
// under emulation.h, where a test compares them with layers.h.
//
// Thread rule: as CUDA's: any thread whose current device is the stream's.
#ifndef ROLLCALL_TRAINER_CUDA_KERNELS_H_
#define ROLLCALL_TRAINER_CUDA_KERNELS_H_

#include <cstddef>
#include <cstdint>

struct CUstream_st;

namespace rollcall::cuda {

using Stream = CUstream_st*;  // CUDA's cudaStream_t.

// The upper half of a float, rounded to nearest even.
struct Bf16 {
  uint16_t bits;
};

inline constexpr int kPack = 8;         // Elements that are moved at once.
inline constexpr int kHeadMost = 128;   // The widest share of a head.
inline constexpr int kRowsAPart = 256;  // Of a sum down a column.

inline int64_t Parts(int64_t rows) {
  return (rows + kRowsAPart - 1) / kRowsAPart;
}

// What an error's number means.
const char* ErrorText(int error);
// Zeros `bytes` of the device's memory.
int Zero(Stream stream, void* memory, size_t bytes);

// --- Embedding ---------------------------------------------------------------

int EmbedForward(Stream stream, Bf16* out, const uint16_t* tokens,
                 const float* token_table, const float* position_table,
                 int64_t rows, int64_t context, int64_t width);

// Where a token stands: rows order[begin], ..., order[end - 1].
struct TokenPlaces {
  int32_t token, begin, end;
};
// Adds to the token table's gradient, of the `tokens` different tokens that
// are there; overwrites the position table's.
int EmbedBackward(Stream stream, float* dtoken_table, float* dposition_table,
                  const TokenPlaces* places, int64_t tokens,
                  const int32_t* order, const Bf16* dout, int64_t rows,
                  int64_t context, int64_t width);

// --- Layer norm, bias, GELU --------------------------------------------------

int LayerNormForward(Stream stream, Bf16* out, float* mean,
                     float* inverse_deviation, const Bf16* in,
                     const float* gain, const float* bias, int64_t rows,
                     int64_t width);
// Adds to din, which carries the residual's gradient already; overwrites dgain
// and dbias. `parts` holds 2 x Parts(rows) x width.
int LayerNormBackward(Stream stream, Bf16* din, float* dgain, float* dbias,
                      float* parts, const Bf16* dout, const Bf16* in,
                      const float* gain, const float* mean,
                      const float* inverse_deviation, int64_t rows,
                      int64_t width);

// values[r] += bias; and its gradient, which is overwritten. `parts` holds
// Parts(rows) x width.
int AddBias(Stream stream, Bf16* values, const Bf16* bias, int64_t rows,
            int64_t width);
int BiasBackward(Stream stream, float* dbias, float* parts, const Bf16* dout,
                 int64_t rows, int64_t width);

// `count` is a multiple of kPack. Backward in place: `d` holds dout and becomes
// din.
int GeluForward(Stream stream, Bf16* out, const Bf16* in, int64_t count);
int GeluBackward(Stream stream, Bf16* d, const Bf16* in, int64_t count);

// --- Attention ---------------------------------------------------------------

// Causal self-attention, tile by tile: the scores are never stored. `qkv` rows
// hold query, key and value, `width` each, heads side by side within them.
// Keeps the logarithm of each row's softmax sum, [sequences, heads, context].
int AttentionForward(Stream stream, Bf16* out, float* logsum, const Bf16* qkv,
                     int64_t sequences, int64_t context, int64_t width,
                     int64_t heads);
// Overwrites dqkv. `dots` holds as many as `logsum`.
int AttentionBackward(Stream stream, Bf16* dqkv, float* dots, const Bf16* dout,
                      const Bf16* out, const Bf16* qkv, const float* logsum,
                      int64_t sequences, int64_t context, int64_t width,
                      int64_t heads);

// --- Loss --------------------------------------------------------------------

// Softmax cross-entropy of each row of `vocabulary` logits, rows being `padded`
// apart: losses[r] = -log p(target), and `logits` become their gradient times
// `scale` in place, 0 behind the vocabulary. scale 0: logits stay.
int CrossEntropy(Stream stream, Bf16* logits, float* losses,
                 const uint16_t* targets, float scale, int64_t rows,
                 int64_t vocabulary, int64_t padded);
// *sum becomes that of the losses; extras[0] that times `scale`, extras[1]
// `stops`.
int SumLosses(Stream stream, double* sum, float* extras, const float* losses,
              int64_t rows, double scale, float stops);

// --- Update ------------------------------------------------------------------

inline constexpr int kSquareParts = 512;
// *sum becomes that of the squares. `parts` holds kSquareParts, at most as many
// are used.
int SumSquares(Stream stream, double* sum, double* parts, const float* values,
               int64_t count);

// A piece of one tensor: where it is in the flat arrays, and in the bf16 copy.
struct Piece {
  uint64_t begin;
  uint64_t copy;
  uint32_t count;
  uint32_t decays;
};
inline constexpr uint32_t kPieceMost = 8192;

struct AdamWNumbers {
  float beta1, beta2, epsilon;
  float shrink;        // Of the gradients, so that their norm is clipped.
  float bias1, bias2;  // 1 / (1 - beta^step).
  float learning_rate;
  float keep;  // Of weights that decay.
};
// One update of the weights, and of their bf16 copy.
int AdamWStep(Stream stream, float* weights, Bf16* copy, float* first,
              float* second, const float* gradients, const Piece* pieces,
              int64_t count, const AdamWNumbers& numbers);
// The bf16 copy anew.
int CopyWeights(Stream stream, Bf16* copy, const float* weights,
                const Piece* pieces, int64_t count);

}  // namespace rollcall::cuda

#endif  // ROLLCALL_TRAINER_CUDA_KERNELS_H_
