// What both passes of causal attention share: its tiles, their copies and their
// products. As in FlashAttention-2 (arXiv 2307.08691), scores exist only in
// registers, only while a tile is processed. The backward pass recomputes them
// from each row's lse, the logarithm of its softmax sum.
//
// A block processes some rows of one head of one sequence; each of its warps
// has a strip of 16 kTiles rows in shared memory and their sums in registers.
// The tiles of the other side pass through two buffers in shared memory: while
// one is used, the next is copied. A head's columns are padded with zeros to
// kHead.
#ifndef ROLLCALL_TRAINER_CUDA_KERNELS_ATTENTION_TILES_H_
#define ROLLCALL_TRAINER_CUDA_KERNELS_ATTENTION_TILES_H_

#include <cmath>

#include "trainer/cuda/kernels/kernel_language.h"

namespace rollcall::cuda {

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

struct Shape {
  int64_t sequences;
  int context, width, heads;

  dim3 blocks(int rows) const {
    return dim3(static_cast<unsigned>(sequences), static_cast<unsigned>(heads),
                Blocks(context, rows));
  }
};

inline Shape ShapeOf(int64_t batch, int64_t context, int64_t width,
                     int64_t heads) {
  return {batch, static_cast<int>(context), static_cast<int>(width),
          static_cast<int>(heads)};
}

}  // namespace rollcall::cuda

#endif  // ROLLCALL_TRAINER_CUDA_KERNELS_ATTENTION_TILES_H_
