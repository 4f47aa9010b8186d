// Emulates on the CPU the part of CUDA that the kernels use. Tests use it to
// check the kernels' arithmetic, barriers and bounds on machines without a GPU.
//
// A block's threads are fibers that take turns. Each fiber runs up to a barrier
// (of its block or its warp) that the others have not reached. The fibers run
// in ascending or descending order (emulation::downwards); a missing barrier
// shows in one of the two orders. Shared memory has exactly the requested size
// and is initialized with NaN. bf16 rounds as on the device. Tile products are
// summed in fp32, in order. A background copy is made when its thread waits for
// it. A launch that no device would start, and an access whose address is not
// aligned to its size, end the process with a message.
//
// Time, streams and separate device memory are not emulated.
//
// Thread rule: one thread.
#ifndef ROLLCALL_TRAINER_CUDA_KERNELS_EMULATION_H_
#define ROLLCALL_TRAINER_CUDA_KERNELS_EMULATION_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>

#include "trainer/cuda/kernels/kernels.h"

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
#define ROLLCALL_UNROLL

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

// Why a device of compute capability 9.0 would not start such blocks; empty: it
// would. The limits are those of the CUDA C++ Programming Guide, "Technical
// Specifications per Compute Capability".
std::string LaunchError(dim3 blocks, int threads, size_t shared);

// Ends the process with a message unless `at` is a multiple of `bytes`.
void RequireAligned(const void* at, size_t bytes);

// Runs `body` once for each thread of each block. Ends the process with a
// message if there is a LaunchError, or if a block's threads wait for each
// other forever.
void Run(dim3 blocks, int threads, size_t shared,
         const std::function<void()>& body);
// These wait until all threads of the block, or of this warp, have called them.
void AwaitBlock();
void AwaitWarp();
// The memory that this warp's lanes share: kLaneBytes per lane.
constexpr unsigned kLaneBytes = 24;
unsigned char* WarpRoom();
// CopyLater records a copy for this thread, of zeros if `from` is null; CopyNow
// makes all recorded copies.
void CopyLater(void* to, const void* from, size_t bytes);
void CopyNow();

}  // namespace emulation

#define threadIdx (::rollcall::cuda::emulation::place.thread)
#define blockIdx (::rollcall::cuda::emulation::place.block)
#define blockDim (::rollcall::cuda::emulation::place.threads)
#define gridDim (::rollcall::cuda::emulation::place.grid)

inline void __syncthreads() { emulation::AwaitBlock(); }
inline void __syncwarp() { emulation::AwaitWarp(); }

namespace emulation {

// Publishes `mine` to the other lanes of this warp, and calls `use` with a
// function that returns the value of a given lane.
template <typename T, typename Use>
void WithWarp(const T& mine, const Use& use) {
  static_assert(sizeof(T) <= kLaneBytes);
  unsigned char* room = WarpRoom();
  std::memcpy(room + kLaneBytes * (threadIdx.x % 32), &mine, sizeof(T));
  AwaitWarp();
  use([room](unsigned lane) {
    T value;
    std::memcpy(&value, room + kLaneBytes * lane, sizeof(T));
    return value;
  });
  AwaitWarp();
}

}  // namespace emulation

template <typename T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  T other = value;
  const unsigned lane = threadIdx.x % 32;
  emulation::WithWarp(
      value, [&](const auto& value_of) { other = value_of(lane ^ mask); });
  return other;
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
// One access of a device to a whole T.
template <typename T>
T LoadWhole(const void* from) {
  emulation::RequireAligned(from, alignof(T));
  return *static_cast<const T*>(from);
}
template <typename T>
void StoreWhole(void* to, const T& value) {
  emulation::RequireAligned(to, alignof(T));
  *static_cast<T*>(to) = value;
}
inline const char* TextOf(int) { return "no error is emulated"; }

inline uint32_t Pair(float first, float second) {
  return ToBf16(first).bits | uint32_t{ToBf16(second).bits} << 16;
}
inline void StorePair(Bf16* to, uint32_t pair) {
  emulation::RequireAligned(to, sizeof(pair));
  std::memcpy(to, &pair, sizeof(pair));
}
inline float Exp2(float x) { return std::exp2(x); }

namespace emulation {

// The lower (0) or upper (1) half of a pair.
inline float Half(uint32_t pair, int which) {
  return ToFloat({static_cast<uint16_t>(pair >> 16 * which)});
}

}  // namespace emulation

inline void LoadMatrices(uint32_t (&to)[4], const Bf16* row) {
  emulation::RequireAligned(row, 16);
  const unsigned lane = threadIdx.x % 32;
  emulation::WithWarp(row, [&](const auto& row_of) {
    for (unsigned m = 0; m < 4; ++m) {
      const Bf16* from = row_of(8 * m + lane / 4) + lane % 4 * 2;
      to[m] = from[0].bits | uint32_t{from[1].bits} << 16;
    }
  });
}

inline void LoadTransposed(uint32_t (&to)[4], const Bf16* row) {
  emulation::RequireAligned(row, 16);
  const unsigned lane = threadIdx.x % 32;
  emulation::WithWarp(row, [&](const auto& row_of) {
    for (unsigned m = 0; m < 4; ++m) {
      const unsigned first = 8 * m + lane % 4 * 2;
      to[m] = row_of(first)[lane / 4].bits |
              uint32_t{row_of(first + 1)[lane / 4].bits} << 16;
    }
  });
}

inline void MultiplyAdd(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0,
                        uint32_t b8) {
  struct Factors {
    uint32_t a[4], b[2];
  };
  const unsigned lane = threadIdx.x % 32;
  emulation::WithWarp(
      Factors{{a[0], a[1], a[2], a[3]}, {b0, b8}}, [&](const auto& factors_of) {
        for (unsigned i = 0; i < 4; ++i) {
          const unsigned column = lane % 4 * 2 + i % 2;
          for (unsigned k = 0; k < 16; ++k) {
            const Factors left = factors_of(lane / 4 * 4 + k % 8 / 2);
            const Factors right = factors_of(column * 4 + k % 8 / 2);
            sum[i] += emulation::Half(left.a[i / 2 + k / 8 * 2], k % 2) *
                      emulation::Half(right.b[k / 8], k % 2);
          }
        }
      });
}

template <int kBytes>
void CopyAsync(void* shared, const void* from) {
  emulation::RequireAligned(shared, kBytes);
  emulation::RequireAligned(from, kBytes);
  emulation::CopyLater(shared, from, kBytes);
}
inline void AwaitCopies() { emulation::CopyNow(); }

}  // namespace rollcall::cuda

#endif  // ROLLCALL_TRAINER_CUDA_KERNELS_EMULATION_H_
