// Causal attention by tiles: scores live in shared memory for as long as a tile
// is worked on, and the way back makes them anew from each row's logarithm of
// its softmax sum.
//
// A block takes kRows rows of one head of one sequence, a warp a strip of 16 of
// them; products of tiles go over the tensor cores (wmma, 16 x 16 x 16). What a
// warp writes into shared memory between two barriers of the block only it
// reads. A head's share is padded with zeros to kHead.
#include <cmath>

#include "trainer/cuda/kernel_language.h"

namespace rollcall::cuda {
namespace {

constexpr int kRows = 64;
constexpr int kStrip = 16;
constexpr int kThreads = kRows / kStrip * kWarp;
constexpr int kStep = 16;  // The sides of a wmma tile.

template <typename Layout>
using TileA =
    wmma::fragment<wmma::matrix_a, kStep, kStep, kStep, Element, Layout>;
template <typename Layout>
using TileB =
    wmma::fragment<wmma::matrix_b, kStep, kStep, kStep, Element, Layout>;
using TileC = wmma::fragment<wmma::accumulator, kStep, kStep, kStep, float>;

// Rows of shared tiles are a little longer than what they hold, so that those
// of one column lie in different banks.
__host__ __device__ constexpr int Padded(int columns) { return columns + 8; }

// Where a head of a sequence is, and how far its rows are apart.
struct Head {
  int64_t first;  // Its first row's place in qkv; keys and values lie `width`
                  // and 2 `width` behind.
  int64_t out;    // In rows of `width`.
  int64_t logsum;
  int context, width, head;
  float scale;

