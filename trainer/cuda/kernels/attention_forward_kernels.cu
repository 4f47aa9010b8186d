// The forward pass of causal attention by tiles.
#include "trainer/cuda/kernels/attention_tiles.h"

namespace rollcall::cuda {
namespace {

template <int kHead>
constexpr size_t ForwardBytes() {
  return sizeof(Bf16) * (kRowsOf<kHead> + 4 * kPassingOf<kHead>)*Padded(kHead);
}

// The running softmax of a strip's rows: of each, the largest score times
// scale * log2(e), and this lane's share of the sum.
template <int kTiles>
struct Running {
  float max[kTiles][2], sum[kTiles][2];
};

// Of the four lanes that share a row.
__device__ inline float QuadMax(float value) {
  value = Max()(value, __shfl_xor_sync(kAllLanes, value, 1));
  return Max()(value, __shfl_xor_sync(kAllLanes, value, 2));
}
__device__ inline float QuadSum(float value) {
  value += __shfl_xor_sync(kAllLanes, value, 1);
  return value + __shfl_xor_sync(kAllLanes, value, 2);
}

// Online softmax: turns scores into weights, and shrinks the earlier sums.
// Every row has a score that is not -infinity, here or in an earlier tile.
template <int kHead, int kTiles, int kColumns>
__device__ void OnlineSoftmax(Sums<kTiles, kColumns>& scores,
                              Sums<kTiles, kHead>& sums,
                              Running<kTiles>& running, float scale) {
  ROLLCALL_UNROLL
  for (int m = 0; m < kTiles; ++m) {
    ROLLCALL_UNROLL
    for (int half = 0; half < 2; ++half) {
      float max = -INFINITY;
      ROLLCALL_UNROLL
      for (int n = 0; n < kColumns / 8; ++n) {
        max = Max()(max, scores.at[m][n][2 * half]);
        max = Max()(max, scores.at[m][n][2 * half + 1]);
      }
      max = Max()(running.max[m][half], QuadMax(max) * scale);
      const float shrink = Exp2(running.max[m][half] - max);
      running.max[m][half] = max;
      float sum = 0;
      ROLLCALL_UNROLL
      for (int n = 0; n < kColumns / 8; ++n) {
        ROLLCALL_UNROLL
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          const float p = Exp2(scores.at[m][n][i] * scale - max);
          scores.at[m][n][i] = p;
          sum += p;
        }
      }
      running.sum[m][half] = running.sum[m][half] * shrink + sum;
      ROLLCALL_UNROLL
      for (int n = 0; n < kHead / 8; ++n) {
        sums.at[m][n][2 * half] *= shrink;
        sums.at[m][n][2 * half + 1] *= shrink;
      }
    }
  }
}

template <int kHead>
__global__ void __launch_bounds__(kThreads, 2)
    ForwardKernel(Bf16* out, float* lse, const Bf16* qkv, int context,
                  int width, int heads) {
  constexpr int kTiles = kTilesOf<kHead>;
  constexpr int kRows = kRowsOf<kHead>;
  constexpr int kPassing = kPassingOf<kHead>;
  constexpr int kTileSize = kPassing * Padded(kHead);
  unsigned char* shared = SharedMemory();
  Bf16* q = Take<Bf16>(shared, kRows * Padded(kHead));
  Bf16* k = Take<Bf16>(shared, 2 * kTileSize);
  Bf16* v = Take<Bf16>(shared, 2 * kTileSize);

  const Head at = HeadOf(context, width, heads);
  // Blocks with the most visible keys start first.
  const int first = (gridDim.z - 1 - blockIdx.z) * kRows;
  const int strip = threadIdx.x / kWarp * 16 * kTiles;
  const float scale = at.scale * kLog2E;
  q += strip * Padded(kHead);
  const auto copy = [&](int key) {
    const int buffer = key / kPassing % 2 * kTileSize;
    CopyTile<kHead>(k + buffer, qkv + at.row(0) + width, 3 * width, key,
                    kPassing, at);
    CopyTile<kHead>(v + buffer, qkv + at.row(0) + 2 * width, 3 * width, key,
                    kPassing, at);
  };
  CopyTile<kHead>(q - strip * Padded(kHead), qkv + at.row(0), 3 * width, first,
                  kRows, at);
  copy(0);

  Sums<kTiles, kHead> sums;
  sums.Clear();
  Running<kTiles> running;
  ROLLCALL_UNROLL
  for (int m = 0; m < kTiles; ++m) {
    ROLLCALL_UNROLL
    for (int half = 0; half < 2; ++half) {
      running.max[m][half] = -INFINITY;
      running.sum[m][half] = 0;
    }
  }
  // No row of this block sees keys beyond the block's last row.
  const int end = first + kRows < context ? first + kRows : context;
  for (int key = 0; key < end; key += kPassing) {
    AwaitCopies();
    __syncthreads();
    if (key + kPassing < end) copy(key + kPassing);
    if (key >= first + strip + 16 * kTiles) continue;
    const int buffer = key / kPassing % 2 * kTileSize;
    Sums<kTiles, kPassing> scores;
    Scores<kHead>(scores, q, k + buffer);
    if (key + kPassing > first + strip + 1) {
      ROLLCALL_UNROLL
      for (int m = 0; m < kTiles; ++m) {
        ROLLCALL_UNROLL
        for (int n = 0; n < kPassing / 8; ++n) {
          ROLLCALL_UNROLL
          for (int i = 0; i < 4; ++i) {
            if (key + ColumnOf(n, i) > first + strip + RowOf(m, i)) {
              scores.at[m][n][i] = -INFINITY;
            }
          }
        }
      }
    }
    OnlineSoftmax<kHead>(scores, sums, running, scale);
    Mix<kHead>(sums, scores, v + buffer);
  }
  ROLLCALL_UNROLL
  for (int m = 0; m < kTiles; ++m) {
    ROLLCALL_UNROLL
    for (int half = 0; half < 2; ++half) {
      const float sum = QuadSum(running.sum[m][half]);
      const int row = first + strip + RowOf(m, 2 * half);
      if (threadIdx.x % 4 == 0 && row < context) {
        lse[at.lse + row] = running.max[m][half] / kLog2E + logf(sum);
      }
      ROLLCALL_UNROLL
      for (int n = 0; n < kHead / 8; ++n) {
        sums.at[m][n][2 * half] /= sum;
        sums.at[m][n][2 * half + 1] /= sum;
      }
    }
  }
  StoreStrip<kHead>(out + at.out_row(0), width, first + strip, q, sums, at);
}

template <int kHead>
int Forward(Stream stream, Bf16* out, float* lse, const Bf16* qkv,
            const Shape& shape) {
  return Launch(stream, shape.blocks(kRowsOf<kHead>), kThreads,
                ForwardBytes<kHead>(), ForwardKernel<kHead>, out, lse, qkv,
                shape.context, shape.width, shape.heads);
}

}  // namespace

int AttentionForward(Stream stream, Bf16* out, float* lse, const Bf16* qkv,
                     int64_t sequences, int64_t context, int64_t width,
                     int64_t heads) {
  const Shape shape = ShapeOf(sequences, context, width, heads);
  const int64_t head = width / heads;
  if (head <= 32) return Forward<32>(stream, out, lse, qkv, shape);
  if (head <= 64) return Forward<64>(stream, out, lse, qkv, shape);
  return Forward<kHeadMax>(stream, out, lse, qkv, shape);
}

}  // namespace rollcall::cuda
