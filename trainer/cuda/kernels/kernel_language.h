// The language of the kernels: CUDA if nvcc compiles them, emulation.h if
// another C++ compiler does.
//
// It adds only what both must write in the same way: conversions of Bf16, a
// block's shared memory as one array, products of small tiles, background
// copies, sums over a warp and a block, and a launch that is a plain function
// call.
//
// Tiles have the layout of PTX's mma.m16n8k16 and ldmatrix. Of a 16 x 8 sum,
// lane t of a warp holds four elements: sum[0] and sum[1] are row t / 4,
// columns 2 (t % 4) and 2 (t % 4) + 1; sum[2] and sum[3] are the same columns
// of row t / 4 + 8.
#ifndef ROLLCALL_TRAINER_CUDA_KERNELS_KERNEL_LANGUAGE_H_
#define ROLLCALL_TRAINER_CUDA_KERNELS_KERNEL_LANGUAGE_H_

#include "trainer/cuda/kernels/kernels.h"

#ifdef __CUDACC__
#include <cuda_bf16.h>

// Placed before a loop over an array of registers.
#define ROLLCALL_UNROLL _Pragma("unroll")

namespace rollcall::cuda {

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

// Two values in one register; `first` has the lower half.
__device__ inline uint32_t Pair(float first, float second) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
  return *reinterpret_cast<const uint32_t*>(&pair);
}
__device__ inline void StorePair(Bf16* to, uint32_t pair) {
  *reinterpret_cast<uint32_t*>(to) = pair;
}

__device__ inline unsigned SharedAddress(const void* shared) {
  return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

// Loads four 8 x 8 matrices from shared memory. Lane t gives the address of row
// t % 8 of matrix t / 8; a row has 16 bytes. Lane t receives columns 2 (t % 4)
// and 2 (t % 4) + 1 of row t / 4 of each matrix.
__device__ inline void LoadMatrices(uint32_t (&to)[4], const Bf16* row) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
      : "r"(SharedAddress(row))
      : "memory");
}
// Loads them transposed: lane t receives rows 2 (t % 4) and 2 (t % 4) + 1 of
// column t / 4 of each matrix.
__device__ inline void LoadTransposed(uint32_t (&to)[4], const Bf16* row) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
      : "r"(SharedAddress(row))
      : "memory");
}

// sum[16, 8] += a[16, 16] * b[16, 8]. a: the matrices that begin at (row 0,
// column 0), (8, 0), (0, 8) and (8, 8). b: the transposed matrices that begin
// at rows 0 and 8.
__device__ inline void MultiplyAdd(float (&sum)[4], const uint32_t (&a)[4],
                                   uint32_t b0, uint32_t b8) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b8));
}

// Starts a copy of kBytes (4 or 16) into shared memory; if `from` is null,
// fills with zeros.
template <int kBytes>
__device__ inline void CopyAsync(void* shared, const void* from) {
  const void* const source = from == nullptr ? shared : from;
  const int bytes = from == nullptr ? 0 : kBytes;
  if (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                     SharedAddress(shared)),
                 "l"(__cvta_generic_to_global(source)), "r"(bytes)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(
                     SharedAddress(shared)),
                 "l"(__cvta_generic_to_global(source)), "r"(bytes)
                 : "memory");
  }
}
// Waits until this thread's copies have arrived.
__device__ inline void AwaitCopies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}
// 2^x with a relative error of about 2^-22; 0 if the result is below 2^-126.
__device__ inline float Exp2(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
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
// T has the alignment of the access.
template <typename T>
__device__ T LoadWhole(const void* from) {
  return *static_cast<const T*>(from);
}
template <typename T>
__device__ void StoreWhole(void* to, const T& value) {
  *static_cast<T*>(to) = value;
}
inline const char* TextOf(int error) {
  return cudaGetErrorString(static_cast<cudaError_t>(error));
}

}  // namespace rollcall::cuda
#else
#include "trainer/cuda/kernels/emulation.h"
#endif

namespace rollcall::cuda {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

struct alignas(16) Packed {
  Bf16 at[kPack];
};

__device__ inline Packed LoadPack(const Bf16* from) {
  return LoadWhole<Packed>(from);
}
__device__ inline void StorePack(Bf16* to, const Packed& pack) {
  StoreWhole(to, pack);
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

// Combines the values of all threads by `fold`, always in the same order; every
// thread gets the result. `room` is shared memory for one value per warp.
// Blocks must consist of whole warps.
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

#endif  // ROLLCALL_TRAINER_CUDA_KERNELS_KERNEL_LANGUAGE_H_
