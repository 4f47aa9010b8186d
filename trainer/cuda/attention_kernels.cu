// Causal attention by tiles, as in FlashAttention-2 (arXiv 2307.08691): scores
// exist only in registers, only while a tile is processed. The backward pass
// recomputes them from each row's lse, the logarithm of its softmax sum.
//
// A block processes some rows of one head of one sequence; each of its warps
// has a strip of 16 kTiles rows in shared memory and their sums in registers.
// The tiles of the other side pass through two buffers in shared memory: while
// one is used, the next is copied. A head's columns are padded with zeros to
// kHead.
//
// The backward pass has two kernels, one for the gradients of keys and values
// and one for those of queries. Both compute the scores and their gradients:
// seven products instead of five, but no sum depends on the order of blocks.
#include <cmath>

#include "trainer/cuda/kernel_language.h"

namespace rollcall::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarp;
constexpr float kLog2E = 1.44269504088896340736f;

// Tiles of 16 rows in a warp's strip: as many as its registers have room for.
template <int kHead>
constexpr int kTilesOf = kHead <= 64 ? 2 : 1;
template <int kHead>
constexpr int kRowsOf = kWarps * 16 * kTilesOf<kHead>;
// Rows of a tile that passes. All tiles of a block fit into 99 KB, which is
// what sm_86 and sm_89 have.
template <int kHead>
constexpr int kPassingOf = kHead <= 64 ? 64 : 32;

// Rows are padded, so that eight rows of a matrix are in different banks.
__host__ __device__ constexpr int Padded(int columns) { return columns + 8; }

// The offsets of a head of a sequence, and its row strides.
struct Head {
  int64_t first;  // In qkv; keys and values follow at `width` and 2 `width`.
  int64_t out;    // Its rows are `width` apart.
  int64_t lse;
  int context, width, head;
  float scale;

  __device__ int64_t row(int r) const { return first + int64_t{r} * 3 * width; }
  __device__ int64_t out_row(int r) const { return out + int64_t{r} * width; }
};

// The grid is sequences x heads x pieces of the context, in this order: CUDA
// limits the latter two to 65,535.
__device__ inline Head HeadOf(int context, int width, int heads) {
  const int64_t s = blockIdx.x;
  const int h = blockIdx.y;
  Head at;
  at.context = context;
  at.width = width;
  at.head = width / heads;
  at.first = s * context * 3 * width + h * at.head;
  at.out = s * context * width + h * at.head;
  at.lse = (s * heads + h) * context;
  at.scale = 1 / sqrtf(static_cast<float>(at.head));
  return at;
}

// Takes `count` elements from the rest of the shared memory.
template <typename T>
__device__ T* Take(unsigned char*& shared, int count) {
  T* taken = reinterpret_cast<T*>(shared);
  shared += count * sizeof(T);
  return taken;
}

// Starts to copy rows first, first + 1, ... of a head (row 0 is `from`) into a
// shared tile; zeros beyond the context and beyond the head's columns.
template <int kHead>
__device__ void CopyTile(Bf16* tile, const Bf16* from, int64_t stride,
                         int first, int rows, const Head& at) {
  constexpr int kPacks = kHead / kPack;
  for (int i = threadIdx.x; i < rows * kPacks; i += kThreads) {
    const int row = i / kPacks;
    const int column = i % kPacks * kPack;
    const bool there = first + row < at.context && column < at.head;
    CopyAsync<sizeof(Packed)>(
        tile + row * Padded(kHead) + column,
        there ? from + (first + row) * stride + column : nullptr);
  }
}

// A warp's sums: rows of its strip by columns, in tiles of 16 x 8.
template <int kTiles, int kColumns>
struct Sums {
  float at[kTiles][kColumns / 8][4];

  __device__ void Clear() {
    ROLLCALL_UNROLL
    for (int m = 0; m < kTiles; ++m) {
      ROLLCALL_UNROLL
      for (int n = 0; n < kColumns / 8; ++n) {
        ROLLCALL_UNROLL
        for (int i = 0; i < 4; ++i) at[m][n][i] = 0;
      }
    }
  }
};
// Where this lane's sum [m][n][i] is.
__device__ inline int RowOf(int m, int i) {
  return 16 * m + threadIdx.x % kWarp / 4 + i / 2 * 8;
}
__device__ inline int ColumnOf(int n, int i) {
  return 8 * n + threadIdx.x % 4 * 2 + i % 2;
}

