// The language of the kernels: CUDA when nvcc compiles them, emulation.h when
// any other C++ compiler does.
//
// It adds only what both must spell in the same way: conversions of Bf16, a
// block's shared memory as one array, sums over a warp and a block, and a
// launch that is a plain call.
#ifndef ROLLCALL_TRAINER_CUDA_KERNEL_LANGUAGE_H_
#define ROLLCALL_TRAINER_CUDA_KERNEL_LANGUAGE_H_

#include "trainer/cuda/kernels.h"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <mma.h>

namespace rollcall::cuda {

namespace wmma = nvcuda::wmma;
using Element = __nv_bfloat16;  // Of a wmma tile.

__device__ inline unsigned char* SharedMemory() {
  extern __shared__ __align__(32) unsigned char shared_memory[];
  return shared_memory;
}
__device__ inline float ToFloat(Bf16 value) {
  return __uint_as_float(uint32_t{value.bits} << 16);
}
__device__ inline Bf16 ToBf16(float value) {
  return {__bfloat16_as_ushort(__float2bfloat16_rn(value))};
}

// Starts kernel(arguments...) with `shared` bytes of shared memory per block.
template <typename... Parameters, typename... Arguments>
int Launch(Stream stream, dim3 blocks, int threads, size_t shared,
           void (*kernel)(Parameters...), Arguments... arguments) {
  if (blocks.x == 0 || blocks.y == 0 || blocks.z == 0) return 0;
  constexpr size_t kWithoutAsking = 48 << 10;
  if (shared > kWithoutAsking) {
    const cudaError_t asked = cudaFuncSetAttribute(
        reinterpret_cast<const void*>(kernel),
        cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
    if (asked != cudaSuccess) return asked;
  }
  kernel<<<blocks, threads, shared, stream>>>(arguments...);
  return cudaGetLastError();
}
inline int SetZero(Stream stream, void* memory, size_t bytes) {
  return cudaMemsetAsync(memory, 0, bytes, stream);
}
inline const char* TextOf(int error) {
  return cudaGetErrorString(static_cast<cudaError_t>(error));
}

}  // namespace rollcall::cuda
#else
#include "trainer/cuda/emulation.h"
#endif

namespace rollcall::cuda {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

struct alignas(16) Packed {
  Bf16 at[kPack];
};

__device__ inline Packed LoadPack(const Bf16* from) {
  return *reinterpret_cast<const Packed*>(from);
}
__device__ inline void StorePack(Bf16* to, const Packed& pack) {
  *reinterpret_cast<Packed*>(to) = pack;
}

template <typename T>
__device__ T WarpSum(T value) {
  for (int lane = kWarp / 2; lane > 0; lane /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, lane);
  }
  return value;
}

struct Sum {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Max {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};

// Folds all threads' values, always in the same order; every thread gets the
// result. `room` is shared and holds one value per warp. Blocks consist of
// whole warps.
template <typename T, typename Fold>
__device__ T BlockFold(T value, T* room, Fold fold) {
  for (int lane = kWarp / 2; lane > 0; lane /= 2) {
    value = fold(value, __shfl_xor_sync(kAllLanes, value, lane));
  }
  const int warps = blockDim.x / kWarp;
  if (threadIdx.x % kWarp == 0) room[threadIdx.x / kWarp] = value;
  __syncthreads();
  T all = room[0];
  for (int i = 1; i < warps; ++i) all = fold(all, room[i]);
  __syncthreads();
  return all;
}

inline unsigned Blocks(int64_t items, int64_t each) {
  return static_cast<unsigned>((items + each - 1) / each);
}

}  // namespace rollcall::cuda

#endif  // ROLLCALL_TRAINER_CUDA_KERNEL_LANGUAGE_H_
