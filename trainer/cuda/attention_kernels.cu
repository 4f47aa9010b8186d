// Causal attention by tiles. Scores exist only in shared memory, only while a
// tile is processed. The backward pass recomputes them from each row's lse, the
// logarithm of its softmax sum.
//
// One block processes kRows rows of one head of one sequence; each warp has a
// strip of 16 rows. Tile products use the tensor cores (wmma, 16 x 16 x 16).
// Between two block barriers, only the warp that writes a part of shared
// memory reads it. A head's columns are padded with zeros to kHead.
#include <cmath>

#include "trainer/cuda/kernel_language.h"

namespace rollcall::cuda {
namespace {

constexpr int kRows = 64;
constexpr int kStrip = 16;
constexpr int kThreads = kRows / kStrip * kWarp;
constexpr int kStep = 16;  // The side of a wmma tile.

template <typename Layout>
using TileA =
    wmma::fragment<wmma::matrix_a, kStep, kStep, kStep, Element, Layout>;
template <typename Layout>
using TileB =
    wmma::fragment<wmma::matrix_b, kStep, kStep, kStep, Element, Layout>;
using TileC = wmma::fragment<wmma::accumulator, kStep, kStep, kStep, float>;

// Rows are padded, so that the elements of a column are in different banks.
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

// Loads rows first, first + 1, ... of a head (row 0 is `from`) into a shared
// tile; zeros beyond the context and beyond the head's columns.
template <int kHead>
__device__ void LoadTile(Bf16* tile, const Bf16* from, int64_t stride,
                         int first, int rows, const Head& at) {
  constexpr int kPacks = kHead / kPack;
  for (int i = threadIdx.x; i < rows * kPacks; i += kThreads) {
    const int row = i / kPacks;
    const int column = i % kPacks * kPack;
    Packed pack = {};
    if (first + row < at.context && column < at.head) {
      pack = LoadPack(from + (first + row) * stride + column);
    }
    StorePack(tile + row * Padded(kHead) + column, pack);
  }
}

// strip[16, columns] = rows[16, kHead] * (columns, kHead)^T.
template <int kHead, int kColumns>
__device__ void Scores(float* strip, const Bf16* rows, const Bf16* columns) {
  for (int n = 0; n < kColumns; n += kStep) {
    TileC sum;
    wmma::fill_fragment(sum, 0.0f);
    for (int d = 0; d < kHead; d += kStep) {
      TileA<wmma::row_major> a;
      TileB<wmma::col_major> b;
      wmma::load_matrix_sync(a, reinterpret_cast<const Element*>(rows + d),
                             Padded(kHead));
      wmma::load_matrix_sync(
          b, reinterpret_cast<const Element*>(columns + n * Padded(kHead) + d),
          Padded(kHead));
      wmma::mma_sync(sum, a, b, sum);
    }
    wmma::store_matrix_sync(strip + n, sum, Padded(kColumns),
                            wmma::mem_row_major);
  }
}

// sums[16, kHead] += weights[16, kColumns] * tile[kColumns, kHead].
template <int kHead, int kColumns>
__device__ void Mix(TileC* sums, const Bf16* weights, const Bf16* tile) {
  for (int n = 0; n < kColumns; n += kStep) {
    TileA<wmma::row_major> a;
    wmma::load_matrix_sync(a, reinterpret_cast<const Element*>(weights + n),
                           Padded(kColumns));
    for (int d = 0; d < kHead / kStep; ++d) {
      TileB<wmma::row_major> b;
      wmma::load_matrix_sync(b,
                             reinterpret_cast<const Element*>(
                                 tile + n * Padded(kHead) + d * kStep),
                             Padded(kHead));
      wmma::mma_sync(sums[d], a, b, sums[d]);
    }
  }
}

// Writes a warp's sums to rows `first`, ... of a head. `strip` is the warp's 16
// x 16 buffer, with rows `strip_stride` apart.
template <int kHead>
__device__ void StoreStrip(Bf16* to, int64_t stride, int first, TileC* sums,
                           float* strip, int strip_stride, const Head& at) {
  const int lane = threadIdx.x % kWarp;
  const int row = lane / 2;
  const int column = lane % 2 * kPack;
  for (int d = 0; d < kHead / kStep; ++d) {
    __syncwarp();
    wmma::store_matrix_sync(strip, sums[d], strip_stride, wmma::mem_row_major);
    __syncwarp();
    if (first + row >= at.context || d * kStep + column >= at.head) continue;
    Packed pack;
    for (int i = 0; i < kPack; ++i) {
      pack.at[i] = ToBf16(strip[row * strip_stride + column + i]);
    }
    StorePack(to + (first + row) * stride + d * kStep + column, pack);
  }
}

// --- Forward -----------------------------------------------------------------

constexpr int kForwardColumns = 64;

template <int kHead>
constexpr size_t ForwardBytes() {
  return sizeof(Bf16) * (kRows + 2 * kForwardColumns) * Padded(kHead) +
         (sizeof(float) + sizeof(Bf16)) * kRows * Padded(kForwardColumns) +
         sizeof(float) * (kStep * kStep + kRows);
}

// One row's running softmax, held by the two lanes that share the row.
struct Running {
  float max = -INFINITY;
  float sum = 0;
};

// Online softmax: turns a lane's half of a row of scores into weights, and
// returns the factor by which the earlier sums must shrink. `keys`: how many
// keys from here on the query can see.
template <int kColumns>
__device__ float OnlineSoftmax(Bf16* weights, const float* scores, int keys,
                               float scale, Running& running) {
  constexpr int kHalf = kColumns / 2;
  const int begin = threadIdx.x % 2 * kHalf;
  float max = running.max;
  for (int c = begin; c < begin + kHalf; ++c) {
    if (c < keys) max = Max()(max, scores[c] * scale);
  }
  max = Max()(max, __shfl_xor_sync(kAllLanes, max, 1));
  float sum = 0;
  for (int c = begin; c < begin + kHalf; ++c) {
    const float p = c < keys ? expf(scores[c] * scale - max) : 0.0f;
    weights[c] = ToBf16(p);
    sum += p;
  }
  sum += __shfl_xor_sync(kAllLanes, sum, 1);
  const float shrink = expf(running.max - max);
  running.sum = running.sum * shrink + sum;
  running.max = max;
  return shrink;
}

// Multiplies each row of the sums by its factor. wmma does not say to which
// rows a lane's elements belong, so `row_of` was loaded from a tile that holds
// its own row numbers.
template <int kHead>
__device__ void ScaleRows(TileC* sums, const TileC& row_of,
                          const float* factors) {
  for (int i = 0; i < row_of.num_elements; ++i) {
    const float factor = factors[static_cast<int>(row_of.x[i])];
    for (int d = 0; d < kHead / kStep; ++d) sums[d].x[i] *= factor;
  }
}

template <int kHead>
__global__ void ForwardKernel(Bf16* out, float* lse, const Bf16* qkv,
                              int context, int width, int heads) {
  constexpr int kColumns = kForwardColumns;
  unsigned char* shared = SharedMemory();
  Bf16* q = Take<Bf16>(shared, kRows * Padded(kHead));
  Bf16* k = Take<Bf16>(shared, kColumns * Padded(kHead));
  Bf16* v = Take<Bf16>(shared, kColumns * Padded(kHead));
  float* scores = Take<float>(shared, kRows * Padded(kColumns));
  Bf16* weights = Take<Bf16>(shared, kRows * Padded(kColumns));
  float* numbers = Take<float>(shared, kStep * kStep);
  float* factors = Take<float>(shared, kRows);

  const Head at = HeadOf(context, width, heads);
  // Blocks with the most visible keys start first.
  const int first = (gridDim.z - 1 - blockIdx.z) * kRows;
  const int strip = threadIdx.x / kWarp * kStrip;
  const int lane = threadIdx.x % kWarp;
  const int row = strip + lane / 2;
  scores += strip * Padded(kColumns);
  weights += strip * Padded(kColumns);
  const int own = lane / 2 * Padded(kColumns);
  for (int i = threadIdx.x; i < kStep * kStep; i += kThreads) {
    numbers[i] = static_cast<float>(i / kStep);
  }
  LoadTile<kHead>(q, qkv + at.row(0), 3 * width, first, kRows, at);
  __syncthreads();
  TileC row_of;
  wmma::load_matrix_sync(row_of, numbers, kStep, wmma::mem_row_major);
  TileC sums[kHead / kStep];
  for (TileC& sum : sums) wmma::fill_fragment(sum, 0.0f);

  Running running;
  // No row of this block sees keys beyond the block's last row.
  for (int key = 0; key < first + kRows && key < context; key += kColumns) {
    __syncthreads();
    LoadTile<kHead>(k, qkv + at.row(0) + width, 3 * width, key, kColumns, at);
    LoadTile<kHead>(v, qkv + at.row(0) + 2 * width, 3 * width, key, kColumns,
                    at);
    __syncthreads();
    Scores<kHead, kColumns>(scores, q + strip * Padded(kHead), k);
    __syncwarp();
    const float shrink = OnlineSoftmax<kColumns>(
        weights + own, scores + own, first + row - key + 1, at.scale, running);
    if (lane % 2 == 0) factors[row] = shrink;
    __syncwarp();
    ScaleRows<kHead>(sums, row_of, factors + strip);
    Mix<kHead, kColumns>(sums, weights, v);
  }
  __syncwarp();
  if (lane % 2 == 0) {
    factors[row] = 1 / running.sum;
    if (first + row < context) {
      lse[at.lse + first + row] = running.max + logf(running.sum);
    }
  }
  __syncwarp();
  ScaleRows<kHead>(sums, row_of, factors + strip);
  StoreStrip<kHead>(out + at.out_row(0), width, first + strip, sums, scores,
                    Padded(kColumns), at);
}

// --- Backward ----------------------------------------------------------------

constexpr int kBackwardColumns = 32;

template <int kHead>
constexpr size_t BackwardBytes() {
  return sizeof(Bf16) * 2 * (kRows + kBackwardColumns) * Padded(kHead) +
         2 * (sizeof(float) + sizeof(Bf16)) * kRows * Padded(kBackwardColumns) +
         sizeof(float) * 2 * kBackwardColumns;
}

// dots[row] = dout . out of a head: the term that the softmax's gradient
// subtracts in each row. One warp per row of a head.
__global__ void DotsKernel(float* dots, const Bf16* dout, const Bf16* out,
                           int context, int width, int heads) {
  const Head at = HeadOf(context, width, heads);
  const int row = (blockIdx.z * blockDim.x + threadIdx.x) / kWarp;
  if (row >= context) return;
  float sum = 0;
  for (int c = threadIdx.x % kWarp; c < at.head; c += kWarp) {
    sum +=
        ToFloat(dout[at.out_row(row) + c]) * ToFloat(out[at.out_row(row) + c]);
  }
  sum = WarpSum(sum);
  if (threadIdx.x % kWarp == 0) dots[at.lse + row] = sum;
}

// The shared memory of a block in the backward pass: two tiles that stay, two
// that change, and each warp's strips.
struct Room {
  Bf16 *kept1, *kept2, *passing1, *passing2;
  float *scores, *dweights;
  Bf16 *weights, *dscores;
  float *lses, *dots;
};

template <int kHead>
__device__ Room TakeRoom(int strip) {
  constexpr int kColumns = kBackwardColumns;
  unsigned char* shared = SharedMemory();
  Room room;
  room.kept1 = Take<Bf16>(shared, kRows * Padded(kHead));
  room.kept2 = Take<Bf16>(shared, kRows * Padded(kHead));
  room.passing1 = Take<Bf16>(shared, kColumns * Padded(kHead));
  room.passing2 = Take<Bf16>(shared, kColumns * Padded(kHead));
  const int skip = strip * Padded(kColumns);
  room.scores = Take<float>(shared, kRows * Padded(kColumns)) + skip;
  room.dweights = Take<float>(shared, kRows * Padded(kColumns)) + skip;
  room.weights = Take<Bf16>(shared, kRows * Padded(kColumns)) + skip;
  room.dscores = Take<Bf16>(shared, kRows * Padded(kColumns)) + skip;
  room.lses = Take<float>(shared, kColumns);
  room.dots = Take<float>(shared, kColumns);
  return room;
}

// Recomputes one softmax weight from its score, and the gradient of the score;
// zero if the query does not see the key.
__device__ inline void Recompute(Bf16* weight, Bf16* dscore, bool seen,
                                 float score, float dweight, float scale,
                                 float lse, float dot) {
  const float p = seen ? expf(score * scale - lse) : 0.0f;
  *weight = ToBf16(p);
  *dscore = ToBf16(p * (dweight - dot) * scale);
}

// One block takes kRows keys, goes over all queries that see them, and computes
// the gradients of keys and values. All is transposed: strips are of keys.
template <int kHead>
__global__ void KeysBackwardKernel(Bf16* dqkv, const Bf16* dout,
                                   const Bf16* qkv, const float* lse,
                                   const float* dots, int context, int width,
                                   int heads) {
  constexpr int kColumns = kBackwardColumns;
  constexpr int kHalf = kColumns / 2;
  const Head at = HeadOf(context, width, heads);
  const int first = blockIdx.z * kRows;
  const int strip = threadIdx.x / kWarp * kStrip;
  const int lane = threadIdx.x % kWarp;
  const int key = first + strip + lane / 2;
  const int own = lane / 2 * Padded(kColumns);
  const Room room = TakeRoom<kHead>(strip);
  LoadTile<kHead>(room.kept1, qkv + at.row(0) + width, 3 * width, first, kRows,
                  at);
  LoadTile<kHead>(room.kept2, qkv + at.row(0) + 2 * width, 3 * width, first,
                  kRows, at);
  TileC dk[kHead / kStep];
  TileC dv[kHead / kStep];
  for (TileC& sum : dk) wmma::fill_fragment(sum, 0.0f);
  for (TileC& sum : dv) wmma::fill_fragment(sum, 0.0f);

  for (int query = first; query < context; query += kColumns) {
    __syncthreads();
    LoadTile<kHead>(room.passing1, qkv + at.row(0), 3 * width, query, kColumns,
                    at);
    LoadTile<kHead>(room.passing2, dout + at.out_row(0), width, query, kColumns,
                    at);
    for (int i = threadIdx.x; i < kColumns; i += kThreads) {
      const bool there = query + i < context;
      room.lses[i] = there ? lse[at.lse + query + i] : 0.0f;
      room.dots[i] = there ? dots[at.lse + query + i] : 0.0f;
    }
    __syncthreads();
    Scores<kHead, kColumns>(room.scores, room.kept1 + strip * Padded(kHead),
                            room.passing1);
    Scores<kHead, kColumns>(room.dweights, room.kept2 + strip * Padded(kHead),
                            room.passing2);
    __syncwarp();
    for (int c = lane % 2 * kHalf; c < (lane % 2 + 1) * kHalf; ++c) {
      const bool seen = key <= query + c && query + c < context;
      Recompute(room.weights + own + c, room.dscores + own + c, seen,
                room.scores[own + c], room.dweights[own + c], at.scale,
                room.lses[c], room.dots[c]);
    }
    __syncwarp();
    Mix<kHead, kColumns>(dv, room.weights, room.passing2);
    Mix<kHead, kColumns>(dk, room.dscores, room.passing1);
  }
  StoreStrip<kHead>(dqkv + at.row(0) + width, 3 * width, first + strip, dk,
                    room.scores, Padded(kColumns), at);
  StoreStrip<kHead>(dqkv + at.row(0) + 2 * width, 3 * width, first + strip, dv,
                    room.scores, Padded(kColumns), at);
}

// One block takes kRows queries, goes over all keys that they see, and computes
// the queries' gradients.
template <int kHead>
__global__ void QueriesBackwardKernel(Bf16* dqkv, const Bf16* dout,
                                      const Bf16* qkv, const float* lse,
                                      const float* dots, int context, int width,
                                      int heads) {
  constexpr int kColumns = kBackwardColumns;
  constexpr int kHalf = kColumns / 2;
  const Head at = HeadOf(context, width, heads);
  // Blocks with the most visible keys start first.
  const int first = (gridDim.z - 1 - blockIdx.z) * kRows;
  const int strip = threadIdx.x / kWarp * kStrip;
  const int lane = threadIdx.x % kWarp;
  const int query = first + strip + lane / 2;
  const int own = lane / 2 * Padded(kColumns);
  const Room room = TakeRoom<kHead>(strip);
  LoadTile<kHead>(room.kept1, qkv + at.row(0), 3 * width, first, kRows, at);
  LoadTile<kHead>(room.kept2, dout + at.out_row(0), width, first, kRows, at);
  const bool there = query < context;
  const float my_lse = there ? lse[at.lse + query] : 0.0f;
  const float my_dot = there ? dots[at.lse + query] : 0.0f;
  TileC dq[kHead / kStep];
  for (TileC& sum : dq) wmma::fill_fragment(sum, 0.0f);

  for (int key = 0; key < first + kRows && key < context; key += kColumns) {
    __syncthreads();
    LoadTile<kHead>(room.passing1, qkv + at.row(0) + width, 3 * width, key,
                    kColumns, at);
    LoadTile<kHead>(room.passing2, qkv + at.row(0) + 2 * width, 3 * width, key,
                    kColumns, at);
    __syncthreads();
    Scores<kHead, kColumns>(room.scores, room.kept1 + strip * Padded(kHead),
                            room.passing1);
    Scores<kHead, kColumns>(room.dweights, room.kept2 + strip * Padded(kHead),
                            room.passing2);
    __syncwarp();
    for (int c = lane % 2 * kHalf; c < (lane % 2 + 1) * kHalf; ++c) {
      Recompute(room.weights + own + c, room.dscores + own + c,
                there && key + c <= query, room.scores[own + c],
                room.dweights[own + c], at.scale, my_lse, my_dot);
    }
    __syncwarp();
    Mix<kHead, kColumns>(dq, room.dscores, room.passing1);
  }
  StoreStrip<kHead>(dqkv + at.row(0), 3 * width, first + strip, dq, room.scores,
                    Padded(kColumns), at);
}

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
  return Launch(stream, shape.blocks(kRows), kThreads, ForwardBytes<kHead>(),
                ForwardKernel<kHead>, out, lse, qkv, shape.context, shape.width,
                shape.heads);
}

template <int kHead>
int Backward(Stream stream, Bf16* dqkv, const float* dots, const Bf16* dout,
             const Bf16* qkv, const float* lse, const Shape& shape) {
  const auto launch = [&](auto* kernel) {
    return Launch(stream, shape.blocks(kRows), kThreads, BackwardBytes<kHead>(),
                  kernel, dqkv, dout, qkv, lse, dots, shape.context,
                  shape.width, shape.heads);
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
  const int error =
      Launch(stream, shape.blocks(kThreads / kWarp), kThreads, 0, DotsKernel,
             dots, dout, out, shape.context, shape.width, shape.heads);
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
