// Embedding, layer norm, bias and GELU: work per row, and sums over columns.
#include <cmath>

#include "trainer/cuda/kernels/kernel_language.h"

namespace rollcall::cuda {
namespace {

constexpr int kThreads = 256;
// Sums over rows: a block of one warp's packs of columns...
constexpr int kColumns = kWarp * kPack;
// ...with this many warps, each for a share of the rows.
constexpr int kLanes = kThreads / kWarp;

// The floats of a pack's columns. Tensors have sizes of multiples of kPack, so
// each of their packs is aligned.
struct alignas(16) Octet {
  float at[kPack];
};
__device__ inline Octet LoadOctet(const float* from) {
  return LoadWhole<Octet>(from);
}
__device__ inline void StoreOctet(float* to, const Octet& octet) {
  StoreWhole(to, octet);
}

// --- Embedding ---------------------------------------------------------------

__global__ void EmbedForwardKernel(Bf16* out, const uint16_t* tokens,
                                   const float* token_table,
                                   const float* position_table, int64_t packs,
                                   int64_t context, int64_t width) {
  const int64_t pack = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (pack >= packs) return;
  const int64_t row = pack * kPack / width;
  const int64_t column = pack * kPack % width;
  const Octet token = LoadOctet(token_table + tokens[row] * width + column);
  const Octet position =
      LoadOctet(position_table + row % context * width + column);
  Packed sum;
  ROLLCALL_UNROLL
  for (int i = 0; i < kPack; ++i)
    sum.at[i] = ToBf16(token.at[i] + position.at[i]);
  StorePack(out + row * width + column, sum);
}

// Adds `sums` of all warps of a block, each for kColumns columns, in order.
// `room` is shared and holds a float for each thread and column of its pack.
__device__ inline void AddWarps(Octet& sums, float* room) {
  float* const own = room + threadIdx.x * kPack;
  StoreOctet(own, sums);
  __syncthreads();
  if (threadIdx.x >= kWarp) return;
  for (int warp = 1; warp < kLanes; ++warp) {
    const Octet other = LoadOctet(own + warp * kColumns);
    ROLLCALL_UNROLL
    for (int i = 0; i < kPack; ++i) sums.at[i] += other.at[i];
  }
}
constexpr size_t kAddWarpsBytes = sizeof(float) * kLanes * kColumns;

// One block for each token of the batch and each kColumns of the width. Its
// warps share the token's rows.
__global__ void EmbedTokensKernel(float* dtoken_table,
                                  const TokenPlaces* places,
                                  const int32_t* order, const Bf16* dout,
                                  int64_t width) {
  const TokenPlaces place = places[blockIdx.x];
  const int64_t column =
      int64_t{blockIdx.y} * kColumns + threadIdx.x % kWarp * kPack;
  Octet sums = {};
  if (column < width) {
    for (int i = place.begin + threadIdx.x / kWarp; i < place.end;
         i += kLanes) {
      const Packed pack = LoadPack(dout + order[i] * width + column);
      ROLLCALL_UNROLL
      for (int c = 0; c < kPack; ++c) sums.at[c] += ToFloat(pack.at[c]);
    }
  }
  if (place.end - place.begin > 1) {
    AddWarps(sums, reinterpret_cast<float*>(SharedMemory()));
  }
  if (threadIdx.x >= kWarp || column >= width) return;
  float* const to = dtoken_table + place.token * width + column;
  ROLLCALL_UNROLL
  for (int c = 0; c < kPack; ++c) to[c] += sums.at[c];
}

__global__ void EmbedPositionsKernel(float* dposition_table, const Bf16* dout,
                                     int64_t sequences, int64_t stride,
                                     bool add) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= stride) return;
  float sum = add ? dposition_table[i] : 0;
  for (int64_t s = 0; s < sequences; ++s) sum += ToFloat(dout[s * stride + i]);
  dposition_table[i] = sum;
}

// --- Layer norm --------------------------------------------------------------

