// The loss, the update, and the texts of errors.
#include <cmath>

#include "trainer/cuda/kernels/kernel_language.h"

namespace rollcall::cuda {
namespace {

constexpr int kThreads = 256;
constexpr size_t kFoldBytes = kThreads / kWarp * sizeof(double);

constexpr int kRowThreads = 1024;
constexpr float kLog2E = 1.44269504088896340736f;

// One block per row, and few blocks at a time, so that the second pass finds
// the row in a cache. The first pass finds the largest logit and the sum of
// exponentials: each thread over its share, then the whole block. The second
// pass computes the gradient.
__global__ void __launch_bounds__(kRowThreads, 2)
    CrossEntropyKernel(Bf16* logits, float* losses, const uint16_t* targets,
                       float scale, int vocabulary, int padded) {
  float* room = reinterpret_cast<float*>(SharedMemory());
  Bf16* row = logits + int64_t{blockIdx.x} * padded;
  const int target = targets[blockIdx.x];
  const int step = blockDim.x * kPack;
  // Read before any thread writes; a barrier is in between.
  const float chosen = ToFloat(row[target]);
  float max = -INFINITY;  // In units of log2.
  float sum = 0;
  for (int c = threadIdx.x * kPack; c < vocabulary; c += step) {
    const Packed pack = LoadPack(row + c);
    float x[kPack];
    float pack_max = max;
    ROLLCALL_UNROLL
    for (int i = 0; i < kPack; ++i) {
      x[i] = c + i < vocabulary ? ToFloat(pack.at[i]) * kLog2E : -INFINITY;
      pack_max = Max()(pack_max, x[i]);
    }
    sum *= Exp2(max - pack_max);
    ROLLCALL_UNROLL
    for (int i = 0; i < kPack; ++i) sum += Exp2(x[i] - pack_max);
    max = pack_max;
  }
  const float all_max = BlockFold(max, room, Max());
  // A thread without a share has -inf and 0. NaN stays NaN.
  const float share = max == -INFINITY ? sum : sum * Exp2(max - all_max);
  const float all = BlockFold(share, room, Sum());
  if (threadIdx.x == 0) {
    losses[blockIdx.x] = logf(all) + all_max / kLog2E - chosen;
  }
  if (scale == 0) return;
  const float factor = scale / all;
  for (int c = threadIdx.x * kPack; c < padded; c += step) {
    Packed pack = LoadPack(row + c);
    ROLLCALL_UNROLL
    for (int i = 0; i < kPack; ++i) {
      float d = 0;
      if (c + i < vocabulary) {
        d = Exp2(ToFloat(pack.at[i]) * kLog2E - all_max) * factor;
        if (c + i == target) d -= scale;
      }
      pack.at[i] = ToBf16(d);
    }
    StorePack(row + c, pack);
  }
}

__global__ void SumLossesKernel(double* sum, float* extras, const float* losses,
                                int64_t rows, double scale, float stops,
                                bool add) {
  double mine = 0;
  for (int64_t i = threadIdx.x; i < rows; i += kThreads) mine += losses[i];
  double all = BlockFold(mine, reinterpret_cast<double*>(SharedMemory()), Sum());
  if (threadIdx.x != 0) return;
  if (add) all += *sum;
  *sum = all;
  extras[0] = static_cast<float>(all * scale);
  extras[1] = stops;
}

__global__ void SquarePartsKernel(double* parts, const float* values,
                                  int64_t count) {
  double mine = 0;
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count;
       i += step) {
    mine += double(values[i]) * values[i];
  }
  const double all =
      BlockFold(mine, reinterpret_cast<double*>(SharedMemory()), Sum());
  if (threadIdx.x == 0) parts[blockIdx.x] = all;
}

__global__ void AddSquaresKernel(double* sum, const double* parts, int count) {
  double mine = 0;
  for (int i = threadIdx.x; i < count; i += kThreads) mine += parts[i];
  const double all =
      BlockFold(mine, reinterpret_cast<double*>(SharedMemory()), Sum());
  if (threadIdx.x == 0) *sum = all;
}

// As AdamW::Step of adamw.cc.
__global__ void AdamWKernel(float* weights, Bf16* copy, float* first,
                            float* second, const float* gradients,
                            const Piece* pieces, AdamWNumbers n) {
  const Piece piece = pieces[blockIdx.x];
  const float keep = piece.decays != 0 ? n.keep : 1.0f;
  for (uint32_t j = threadIdx.x; j < piece.count; j += kThreads) {
    const uint64_t i = piece.begin + j;
    const float g = gradients[i] * n.shrink;
    const float m = n.beta1 * first[i] + (1 - n.beta1) * g;
    const float v = n.beta2 * second[i] + (1 - n.beta2) * g * g;
    first[i] = m;
    second[i] = v;
    const float step = m * n.bias1 / (sqrtf(v * n.bias2) + n.epsilon);
    const float weight = weights[i] * keep - n.learning_rate * step;
    weights[i] = weight;
    copy[piece.copy + j] = ToBf16(weight);
  }
}

__global__ void CopyWeightsKernel(Bf16* copy, const float* weights,
                                  const Piece* pieces) {
  const Piece piece = pieces[blockIdx.x];
  for (uint32_t j = threadIdx.x; j < piece.count; j += kThreads) {
    copy[piece.copy + j] = ToBf16(weights[piece.begin + j]);
  }
}

// As Mix of random.h and FingerprintTerm of state_fingerprint.h.
__device__ uint64_t MixBits(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
__device__ uint64_t FingerprintTerm(uint64_t index, uint32_t first,
                                    uint32_t second) {
  return MixBits((uint64_t{second} << 32 | first) +
                 (index + 1) * 0x9e3779b97f4a7c15u);
}

__global__ void FingerprintPartsKernel(uint64_t* parts, const float* values,
                                       int64_t count, uint64_t index) {
  uint64_t mine = 0;
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; 2 * i < count;
       i += step) {
    const uint32_t first = LoadWhole<uint32_t>(values + 2 * i);
    const uint32_t second =
        2 * i + 1 < count ? LoadWhole<uint32_t>(values + 2 * i + 1) : 0;
    mine += FingerprintTerm(index + i, first, second);
  }
  const uint64_t all =
      BlockFold(mine, reinterpret_cast<uint64_t*>(SharedMemory()), Sum());
  if (threadIdx.x == 0) parts[blockIdx.x] = all;
}

__global__ void AddFingerprintsKernel(uint64_t* sum, const uint64_t* parts,
                                      int count, bool add) {
  uint64_t mine = 0;
  for (int i = threadIdx.x; i < count; i += kThreads) mine += parts[i];
  const uint64_t all =
      BlockFold(mine, reinterpret_cast<uint64_t*>(SharedMemory()), Sum());
  if (threadIdx.x == 0) *sum = add ? *sum + all : all;
}

__global__ void StoreKernel(uint64_t* to, uint64_t value) { *to = value; }

}  // namespace

