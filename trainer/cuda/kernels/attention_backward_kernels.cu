// The backward pass of causal attention by tiles.
//
// It has two kernels, one for the gradients of keys and values and one for those
// of queries. Both compute the scores and their gradients: seven products instead
// of five, but no sum depends on the order of blocks.
#include "trainer/cuda/kernels/attention_tiles.h"

namespace rollcall::cuda {
namespace {

// Columns whose scores and gradients are in registers at the same time.
constexpr int kAtOnce = 32;

template <int kHead>
constexpr size_t BackwardBytes() {
  return sizeof(Bf16) *
             (2 * kRowsOf<kHead> + 4 * kPassingOf<kHead>)*Padded(kHead) +
         sizeof(float) * 4 * kPassingOf<kHead>;
}

// dots[row] = dout . out of a head: the term that the softmax's gradient
// subtracts in each row. kDotLanes lanes per row of a head.
constexpr int kDotLanes = 8;

__global__ void DotsKernel(float* dots, const Bf16* dout, const Bf16* out,
                           int context, int width, int heads) {
  const Head at = HeadOf(context, width, heads);
  const int row = (blockIdx.z * blockDim.x + threadIdx.x) / kDotLanes;
  const int lane = threadIdx.x % kDotLanes;
  float sum = 0;
  if (row < context) {
    for (int c = lane * kPack; c < at.head; c += kDotLanes * kPack) {
      const Packed a = LoadPack(dout + at.out_row(row) + c);
      const Packed b = LoadPack(out + at.out_row(row) + c);
      for (int i = 0; i < kPack; ++i)
        sum += ToFloat(a.at[i]) * ToFloat(b.at[i]);
    }
  }
  for (int step = kDotLanes / 2; step > 0; step /= 2) {
    sum += __shfl_xor_sync(kAllLanes, sum, step);
  }
  if (row < context && lane == 0) dots[at.lse + row] = sum;
}

// One softmax weight recomputed from its score, and the gradient of the score
// but for the scale. `lse` is in units of log2.
__device__ inline void Recompute(float& score, float& dweight, bool seen,
                                 float scale, float lse, float dot) {
  const float p = seen ? Exp2(score * scale - lse) : 0.0f;
  score = p;
  dweight = p * (dweight - dot);
}

template <int kTiles, int kHead>
__device__ void Scale(Sums<kTiles, kHead>& sums, float factor) {
  ROLLCALL_UNROLL
  for (int m = 0; m < kTiles; ++m) {
    ROLLCALL_UNROLL
    for (int n = 0; n < kHead / 8; ++n) {
      ROLLCALL_UNROLL
      for (int i = 0; i < 4; ++i) sums.at[m][n][i] *= factor;
    }
  }
}

// One block takes kRowsOf keys, goes over all queries that see them, and
// computes the gradients of keys and values. All is transposed: strips are of
// keys.
template <int kHead>
__global__ void __launch_bounds__(kThreads, 2)
    KeysBackwardKernel(Bf16* dqkv, const Bf16* dout, const Bf16* qkv,
                       const float* lse, const float* dots, int context,
                       int width, int heads) {
  constexpr int kTiles = kTilesOf<kHead>;
  constexpr int kRows = kRowsOf<kHead>;
  constexpr int kPassing = kPassingOf<kHead>;
  constexpr int kTileSize = kPassing * Padded(kHead);
  unsigned char* shared = SharedMemory();
  Bf16* k = Take<Bf16>(shared, kRows * Padded(kHead));
  Bf16* v = Take<Bf16>(shared, kRows * Padded(kHead));
  Bf16* q = Take<Bf16>(shared, 2 * kTileSize);
  Bf16* d = Take<Bf16>(shared, 2 * kTileSize);
  float* lses = Take<float>(shared, 2 * kPassing);
  float* my_dots = Take<float>(shared, 2 * kPassing);

  const Head at = HeadOf(context, width, heads);
  const int first = blockIdx.z * kRows;
  const int strip = threadIdx.x / kWarp * 16 * kTiles;
  const float scale = at.scale * kLog2E;
  const auto copy = [&](int query) {
    const int which = query / kPassing % 2;
    CopyTile<kHead>(q + which * kTileSize, qkv + at.row(0), 3 * width, query,
                    kPassing, at);
    CopyTile<kHead>(d + which * kTileSize, dout + at.out_row(0), width, query,
                    kPassing, at);
    for (int i = threadIdx.x; i < kPassing; i += kThreads) {
      const bool there = query + i < context;
      const int to = which * kPassing + i;
      CopyAsync<4>(lses + to, there ? lse + at.lse + query + i : nullptr);
      CopyAsync<4>(my_dots + to, there ? dots + at.lse + query + i : nullptr);
    }
  };
  CopyTile<kHead>(k, qkv + at.row(0) + width, 3 * width, first, kRows, at);
  CopyTile<kHead>(v, qkv + at.row(0) + 2 * width, 3 * width, first, kRows, at);
  copy(first);
  k += strip * Padded(kHead);
  v += strip * Padded(kHead);

  Sums<kTiles, kHead> dk, dv;
  dk.Clear();
  dv.Clear();
  for (int query = first; query < context; query += kPassing) {
    AwaitCopies();
    __syncthreads();
    if (query + kPassing < context) copy(query + kPassing);
    const int which = query / kPassing % 2;
    for (int c = 0; c < kPassing; c += kAtOnce) {
      // No query here sees this warp's keys.
      if (query + c + kAtOnce <= first + strip) continue;
      const bool all_seen = query + c >= first + strip + 16 * kTiles - 1;
      const int skip = which * kTileSize + c * Padded(kHead);
      Sums<kTiles, kAtOnce> scores, dweights;
      Scores<kHead>(scores, k, q + skip);
      Scores<kHead>(dweights, v, d + skip);
      ROLLCALL_UNROLL
      for (int n = 0; n < kAtOnce / 8; ++n) {
        ROLLCALL_UNROLL
        for (int i = 0; i < 2; ++i) {
          const int column = c + ColumnOf(n, i);
          const float row_lse = lses[which * kPassing + column] * kLog2E;
          const float dot = my_dots[which * kPassing + column];
          ROLLCALL_UNROLL
          for (int m = 0; m < kTiles; ++m) {
            ROLLCALL_UNROLL
            for (int half = 0; half < 4; half += 2) {
              const bool seen =
                  all_seen || first + strip + RowOf(m, half) <= query + column;
              Recompute(scores.at[m][n][half + i], dweights.at[m][n][half + i],
                        seen, scale, row_lse, dot);
            }
          }
        }
      }
      Mix<kHead>(dv, scores, d + skip);
      Mix<kHead>(dk, dweights, q + skip);
    }
  }
  Scale(dk, at.scale);
  StoreStrip<kHead>(dqkv + at.row(0) + width, 3 * width, first + strip, k, dk,
                    at);
  StoreStrip<kHead>(dqkv + at.row(0) + 2 * width, 3 * width, first + strip, v,
                    dv, at);
}

// One block takes kRowsOf queries, goes over all keys that they see, and
// computes the queries' gradients.
template <int kHead>
__global__ void __launch_bounds__(kThreads, 2)
    QueriesBackwardKernel(Bf16* dqkv, const Bf16* dout, const Bf16* qkv,
                          const float* lse, const float* dots, int context,
                          int width, int heads) {
  constexpr int kTiles = kTilesOf<kHead>;
  constexpr int kRows = kRowsOf<kHead>;
  constexpr int kPassing = kPassingOf<kHead>;
  constexpr int kTileSize = kPassing * Padded(kHead);
  unsigned char* shared = SharedMemory();
  Bf16* q = Take<Bf16>(shared, kRows * Padded(kHead));
  Bf16* d = Take<Bf16>(shared, kRows * Padded(kHead));
  Bf16* k = Take<Bf16>(shared, 2 * kTileSize);
  Bf16* v = Take<Bf16>(shared, 2 * kTileSize);

  const Head at = HeadOf(context, width, heads);
  // Blocks with the most visible keys start first.
  const int first = (gridDim.z - 1 - blockIdx.z) * kRows;
  const int strip = threadIdx.x / kWarp * 16 * kTiles;
  const float scale = at.scale * kLog2E;
  const auto copy = [&](int key) {
    const int skip = key / kPassing % 2 * kTileSize;
    CopyTile<kHead>(k + skip, qkv + at.row(0) + width, 3 * width, key, kPassing,
                    at);
    CopyTile<kHead>(v + skip, qkv + at.row(0) + 2 * width, 3 * width, key,
                    kPassing, at);
  };
  CopyTile<kHead>(q, qkv + at.row(0), 3 * width, first, kRows, at);
  CopyTile<kHead>(d, dout + at.out_row(0), width, first, kRows, at);
  copy(0);
  q += strip * Padded(kHead);
  d += strip * Padded(kHead);
  float lses[kTiles][2], row_dots[kTiles][2];
  ROLLCALL_UNROLL
  for (int m = 0; m < kTiles; ++m) {
    ROLLCALL_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int row = first + strip + RowOf(m, 2 * half);
      const bool there = row < context;
      lses[m][half] = there ? lse[at.lse + row] * kLog2E : 0.0f;
      row_dots[m][half] = there ? dots[at.lse + row] : 0.0f;
    }
  }