// One warp per row, here and in all kernels below that use a lane.
__global__ void NormForwardKernel(Bf16* out, float* mean, float* rstd,
                                  const Bf16* in, const float* gain,
                                  const float* bias, int64_t rows,
                                  int64_t width) {
  const int lane = threadIdx.x % kWarp;
  const int64_t row = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp;
  if (row >= rows) return;
  const Bf16* x = in + row * width;
  float sum = 0;
  for (int64_t c = lane * kPack; c < width; c += kWarp * kPack) {
    const Packed pack = LoadPack(x + c);
    for (int i = 0; i < kPack; ++i) sum += ToFloat(pack.at[i]);
  }
  const float m = WarpSum(sum) / width;
  float squares = 0;
  for (int64_t c = lane * kPack; c < width; c += kWarp * kPack) {
    const Packed pack = LoadPack(x + c);
    for (int i = 0; i < kPack; ++i) {
      const float d = ToFloat(pack.at[i]) - m;
      squares += d * d;
    }
  }
  const float s = 1 / sqrtf(WarpSum(squares) / width + 1e-5f);
  for (int64_t c = lane * kPack; c < width; c += kWarp * kPack) {
    Packed pack = LoadPack(x + c);
    const Octet g = LoadOctet(gain + c);
    const Octet b = LoadOctet(bias + c);
    ROLLCALL_UNROLL
    for (int i = 0; i < kPack; ++i) {
      const float n = (ToFloat(pack.at[i]) - m) * s;
      pack.at[i] = ToBf16(n * g.at[i] + b.at[i]);
    }
    StorePack(out + row * width + c, pack);
  }
  if (lane > 0) return;
  mean[row] = m;
  rstd[row] = s;
}

// Warps of a block of NormBackwardKernel: each has sums of 2 x width in shared
// memory, of which a block has 99 KB on sm_86 and sm_89. Widths above 12,672 need
// the 163 KB of sm_80 or the 227 KB of sm_90.
int NormWarps(int64_t width) {
  constexpr int64_t kSharedMax = 99 << 10;
  const int64_t warps = kSharedMax / (2 * width * int64_t{sizeof(float)});
  return static_cast<int>(warps < 1 ? 1 : warps > 8 ? 8 : warps);
}

// As LayerNormBackward of layers.cc: din += s (g - mean(g) - n mean(g n)), g =
// dout * gain, with a warp for each row. The block's kRowsAPart rows give a
// part of the sums of dout * n and of dout over all rows.
__global__ void NormBackwardKernel(Bf16* din, float* parts, const Bf16* dout,
                                   const Bf16* in, const float* gain,
                                   const float* mean, const float* rstd,
                                   int64_t rows, int64_t width) {
  float* const shared = reinterpret_cast<float*>(SharedMemory());
  const int lane = threadIdx.x % kWarp;
  const int warps = blockDim.x / kWarp;
  float* const dgain = shared + threadIdx.x / kWarp * 2 * width;
  float* const dbias = dgain + width;
  for (int64_t c = lane * kPack; c < width; c += kWarp * kPack) {
    StoreOctet(dgain + c, {});
    StoreOctet(dbias + c, {});
  }
  const int64_t begin = int64_t{blockIdx.x} * kRowsAPart;
  const int64_t end = begin + kRowsAPart < rows ? begin + kRowsAPart : rows;
  for (int64_t row = begin + threadIdx.x / kWarp; row < end; row += warps) {
    const float m = mean[row];
    const float s = rstd[row];
    float g_sum = 0;
    float gn_sum = 0;
    for (int64_t c = lane * kPack; c < width; c += kWarp * kPack) {
      const Packed x = LoadPack(in + row * width + c);
      const Packed dy = LoadPack(dout + row * width + c);
      const Octet weight = LoadOctet(gain + c);
      Octet gain_sum = LoadOctet(dgain + c);
      Octet bias_sum = LoadOctet(dbias + c);
      ROLLCALL_UNROLL
      for (int i = 0; i < kPack; ++i) {
        const float d = ToFloat(dy.at[i]);
        const float n = (ToFloat(x.at[i]) - m) * s;
        const float g = d * weight.at[i];
        g_sum += g;
        gn_sum += g * n;
        gain_sum.at[i] += d * n;
        bias_sum.at[i] += d;
      }
      StoreOctet(dgain + c, gain_sum);
      StoreOctet(dbias + c, bias_sum);
    }
    const float g_mean = WarpSum(g_sum) / width;
    const float gn_mean = WarpSum(gn_sum) / width;
    for (int64_t c = lane * kPack; c < width; c += kWarp * kPack) {
      const Packed x = LoadPack(in + row * width + c);
      const Packed dy = LoadPack(dout + row * width + c);
      const Octet weight = LoadOctet(gain + c);
      Packed dx = LoadPack(din + row * width + c);
      ROLLCALL_UNROLL
      for (int i = 0; i < kPack; ++i) {
        const float n = (ToFloat(x.at[i]) - m) * s;
        const float g = ToFloat(dy.at[i]) * weight.at[i];
        dx.at[i] = ToBf16(ToFloat(dx.at[i]) + s * (g - g_mean - n * gn_mean));
      }
      StorePack(din + row * width + c, dx);
    }
  }
  __syncthreads();
  for (int64_t c = threadIdx.x; c < 2 * width; c += blockDim.x) {
    float sum = shared[c];
    for (int i = 1; i < warps; ++i) sum += shared[i * 2 * width + c];
    parts[blockIdx.x * 2 * width + c] = sum;
  }
}