// sums = rows * columns^T, of a strip and the first kColumns rows of a tile.
template <int kHead, int kTiles, int kColumns>
__device__ void Scores(Sums<kTiles, kColumns>& sums, const Bf16* rows,
                       const Bf16* columns) {
  const int lane = threadIdx.x % kWarp;
  rows += lane % 16 * Padded(kHead) + lane / 16 * 8;
  columns += (lane / 16 * 8 + lane % 8) * Padded(kHead) + lane / 8 % 2 * 8;
  sums.Clear();
  ROLLCALL_UNROLL
  for (int d = 0; d < kHead; d += 16) {
    uint32_t a[kTiles][4];
    ROLLCALL_UNROLL
    for (int m = 0; m < kTiles; ++m) {
      LoadMatrices(a[m], rows + 16 * m * Padded(kHead) + d);
    }
    ROLLCALL_UNROLL
    for (int n = 0; n < kColumns / 8; n += 2) {
      uint32_t b[4];
      LoadMatrices(b, columns + 8 * n * Padded(kHead) + d);
      ROLLCALL_UNROLL
      for (int m = 0; m < kTiles; ++m) {
        MultiplyAdd(sums.at[m][n], a[m], b[0], b[1]);
        MultiplyAdd(sums.at[m][n + 1], a[m], b[2], b[3]);
      }
    }
  }
}

// sums += weights * tile, of the first kColumns rows of a tile.
template <int kHead, int kTiles, int kColumns>
__device__ void Mix(Sums<kTiles, kHead>& sums,
                    const Sums<kTiles, kColumns>& weights, const Bf16* tile) {
  const int lane = threadIdx.x % kWarp;
  tile += lane % 16 * Padded(kHead) + lane / 16 * 8;
  ROLLCALL_UNROLL
  for (int k = 0; k < kColumns / 16; ++k) {
    uint32_t a[kTiles][4];
    ROLLCALL_UNROLL
    for (int m = 0; m < kTiles; ++m) {
      const float(&low)[4] = weights.at[m][2 * k];
      const float(&high)[4] = weights.at[m][2 * k + 1];
      a[m][0] = Pair(low[0], low[1]);
      a[m][1] = Pair(low[2], low[3]);
      a[m][2] = Pair(high[0], high[1]);
      a[m][3] = Pair(high[2], high[3]);
    }
    ROLLCALL_UNROLL
    for (int d = 0; d < kHead / 8; d += 2) {
      uint32_t b[4];
      LoadTransposed(b, tile + 16 * k * Padded(kHead) + 8 * d);
      ROLLCALL_UNROLL
      for (int m = 0; m < kTiles; ++m) {
        MultiplyAdd(sums.at[m][d], a[m], b[0], b[1]);
        MultiplyAdd(sums.at[m][d + 1], a[m], b[2], b[3]);
      }
    }
  }
}

// Writes a warp's sums to rows `first`, ... of a head, through its strip, which
// no lane reads any more.
template <int kHead, int kTiles>
__device__ void StoreStrip(Bf16* to, int64_t stride, int first, Bf16* strip,
                           const Sums<kTiles, kHead>& sums, const Head& at) {
  __syncwarp();
  ROLLCALL_UNROLL
  for (int m = 0; m < kTiles; ++m) {
    ROLLCALL_UNROLL
    for (int n = 0; n < kHead / 8; ++n) {
      ROLLCALL_UNROLL
      for (int i = 0; i < 4; i += 2) {
        StorePair(strip + RowOf(m, i) * Padded(kHead) + ColumnOf(n, i),
                  Pair(sums.at[m][n][i], sums.at[m][n][i + 1]));
      }
    }
  }
  __syncwarp();
  constexpr int kPacks = kHead / kPack;
  for (int i = threadIdx.x % kWarp; i < 16 * kTiles * kPacks; i += kWarp) {
    const int row = i / kPacks;
    const int column = i % kPacks * kPack;
    if (first + row >= at.context || column >= at.head) continue;
    StorePack(to + (first + row) * stride + column,
              LoadPack(strip + row * Padded(kHead) + column));
  }
}

// --- Forward -----------------------------------------------------------------

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

// --- Backward ----------------------------------------------------------------

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

struct Shape {
  int64_t sequences;
  int context, width, heads;

  dim3 blocks(int rows) const {
    return dim3(static_cast<unsigned>(sequences), static_cast<unsigned>(heads),
                Blocks(context, rows));
  }
};

template <int kHead>
int Forward(Stream stream, Bf16* out, float* lse, const Bf16* qkv,
            const Shape& shape) {
  return Launch(stream, shape.blocks(kRowsOf<kHead>), kThreads,
                ForwardBytes<kHead>(), ForwardKernel<kHead>, out, lse, qkv,
                shape.context, shape.width, shape.heads);
}

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

Shape ShapeOf(int64_t batch, int64_t context, int64_t width, int64_t heads) {
  return {batch, static_cast<int>(context), static_cast<int>(width),
          static_cast<int>(heads)};
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
