// The CUDA backend's own kernels, as functions that start them on a stream.
//
// Everything in a GPT except matrix products: embedding, layer norm, GELU,
// attention, cross entropy and the update. They do what layers.h does for the
// CPU. Here activations are bf16; sums, statistics, gradients of weights and
// the optimizer's state are fp32. No result depends on the order in which
// blocks run: there are no atomic additions.
//
// Rows are positions: `rows` = sequences x context. Widths and head sizes are
// multiples of kPack; rows of bf16 have the alignment of a pack.
//
// `add`: gradients and sums are added to what is there instead of overwriting
// it.
//
// Each function returns 0 or CUDA's error number. It only starts the work: an
// error on the device shows in a later call. The same sources run on the CPU
// under emulation.h, where a test compares them with layers.h.
//
// Thread rule: CUDA's: any thread whose current device is the stream's.
#ifndef ROLLCALL_TRAINER_CUDA_KERNELS_KERNELS_H_
#define ROLLCALL_TRAINER_CUDA_KERNELS_KERNELS_H_

#include <cstddef>
#include <cstdint>

struct CUstream_st;

namespace rollcall::cuda {

using Stream = CUstream_st*;  // CUDA's cudaStream_t.

// The upper half of a float, rounded to nearest even.
struct Bf16 {
  uint16_t bits;
};

inline constexpr int kPack = 8;        // Elements that are moved at once.
inline constexpr int kHeadMax = 128;   // The largest head size.
inline constexpr int kRowsAPart = 64;  // Rows per partial sum of a column.

inline int64_t Parts(int64_t rows) {
  return (rows + kRowsAPart - 1) / kRowsAPart;
}

// The text of an error number.
const char* ErrorText(int error);
// Zeros `bytes` of device memory.
int Zero(Stream stream, void* memory, size_t bytes);
// Stores a number, in memory of the host that the device can write.
int Store(Stream stream, uint64_t* to, uint64_t value);

// --- Embedding ---------------------------------------------------------------

int EmbedForward(Stream stream, Bf16* out, const uint16_t* tokens,
                 const float* token_table, const float* position_table,
                 int64_t rows, int64_t context, int64_t width);

// The positions of a token: rows order[begin], ..., order[end - 1].
struct TokenPlaces {
  int32_t token, begin, end;
};
// Adds to the token table's gradient, for the `tokens` different tokens of the
// batch; overwrites the position table's gradient, unless `add`.
int EmbedBackward(Stream stream, float* dtoken_table, float* dposition_table,
                  const TokenPlaces* places, int64_t tokens,
                  const int32_t* order, const Bf16* dout, int64_t rows,
                  int64_t context, int64_t width, bool add = false);

// --- Layer norm, bias, GELU --------------------------------------------------

int LayerNormForward(Stream stream, Bf16* out, float* mean, float* rstd,
                     const Bf16* in, const float* gain, const float* bias,
                     int64_t rows, int64_t width);
// Adds to din, which holds the residual's gradient already; overwrites dgain
// and dbias. `parts` holds 2 x Parts(rows) x width.
int LayerNormBackward(Stream stream, Bf16* din, float* dgain, float* dbias,
                      float* parts, const Bf16* dout, const Bf16* in,
                      const float* gain, const float* mean, const float* rstd,
                      int64_t rows, int64_t width, bool add = false);

// values[r] += bias, and its gradient, which is overwritten. `parts` holds
// Parts(rows) x width.
int AddBias(Stream stream, Bf16* values, const Bf16* bias, int64_t rows,
            int64_t width);
int BiasBackward(Stream stream, float* dbias, float* parts, const Bf16* dout,
                 int64_t rows, int64_t width, bool add = false);

// `count` is a multiple of kPack. Backward works in place: `d` holds dout and
// becomes din.
int GeluForward(Stream stream, Bf16* out, const Bf16* in, int64_t count);
int GeluBackward(Stream stream, Bf16* d, const Bf16* in, int64_t count);

// --- Attention ---------------------------------------------------------------

// Causal self-attention, tile by tile: the scores are never stored. Each row of
// `qkv` holds query, key and value, `width` each; the heads are side by side in
// each. Keeps each row's lse, the logarithm of its softmax sum: [sequences,
// heads, context].
int AttentionForward(Stream stream, Bf16* out, float* lse, const Bf16* qkv,
                     int64_t sequences, int64_t context, int64_t width,
                     int64_t heads);
// Overwrites dqkv. `dots` has the size of `lse`.
int AttentionBackward(Stream stream, Bf16* dqkv, float* dots, const Bf16* dout,
                      const Bf16* out, const Bf16* qkv, const float* lse,
                      int64_t sequences, int64_t context, int64_t width,
                      int64_t heads);

// --- Loss --------------------------------------------------------------------

// Softmax cross-entropy of each row of `vocabulary` logits; rows are `padded`
// apart. losses[r] = -log p(target). Replaces `logits` with their gradient
// times `scale`, and with 0 after the vocabulary. scale 0: the logits stay.
int CrossEntropy(Stream stream, Bf16* logits, float* losses,
                 const uint16_t* targets, float scale, int64_t rows,
                 int64_t vocabulary, int64_t padded);
// Stores the sum of the losses in *sum (with `add`: adds it), *sum times
// `scale` in extras[0], and `stops` in extras[1].
int SumLosses(Stream stream, double* sum, float* extras, const float* losses,
              int64_t rows, double scale, float stops, bool add = false);

// --- Update ------------------------------------------------------------------

inline constexpr int kSquareParts = 512;
// Stores the sum of squares in *sum. `parts` holds kSquareParts, of which at
// most that many are used.
int SumSquares(Stream stream, double* sum, double* parts, const float* values,
               int64_t count);

// A piece of one tensor: its offset in the flat arrays and in the bf16 copy.
struct Piece {
  uint64_t begin;
  uint64_t copy;
  uint32_t count;
  uint32_t decays;
};
inline constexpr uint32_t kPieceMax = 8192;

struct AdamWNumbers {
  float beta1, beta2, epsilon;
  float shrink;        // For the gradients, to clip their norm.
  float bias1, bias2;  // 1 / (1 - beta^step).
  float learning_rate;
  float keep;  // For weights that decay.
};
// Updates the weights and their bf16 copy once.
int AdamWStep(Stream stream, float* weights, Bf16* copy, float* first,
              float* second, const float* gradients, const Piece* pieces,
              int64_t count, const AdamWNumbers& numbers);
// Writes the bf16 copy from the weights.
int CopyWeights(Stream stream, Bf16* copy, const float* weights,
                const Piece* pieces, int64_t count);

// --- Fingerprint -------------------------------------------------------------

inline constexpr int kFingerprintParts = 512;
// Stores FingerprintOf(`count` values, `index`) in *sum (with `add`: adds it);
// see state_fingerprint.h. `parts` holds kFingerprintParts.
int Fingerprint(Stream stream, uint64_t* sum, uint64_t* parts,
                const float* values, int64_t count, uint64_t index,
                bool add = false);

}  // namespace rollcall::cuda

#endif  // ROLLCALL_TRAINER_CUDA_KERNELS_KERNELS_H_