// --- Sums over rows ----------------------------------------------------------

// One block for each kColumns columns and each kRowsAPart rows.
__global__ void ColumnPartsKernel(float* parts, const Bf16* in, int64_t rows,
                                  int64_t width) {
  const int64_t column =
      int64_t{blockIdx.x} * kColumns + threadIdx.x % kWarp * kPack;
  const int64_t begin = int64_t{blockIdx.y} * kRowsAPart;
  const int64_t end = begin + kRowsAPart < rows ? begin + kRowsAPart : rows;
  Octet sums = {};
  if (column < width) {
    for (int64_t row = begin + threadIdx.x / kWarp; row < end; row += kLanes) {
      const Packed pack = LoadPack(in + row * width + column);
      ROLLCALL_UNROLL
      for (int i = 0; i < kPack; ++i) sums.at[i] += ToFloat(pack.at[i]);
    }
  }
  AddWarps(sums, reinterpret_cast<float*>(SharedMemory()));
  if (threadIdx.x >= kWarp || column >= width) return;
  StoreOctet(parts + blockIdx.y * width + column, sums);
}

// Adds up `count` parts of `width` columns: the first `split` columns go to
// `low`, the others to `high`; `add`: to what is there. A block takes kWarp columns; each of its warps
// takes every kLanes-th part.
__global__ void AddPartsKernel(float* low, float* high, const float* parts,
                               int64_t count, int64_t width, int64_t split,
                               bool add) {
  float* const room = reinterpret_cast<float*>(SharedMemory());
  const int64_t column = int64_t{blockIdx.x} * kWarp + threadIdx.x % kWarp;
  float sum = 0;
  if (column < width) {
    for (int64_t i = threadIdx.x / kWarp; i < count; i += kLanes) {
      sum += parts[i * width + column];
    }
  }
  room[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x >= kWarp || column >= width) return;
  for (int i = 1; i < kLanes; ++i) sum += room[i * kWarp + threadIdx.x];
  float* const to = column < split ? low + column : high + column - split;
  *to = add ? *to + sum : sum;
}

int AddParts(Stream stream, float* low, float* high, const float* parts,
             int64_t rows, int64_t width, int64_t split, bool add) {
  return Launch(stream, dim3(Blocks(width, kWarp)), kThreads,
                kThreads * sizeof(float), AddPartsKernel, low, high, parts,
                Parts(rows), width, split, add);
}

// --- Bias and GELU -----------------------------------------------------------

__global__ void AddBiasKernel(Bf16* values, const Bf16* bias, int64_t packs,
                              int64_t width) {
  const int64_t pack = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (pack >= packs) return;
  Packed sum = LoadPack(values + pack * kPack);
  const Packed b = LoadPack(bias + pack * kPack % width);
  for (int i = 0; i < kPack; ++i) {
    sum.at[i] = ToBf16(ToFloat(sum.at[i]) + ToFloat(b.at[i]));
  }
  StorePack(values + pack * kPack, sum);
}

constexpr float kGeluScale = 0.79788456080286535588f;  // sqrt(2 / pi)
constexpr float kGeluCubic = 0.044715f;

__global__ void GeluForwardKernel(Bf16* out, const Bf16* in, int64_t packs) {
  const int64_t pack = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (pack >= packs) return;
  Packed values = LoadPack(in + pack * kPack);
  for (int i = 0; i < kPack; ++i) {
    const float x = ToFloat(values.at[i]);
    const float t = tanhf(kGeluScale * (x + kGeluCubic * x * x * x));
    values.at[i] = ToBf16(0.5f * x * (1 + t));
  }
  StorePack(out + pack * kPack, values);
}

