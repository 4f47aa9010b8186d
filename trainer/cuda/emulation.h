// The part of CUDA that the kernels use, on the CPU: for tests of their
// arithmetic, barriers and bounds on machines without a GPU.
//
// A block's threads are fibers that take turns: each runs up to a barrier (of
// its block or its warp) that the others have not reached. They run in
// ascending or descending order (emulation::downwards): if a barrier is
// missing, one of the two orders shows it. Shared memory has exactly the
// requested size and starts as NaN. bf16 rounds as on the device. Tile
// products are summed in fp32, in order.
//
// Time, streams and separate device memory are not emulated.
//
// Thread rule: one thread.
#ifndef ROLLCALL_TRAINER_CUDA_EMULATION_H_
#define ROLLCALL_TRAINER_CUDA_EMULATION_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>

#include "trainer/cuda/kernels.h"

#define __global__
#define __device__
#define __host__

struct dim3 {
  explicit dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1)
      : x(x), y(y), z(z) {}
  unsigned x, y, z;
};

namespace rollcall::cuda {

namespace emulation {

// The state of the running fiber; one thread runs all fibers.
struct Place {
  dim3 grid, block, threads, thread;
  unsigned char* shared = nullptr;
};
inline Place place;
inline bool downwards = false;

// Runs `body` once for each thread of each block. Ends the process with a
// message if a block's threads wait for each other forever.
void Run(dim3 blocks, int threads, size_t shared,
         const std::function<void()>& body);
// Wait until all threads of the block, or of this warp, are here.
void AwaitBlock();
void AwaitWarp();
// This warp's common memory: 8 bytes per lane.
unsigned char* WarpRoom();

}  // namespace emulation

#define threadIdx (::rollcall::cuda::emulation::place.thread)
#define blockIdx (::rollcall::cuda::emulation::place.block)
#define blockDim (::rollcall::cuda::emulation::place.threads)
#define gridDim (::rollcall::cuda::emulation::place.grid)

inline void __syncthreads() { emulation::AwaitBlock(); }
inline void __syncwarp() { emulation::AwaitWarp(); }

template <typename T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  static_assert(sizeof(T) <= 8);
  unsigned char* room = emulation::WarpRoom();
  const unsigned lane = threadIdx.x % 32;
  std::memcpy(room + 8 * lane, &value, sizeof(T));
  emulation::AwaitWarp();
  std::memcpy(&value, room + 8 * (lane ^ mask), sizeof(T));
  emulation::AwaitWarp();
  return value;
}

inline unsigned char* SharedMemory() { return emulation::place.shared; }

inline float ToFloat(Bf16 value) {
  const uint32_t bits = uint32_t{value.bits} << 16;
  float result;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}

inline Bf16 ToBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  if (std::isnan(value)) return {0x7fff};
  return {static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

template <typename... Parameters, typename... Arguments>
int Launch(Stream, dim3 blocks, int threads, size_t shared,
           void (*kernel)(Parameters...), Arguments... arguments) {
  emulation::Run(blocks, threads, shared, [&] { kernel(arguments...); });
  return 0;
}

inline int SetZero(Stream, void* memory, size_t bytes) {
  std::memset(memory, 0, bytes);
  return 0;
}
inline const char* TextOf(int) { return "no error is emulated"; }

using Element = Bf16;

// Every lane holds a whole tile. Any distribution over the lanes is valid,
// since kernels may not depend on it.
namespace wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };

template <typename Use, int m, int n, int k, typename T, typename Layout = void>
struct fragment {
  static constexpr int num_elements = 256;
  float x[num_elements];  // Row-major.
};

template <typename Use, int m, int n, int k, typename T, typename Layout>
void fill_fragment(fragment<Use, m, n, k, T, Layout>& to, float value) {
  for (float& x : to.x) x = value;
}

template <typename Use, int m, int n, int k>
void load_matrix_sync(fragment<Use, m, n, k, Bf16, row_major>& to,
                      const Bf16* from, unsigned stride) {
  for (int i = 0; i < 256; ++i) {
    to.x[i] = ToFloat(from[i / 16 * stride + i % 16]);
  }
}
template <typename Use, int m, int n, int k>
void load_matrix_sync(fragment<Use, m, n, k, Bf16, col_major>& to,
                      const Bf16* from, unsigned stride) {
  for (int i = 0; i < 256; ++i) {
    to.x[i] = ToFloat(from[i % 16 * stride + i / 16]);
  }
}
template <int m, int n, int k>
void load_matrix_sync(fragment<accumulator, m, n, k, float>& to,
                      const float* from, unsigned stride, layout_t) {
  for (int i = 0; i < 256; ++i) to.x[i] = from[i / 16 * stride + i % 16];
}
template <int m, int n, int k>
void store_matrix_sync(float* to,
                       const fragment<accumulator, m, n, k, float>& from,
                       unsigned stride, layout_t) {
  for (int i = 0; i < 256; ++i) to[i / 16 * stride + i % 16] = from.x[i];
}

template <typename A, typename B, typename C>
void mma_sync(C& out, const A& a, const B& b, const C& in) {
  C sum = in;
  for (int i = 0; i < 16; ++i) {
    for (int k = 0; k < 16; ++k) {
      const float factor = a.x[i * 16 + k];
      for (int j = 0; j < 16; ++j) {
        sum.x[i * 16 + j] += factor * b.x[k * 16 + j];
      }
    }
  }
  out = sum;
}

}  // namespace wmma
}  // namespace rollcall::cuda

#endif  // ROLLCALL_TRAINER_CUDA_EMULATION_H_
