// Embedding, layer norm, bias and GELU: work per row, and sums over columns.
#include <cmath>

#include "trainer/cuda/kernel_language.h"

namespace rollcall::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kColumns = 32;  // Per block that sums over columns...
constexpr int kLanes = 8;     // ...with this many threads per column.

// --- Embedding ---------------------------------------------------------------

__global__ void EmbedForwardKernel(Bf16* out, const uint16_t* tokens,
                                   const float* token_table,
                                   const float* position_table, int64_t packs,
                                   int64_t context, int64_t width) {
  const int64_t pack = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (pack >= packs) return;
  const int64_t row = pack * kPack / width;
  const int64_t column = pack * kPack % width;
  const float* token = token_table + tokens[row] * width + column;
  const float* position = position_table + row % context * width + column;
  Packed sum;
  for (int i = 0; i < kPack; ++i) sum.at[i] = ToBf16(token[i] + position[i]);
  StorePack(out + row * width + column, sum);
}

// One block for each token of the batch and each kColumns of the width. Its
// threads of one column share the token's rows; thread 0 of them adds up.
__global__ void EmbedTokensKernel(float* dtoken_table,
                                  const TokenPlaces* places,
                                  const int32_t* order, const Bf16* dout,
                                  int64_t width) {
  float* room = reinterpret_cast<float*>(SharedMemory());
  const TokenPlaces place = places[blockIdx.x];
  const int lane = threadIdx.x / kColumns;
  const int64_t column =
      int64_t{blockIdx.y} * kColumns + threadIdx.x % kColumns;
  float sum = 0;
  if (column < width) {
    for (int i = place.begin + lane; i < place.end; i += kLanes) {
      sum += ToFloat(dout[order[i] * width + column]);
    }
  }
  room[threadIdx.x] = sum;
  __syncthreads();
  if (lane > 0 || column >= width) return;
  for (int i = 1; i < kLanes; ++i) sum += room[i * kColumns + threadIdx.x];
  dtoken_table[place.token * width + column] += sum;
}

__global__ void EmbedPositionsKernel(float* dposition_table, const Bf16* dout,
                                     int64_t sequences, int64_t stride) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= stride) return;
  float sum = 0;
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
    for (int i = 0; i < kPack; ++i) {
      const float n = (ToFloat(pack.at[i]) - m) * s;
      pack.at[i] = ToBf16(n * gain[c + i] + bias[c + i]);
    }
    StorePack(out + row * width + c, pack);
  }
  if (lane > 0) return;
  mean[row] = m;
  rstd[row] = s;
}

// As LayerNormBackward of layers.cc: din += s (g - mean(g) - n mean(g n)), g =
// dout * gain.
__global__ void NormInputKernel(Bf16* din, const Bf16* dout, const Bf16* in,
                                const float* gain, const float* mean,
                                const float* rstd, int64_t rows,
                                int64_t width) {
  const int lane = threadIdx.x % kWarp;
  const int64_t row = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp;
  if (row >= rows) return;
  const float m = mean[row];
  const float s = rstd[row];
  float g_sum = 0;
  float gn_sum = 0;
  for (int64_t c = lane * kPack; c < width; c += kWarp * kPack) {
    const Packed x = LoadPack(in + row * width + c);
    const Packed dy = LoadPack(dout + row * width + c);
    for (int i = 0; i < kPack; ++i) {
      const float g = ToFloat(dy.at[i]) * gain[c + i];
      g_sum += g;
      gn_sum += g * (ToFloat(x.at[i]) - m) * s;
    }
  }
  const float g_mean = WarpSum(g_sum) / width;
  const float gn_mean = WarpSum(gn_sum) / width;
  for (int64_t c = lane * kPack; c < width; c += kWarp * kPack) {
    const Packed x = LoadPack(in + row * width + c);
    const Packed dy = LoadPack(dout + row * width + c);
    Packed dx = LoadPack(din + row * width + c);
    for (int i = 0; i < kPack; ++i) {
      const float n = (ToFloat(x.at[i]) - m) * s;
      const float g = ToFloat(dy.at[i]) * gain[c + i];
      dx.at[i] = ToBf16(ToFloat(dx.at[i]) + s * (g - g_mean - n * gn_mean));
    }
    StorePack(din + row * width + c, dx);
  }
}