__global__ void GeluBackwardKernel(Bf16* d, const Bf16* in, int64_t packs) {
  const int64_t pack = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (pack >= packs) return;
  const Packed values = LoadPack(in + pack * kPack);
  Packed out = LoadPack(d + pack * kPack);
  for (int i = 0; i < kPack; ++i) {
    const float x = ToFloat(values.at[i]);
    const float t = tanhf(kGeluScale * (x + kGeluCubic * x * x * x));
    const float du = kGeluScale * (1 + 3 * kGeluCubic * x * x);
    const float slope = 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * du;
    out.at[i] = ToBf16(ToFloat(out.at[i]) * slope);
  }
  StorePack(d + pack * kPack, out);
}

}  // namespace

int EmbedForward(Stream stream, Bf16* out, const uint16_t* tokens,
                 const float* token_table, const float* position_table,
                 int64_t rows, int64_t context, int64_t width) {
  const int64_t packs = rows * width / kPack;
  return Launch(stream, dim3(Blocks(packs, kThreads)), kThreads, 0,
                EmbedForwardKernel, out, tokens, token_table, position_table,
                packs, context, width);
}

int EmbedBackward(Stream stream, float* dtoken_table, float* dposition_table,
                  const TokenPlaces* places, int64_t tokens,
                  const int32_t* order, const Bf16* dout, int64_t rows,
                  int64_t context, int64_t width, bool add) {
  const dim3 blocks(static_cast<unsigned>(tokens), Blocks(width, kColumns));
  const int error =
      Launch(stream, blocks, kThreads, kAddWarpsBytes, EmbedTokensKernel,
             dtoken_table, places, order, dout, width);
  if (error != 0) return error;
  const int64_t stride = context * width;
  return Launch(stream, dim3(Blocks(stride, kThreads)), kThreads, 0,
                EmbedPositionsKernel, dposition_table, dout, rows / context,
                stride, add);
}

int LayerNormForward(Stream stream, Bf16* out, float* mean, float* rstd,
                     const Bf16* in, const float* gain, const float* bias,
                     int64_t rows, int64_t width) {
  return Launch(stream, dim3(Blocks(rows, kThreads / kWarp)), kThreads, 0,
                NormForwardKernel, out, mean, rstd, in, gain, bias, rows,
                width);
}

int LayerNormBackward(Stream stream, Bf16* din, float* dgain, float* dbias,
                      float* parts, const Bf16* dout, const Bf16* in,
                      const float* gain, const float* mean, const float* rstd,
                      int64_t rows, int64_t width, bool add) {
  const int warps = NormWarps(width);
  const int error =
      Launch(stream, dim3(static_cast<unsigned>(Parts(rows))), warps * kWarp,
             sizeof(float) * warps * 2 * width, NormBackwardKernel, din, parts,
             dout, in, gain, mean, rstd, rows, width);
  if (error != 0) return error;
  return AddParts(stream, dgain, dbias, parts, rows, 2 * width, width, add);
}

int AddBias(Stream stream, Bf16* values, const Bf16* bias, int64_t rows,
            int64_t width) {
  const int64_t packs = rows * width / kPack;
  return Launch(stream, dim3(Blocks(packs, kThreads)), kThreads, 0,
                AddBiasKernel, values, bias, packs, width);
}

int BiasBackward(Stream stream, float* dbias, float* parts, const Bf16* dout,
                 int64_t rows, int64_t width, bool add) {
  const dim3 blocks(Blocks(width, kColumns),
                    static_cast<unsigned>(Parts(rows)));
  const int error = Launch(stream, blocks, kThreads, kAddWarpsBytes,
                           ColumnPartsKernel, parts, dout, rows, width);
  if (error != 0) return error;
  return AddParts(stream, dbias, nullptr, parts, rows, width, width, add);
}

int GeluForward(Stream stream, Bf16* out, const Bf16* in, int64_t count) {
  const int64_t packs = count / kPack;
  return Launch(stream, dim3(Blocks(packs, kThreads)), kThreads, 0,
                GeluForwardKernel, out, in, packs);
}

int GeluBackward(Stream stream, Bf16* d, const Bf16* in, int64_t count) {
  const int64_t packs = count / kPack;
  return Launch(stream, dim3(Blocks(packs, kThreads)), kThreads, 0,
                GeluBackwardKernel, d, in, packs);
}

}  // namespace rollcall::cuda