  __device__ int64_t row(int r) const { return first + int64_t{r} * 3 * width; }
  __device__ int64_t out_row(int r) const { return out + int64_t{r} * width; }
};

// Blocks are sequences x heads x pieces of the context: in this order, since
// CUDA takes 65,535 of the latter two.
__device__ inline Head HeadOf(int context, int width, int heads) {
  const int64_t s = blockIdx.x;
  const int h = blockIdx.y;
  Head at;
  at.context = context;
  at.width = width;
  at.head = width / heads;
  at.first = s * context * 3 * width + h * at.head;
  at.out = s * context * width + h * at.head;
  at.logsum = (s * heads + h) * context;
  at.scale = 1 / sqrtf(static_cast<float>(at.head));
  return at;
}

// Takes `count` of what the shared memory still has.
template <typename T>
__device__ T* Take(unsigned char*& shared, int count) {
  T* taken = reinterpret_cast<T*>(shared);
  shared += count * sizeof(T);
  return taken;
}

// rows first, first + 1, ... of a head into a shared tile; zeros beyond the
// context and beyond the head's share. `from` is row 0, `stride` the distance.
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

// A warp's sums out to rows `first`, ... of a head. `strip` is the warp's room
// for 16 x 16, its rows `apart`.
template <int kHead>
__device__ void StoreStrip(Bf16* to, int64_t stride, int first, TileC* sums,
                           float* strip, int apart, const Head& at) {
  const int lane = threadIdx.x % kWarp;
  const int row = lane / 2;
  const int column = lane % 2 * kPack;
  for (int d = 0; d < kHead / kStep; ++d) {
    __syncwarp();
    wmma::store_matrix_sync(strip, sums[d], apart, wmma::mem_row_major);
    __syncwarp();
    if (first + row >= at.context || d * kStep + column >= at.head) continue;
    Packed pack;
    for (int i = 0; i < kPack; ++i) {
      pack.at[i] = ToBf16(strip[row * apart + column + i]);
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
  float most = -INFINITY;
  float sum = 0;
};

// Turns a lane's half of a row of scores into weights, and returns by how much
// what was summed before must shrink. `keys`: so many are to be seen from here.
template <int kColumns>
__device__ float Soften(Bf16* weights, const float* scores, int keys,
                        float scale, Running& running) {
  constexpr int kHalf = kColumns / 2;
  const int begin = threadIdx.x % 2 * kHalf;
  float most = running.most;
  for (int c = begin; c < begin + kHalf; ++c) {
    if (c < keys) most = Most()(most, scores[c] * scale);
  }
  most = Most()(most, __shfl_xor_sync(kAllLanes, most, 1));
  float sum = 0;
  for (int c = begin; c < begin + kHalf; ++c) {
    const float p = c < keys ? expf(scores[c] * scale - most) : 0.0f;
    weights[c] = ToBf16(p);
    sum += p;
  }
  sum += __shfl_xor_sync(kAllLanes, sum, 1);
  const float shrink = expf(running.most - most);
  running.sum = running.sum * shrink + sum;
  running.most = most;
  return shrink;
}

// Multiplies each row of the sums with its factor. Which rows a lane's elements
// belong to is not told by wmma: `row_of` was loaded from a tile that holds its
// own row numbers.
template <int kHead>
__device__ void ScaleRows(TileC* sums, const TileC& row_of,
                          const float* factors) {
  for (int i = 0; i < row_of.num_elements; ++i) {
    const float factor = factors[static_cast<int>(row_of.x[i])];
    for (int d = 0; d < kHead / kStep; ++d) sums[d].x[i] *= factor;
  }
}

template <int kHead>
__global__ void ForwardKernel(Bf16* out, float* logsum, const Bf16* qkv,
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
  // Who sees most keys begins first.
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
  // Keys beyond the last row of this block are seen by none of its rows.
  for (int key = 0; key < first + kRows && key < context; key += kColumns) {
    __syncthreads();
    LoadTile<kHead>(k, qkv + at.row(0) + width, 3 * width, key, kColumns, at);
    LoadTile<kHead>(v, qkv + at.row(0) + 2 * width, 3 * width, key, kColumns,
                    at);
    __syncthreads();
    Scores<kHead, kColumns>(scores, q + strip * Padded(kHead), k);
    __syncwarp();
    const float shrink = Soften<kColumns>(
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
      logsum[at.logsum + first + row] = running.most + logf(running.sum);
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

// dots[row] = dout . out of a head: what each row's softmax takes off its
// gradient. A warp takes a row of a head.
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
  if (threadIdx.x % kWarp == 0) dots[at.logsum + row] = sum;
}

// The shared memory of a block on its way back: two tiles that stay, two that
// change, and each warp's strips.
struct Room {
  Bf16 *kept1, *kept2, *passing1, *passing2;
  float *scores, *dweights;
  Bf16 *weights, *dscores;
  float *logsums, *dots;
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
  room.logsums = Take<float>(shared, kColumns);
  room.dots = Take<float>(shared, kColumns);
  return room;
}

// One softmax weight again from its score, and its score's gradient; nothing
// where the query does not see the key.
__device__ inline void Again(Bf16* weight, Bf16* dscore, bool seen, float score,
                             float dweight, float scale, float logsum,
                             float dot) {
  const float p = seen ? expf(score * scale - logsum) : 0.0f;
  *weight = ToBf16(p);
  *dscore = ToBf16(p * (dweight - dot) * scale);
}

// A block takes kRows keys, passes by all queries that see them, and has their
// gradients and those of the values. All is transposed: strips are of keys.
template <int kHead>
__global__ void KeysBackwardKernel(Bf16* dqkv, const Bf16* dout,
                                   const Bf16* qkv, const float* logsum,
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
      room.logsums[i] = there ? logsum[at.logsum + query + i] : 0.0f;
      room.dots[i] = there ? dots[at.logsum + query + i] : 0.0f;
    }
    __syncthreads();
    Scores<kHead, kColumns>(room.scores, room.kept1 + strip * Padded(kHead),
                            room.passing1);
    Scores<kHead, kColumns>(room.dweights, room.kept2 + strip * Padded(kHead),
                            room.passing2);
    __syncwarp();
    for (int c = lane % 2 * kHalf; c < (lane % 2 + 1) * kHalf; ++c) {
      const bool seen = key <= query + c && query + c < context;
      Again(room.weights + own + c, room.dscores + own + c, seen,
            room.scores[own + c], room.dweights[own + c], at.scale,
            room.logsums[c], room.dots[c]);
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

// A block takes kRows queries, passes by all keys that they see, and has the
// queries' gradients.
template <int kHead>
__global__ void QueriesBackwardKernel(Bf16* dqkv, const Bf16* dout,
                                      const Bf16* qkv, const float* logsum,
                                      const float* dots, int context, int width,
                                      int heads) {
  constexpr int kColumns = kBackwardColumns;
  constexpr int kHalf = kColumns / 2;
  const Head at = HeadOf(context, width, heads);
  // Who sees most keys begins first.
  const int first = (gridDim.z - 1 - blockIdx.z) * kRows;
  const int strip = threadIdx.x / kWarp * kStrip;
  const int lane = threadIdx.x % kWarp;
  const int query = first + strip + lane / 2;
  const int own = lane / 2 * Padded(kColumns);
  const Room room = TakeRoom<kHead>(strip);
  LoadTile<kHead>(room.kept1, qkv + at.row(0), 3 * width, first, kRows, at);
  LoadTile<kHead>(room.kept2, dout + at.out_row(0), width, first, kRows, at);
  const bool there = query < context;
  const float my_logsum = there ? logsum[at.logsum + query] : 0.0f;
  const float my_dot = there ? dots[at.logsum + query] : 0.0f;
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
      Again(room.weights + own + c, room.dscores + own + c,
            there && key + c <= query, room.scores[own + c],
            room.dweights[own + c], at.scale, my_logsum, my_dot);
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
int Forward(Stream stream, Bf16* out, float* logsum, const Bf16* qkv,
            const Shape& shape) {
  return Launch(stream, shape.blocks(kRows), kThreads, ForwardBytes<kHead>(),
                ForwardKernel<kHead>, out, logsum, qkv, shape.context,
                shape.width, shape.heads);
}

template <int kHead>
int Backward(Stream stream, Bf16* dqkv, const float* dots, const Bf16* dout,
             const Bf16* qkv, const float* logsum, const Shape& shape) {
  const int error =
      Launch(stream, shape.blocks(kRows), kThreads, BackwardBytes<kHead>(),
             KeysBackwardKernel<kHead>, dqkv, dout, qkv, logsum, dots,
             shape.context, shape.width, shape.heads);
  if (error != 0) return error;
  return Launch(stream, shape.blocks(kRows), kThreads, BackwardBytes<kHead>(),
                QueriesBackwardKernel<kHead>, dqkv, dout, qkv, logsum, dots,
                shape.context, shape.width, shape.heads);
}

Shape ShapeOf(int64_t sequences, int64_t context, int64_t width,
              int64_t heads) {
  return {sequences, static_cast<int>(context), static_cast<int>(width),
          static_cast<int>(heads)};
}

}  // namespace

int AttentionForward(Stream stream, Bf16* out, float* logsum, const Bf16* qkv,
                     int64_t sequences, int64_t context, int64_t width,
                     int64_t heads) {
  const Shape shape = ShapeOf(sequences, context, width, heads);
  const int64_t head = width / heads;
  if (head <= 32) return Forward<32>(stream, out, logsum, qkv, shape);
  if (head <= 64) return Forward<64>(stream, out, logsum, qkv, shape);
  return Forward<kHeadMost>(stream, out, logsum, qkv, shape);
}

int AttentionBackward(Stream stream, Bf16* dqkv, float* dots, const Bf16* dout,
                      const Bf16* out, const Bf16* qkv, const float* logsum,
                      int64_t sequences, int64_t context, int64_t width,
                      int64_t heads) {
  const Shape shape = ShapeOf(sequences, context, width, heads);
  const int error =
      Launch(stream, shape.blocks(kThreads / kWarp), kThreads, 0, DotsKernel,
             dots, dout, out, shape.context, shape.width, shape.heads);
  if (error != 0) return error;
  const int64_t head = width / heads;
  if (head <= 32) {
    return Backward<32>(stream, dqkv, dots, dout, qkv, logsum, shape);
  }
  if (head <= 64) {
    return Backward<64>(stream, dqkv, dots, dout, qkv, logsum, shape);
  }
  return Backward<kHeadMost>(stream, dqkv, dots, dout, qkv, logsum, shape);
}

}  // namespace rollcall::cuda