// --- Sums over columns -------------------------------------------------------

// The values to sum: the gradients, or the gradients times the normalized
// input.
struct Plain {
  const Bf16* dout;
  __device__ float operator()(int64_t, int64_t at) const {
    return ToFloat(dout[at]);
  }
};
struct Normalised {
  const Bf16* dout;
  const Bf16* in;
  const float* mean;
  const float* rstd;
  __device__ float operator()(int64_t row, int64_t at) const {
    return ToFloat(dout[at]) * (ToFloat(in[at]) - mean[row]) * rstd[row];
  }
};

// One block for each kColumns columns and each kRowsAPart rows.
template <typename Value>
__global__ void ColumnPartsKernel(float* parts, Value value, int64_t rows,
                                  int64_t width) {
  float* room = reinterpret_cast<float*>(SharedMemory());
  const int lane = threadIdx.x / kColumns;
  const int64_t column =
      int64_t{blockIdx.x} * kColumns + threadIdx.x % kColumns;
  const int64_t begin = int64_t{blockIdx.y} * kRowsAPart;
  const int64_t end = begin + kRowsAPart < rows ? begin + kRowsAPart : rows;
  float sum = 0;
  if (column < width) {
    for (int64_t row = begin + lane; row < end; row += kLanes) {
      sum += value(row, row * width + column);
    }
  }
  room[threadIdx.x] = sum;
  __syncthreads();
  if (lane > 0 || column >= width) return;
  for (int i = 1; i < kLanes; ++i) sum += room[i * kColumns + threadIdx.x];
  parts[blockIdx.y * width + column] = sum;
}

__global__ void AddPartsKernel(float* out, const float* parts, int64_t count,
                               int64_t width) {
  const int64_t column = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (column >= width) return;
  float sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += parts[i * width + column];
  out[column] = sum;
}

template <typename Value>
int SumColumns(Stream stream, float* out, float* parts, const Value& value,
               int64_t rows, int64_t width) {
  const dim3 blocks(Blocks(width, kColumns), Blocks(rows, kRowsAPart));
  const int error = Launch(stream, blocks, kColumns * kLanes,
                           kColumns * kLanes * sizeof(float),
                           ColumnPartsKernel<Value>, parts, value, rows, width);
  if (error != 0) return error;
  return Launch(stream, dim3(Blocks(width, kThreads)), kThreads, 0,
                AddPartsKernel, out, static_cast<const float*>(parts),
                Parts(rows), width);
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
                  int64_t context, int64_t width) {
  const dim3 blocks(static_cast<unsigned>(tokens), Blocks(width, kColumns));
  const int error = Launch(stream, blocks, kColumns * kLanes,
                           kColumns * kLanes * sizeof(float), EmbedTokensKernel,
                           dtoken_table, places, order, dout, width);
  if (error != 0) return error;
  const int64_t stride = context * width;
  return Launch(stream, dim3(Blocks(stride, kThreads)), kThreads, 0,
                EmbedPositionsKernel, dposition_table, dout, rows / context,
                stride);
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
                      int64_t rows, int64_t width) {
  int error =
      Launch(stream, dim3(Blocks(rows, kThreads / kWarp)), kThreads, 0,
             NormInputKernel, din, dout, in, gain, mean, rstd, rows, width);
  if (error != 0) return error;
  error = SumColumns(stream, dgain, parts, Normalised{dout, in, mean, rstd},
                     rows, width);
  if (error != 0) return error;
  return SumColumns(stream, dbias, parts + Parts(rows) * width, Plain{dout},
                    rows, width);
}

int AddBias(Stream stream, Bf16* values, const Bf16* bias, int64_t rows,
            int64_t width) {
  const int64_t packs = rows * width / kPack;
  return Launch(stream, dim3(Blocks(packs, kThreads)), kThreads, 0,
                AddBiasKernel, values, bias, packs, width);
}

int BiasBackward(Stream stream, float* dbias, float* parts, const Bf16* dout,
                 int64_t rows, int64_t width) {
  return SumColumns(stream, dbias, parts, Plain{dout}, rows, width);
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