  Sums<kTiles, kHead> dq;
  dq.Clear();
  const int end = first + kRows < context ? first + kRows : context;
  for (int key = 0; key < end; key += kPassing) {
    AwaitCopies();
    __syncthreads();
    if (key + kPassing < end) copy(key + kPassing);
    for (int c = 0; c < kPassing; c += kAtOnce) {
      // This warp's queries see no key here.
      if (key + c >= first + strip + 16 * kTiles) continue;
      const bool all_seen = key + c + kAtOnce <= first + strip + 1;
      const int skip = key / kPassing % 2 * kTileSize + c * Padded(kHead);
      Sums<kTiles, kAtOnce> scores, dweights;
      Scores<kHead>(scores, q, k + skip);
      Scores<kHead>(dweights, d, v + skip);
      ROLLCALL_UNROLL
      for (int m = 0; m < kTiles; ++m) {
        ROLLCALL_UNROLL
        for (int n = 0; n < kAtOnce / 8; ++n) {
          ROLLCALL_UNROLL
          for (int i = 0; i < 4; ++i) {
            const bool seen = all_seen || key + c + ColumnOf(n, i) <=
                                              first + strip + RowOf(m, i);
            Recompute(scores.at[m][n][i], dweights.at[m][n][i], seen, scale,
                      lses[m][i / 2], row_dots[m][i / 2]);
          }
        }
      }
      Mix<kHead>(dq, dweights, k + skip);
    }
  }
  Scale(dq, at.scale);
  StoreStrip<kHead>(dqkv + at.row(0), 3 * width, first + strip, q, dq, at);
}

static_assert(BackwardBytes<64>() <= 99 << 10);
static_assert(BackwardBytes<kHeadMax>() <= 99 << 10);

template <int kHead>
int Backward(Stream stream, Bf16* dqkv, const float* dots, const Bf16* dout,
             const Bf16* qkv, const float* lse, const Shape& shape) {
  const auto launch = [&](auto* kernel) {
    return Launch(stream, shape.blocks(kRowsOf<kHead>), kThreads,
                  BackwardBytes<kHead>(), kernel, dqkv, dout, qkv, lse, dots,
                  shape.context, shape.width, shape.heads);
  };
  const int error = launch(KeysBackwardKernel<kHead>);
  return error != 0 ? error : launch(QueriesBackwardKernel<kHead>);
}

}  // namespace

int AttentionBackward(Stream stream, Bf16* dqkv, float* dots, const Bf16* dout,
                      const Bf16* out, const Bf16* qkv, const float* lse,
                      int64_t sequences, int64_t context, int64_t width,
                      int64_t heads) {
  const Shape shape = ShapeOf(sequences, context, width, heads);
  const int error = Launch(stream, shape.blocks(kThreads / kDotLanes), kThreads,
                           0, DotsKernel, dots, dout, out, shape.context,
                           shape.width, shape.heads);
  if (error != 0) return error;
  const int64_t head = width / heads;
  if (head <= 32) {
    return Backward<32>(stream, dqkv, dots, dout, qkv, lse, shape);
  }
  if (head <= 64) {
    return Backward<64>(stream, dqkv, dots, dout, qkv, lse, shape);
  }
  return Backward<kHeadMax>(stream, dqkv, dots, dout, qkv, lse, shape);
}

}  // namespace rollcall::cuda