const char* ErrorText(int error) { return TextOf(error); }

int Zero(Stream stream, void* memory, size_t bytes) {
  return SetZero(stream, memory, bytes);
}

int Store(Stream stream, uint64_t* to, uint64_t value) {
  return Launch(stream, dim3(1), 1, 0, StoreKernel, to, value);
}

int CrossEntropy(Stream stream, Bf16* logits, float* losses,
                 const uint16_t* targets, float scale, int64_t rows,
                 int64_t vocabulary, int64_t padded) {
  const int warps = static_cast<int>(Blocks(padded, kPack * kWarp));
  const int threads = warps * kWarp < kRowThreads ? warps * kWarp : kRowThreads;
  return Launch(stream, dim3(Blocks(rows, 1)), threads,
                kRowThreads / kWarp * sizeof(float), CrossEntropyKernel, logits,
                losses, targets, scale, static_cast<int>(vocabulary),
                static_cast<int>(padded));
}

int SumLosses(Stream stream, double* sum, float* extras, const float* losses,
              int64_t rows, double scale, float stops, bool add) {
  return Launch(stream, dim3(1), kThreads, kFoldBytes, SumLossesKernel, sum,
                extras, losses, rows, scale, stops, add);
}

int SumSquares(Stream stream, double* sum, double* parts, const float* values,
               int64_t count) {
  // Depends only on the count, so the order of the sum is the same on every
  // device.
  constexpr int64_t kEach = 8 * kThreads;
  const unsigned wanted = Blocks(count, kEach);
  const unsigned blocks = wanted < kSquareParts ? wanted : kSquareParts;
  const int error = Launch(stream, dim3(blocks), kThreads, kFoldBytes,
                           SquarePartsKernel, parts, values, count);
  if (error != 0) return error;
  return Launch(stream, dim3(1), kThreads, kFoldBytes, AddSquaresKernel, sum,
                static_cast<const double*>(parts), static_cast<int>(blocks));
}

int AdamWStep(Stream stream, float* weights, Bf16* copy, float* first,
              float* second, const float* gradients, const Piece* pieces,
              int64_t count, const AdamWNumbers& numbers) {
  return Launch(stream, dim3(Blocks(count, 1)), kThreads, 0, AdamWKernel,
                weights, copy, first, second, gradients, pieces, numbers);
}

int Fingerprint(Stream stream, uint64_t* sum, uint64_t* parts,
                const float* values, int64_t count, uint64_t index, bool add) {
  constexpr int64_t kEach = 16 * kThreads;  // Values of a block.
  const unsigned wanted = Blocks(count, kEach);
  const unsigned blocks =
      wanted < kFingerprintParts ? wanted : kFingerprintParts;
  const int error = Launch(stream, dim3(blocks), kThreads, kFoldBytes,
                           FingerprintPartsKernel, parts, values, count, index);
  if (error != 0) return error;
  return Launch(stream, dim3(1), kThreads, kFoldBytes, AddFingerprintsKernel,
                sum, static_cast<const uint64_t*>(parts),
                static_cast<int>(blocks), add);
}

int CopyWeights(Stream stream, Bf16* copy, const float* weights,
                const Piece* pieces, int64_t count) {
  return Launch(stream, dim3(Blocks(count, 1)), kThreads, 0, CopyWeightsKernel,
                copy, weights, pieces);
}

}  // namespace rollcall::cuda
