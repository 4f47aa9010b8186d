// What the emulation of CUDA refuses and reports.
#include <gtest/gtest.h>

#include <string>

#include "trainer/cuda/kernels/kernel_language.h"
#include "trainer/cuda/kernels/kernels.h"

namespace rollcall {
namespace {

TEST(CudaEmulationDeathTest, BarrierThatSomeNeverReachIsReported) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(cuda::emulation::Run(dim3(1), 64, 0,
                                    [] {
                                      if (threadIdx.x < 40)
                                        cuda::__syncthreads();
                                    }),
               "40 threads wait at a barrier");
}

TEST(CudaEmulation, RefusesWhatADeviceWouldNotStart) {
  const struct {
    dim3 blocks;
    int threads;
    size_t shared;
    std::string expect;
  } kRows[] = {
      {dim3(0x7fffffff, 65535, 65535), 1024, 227 << 10, ""},
      {dim3(0), 32, 0, ""},
      {dim3(0x80000000u), 32, 0, "blocks.x: 2147483648, at most 2147483647"},
      {dim3(1, 65536), 32, 0, "blocks.y: 65536, at most 65535"},
      {dim3(1, 1, 65536), 32, 0, "blocks.z: 65536, at most 65535"},
      {dim3(1), 1056, 0,
       "threads of a block: 1056, expected whole warps, at most 1024"},
      {dim3(1), 48, 0,
       "threads of a block: 48, expected whole warps, at most 1024"},
      {dim3(1), 0, 0,
       "threads of a block: 0, expected whole warps, at most 1024"},
      {dim3(1), 32, (227 << 10) + 1, "shared memory: 232449, at most 232448"},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(cuda::emulation::LaunchError(row.blocks, row.threads, row.shared),
              row.expect);
  }
}

struct alignas(32) Wide {
  cuda::Bf16 at[16];
};

TEST(CudaEmulationDeathTest, ALaunchOrAnAccessThatADeviceRefusesIsReported) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(cuda::emulation::Run(dim3(1), 33, 0, [] {}),
               "threads of a block: 33");
  EXPECT_DEATH(cuda::emulation::Run(dim3(0x80000000u), 32, 0, [] {}),
               "blocks.x: 2147483648, at most");
  EXPECT_DEATH(cuda::emulation::Run(dim3(1, 65536), 32, 0, [] {}),
               "blocks.y: 65536, at most");
  EXPECT_DEATH(cuda::emulation::Run(dim3(1, 1, 65536), 32, 0, [] {}),
               "blocks.z: 65536, at most");
  EXPECT_DEATH(cuda::emulation::Run(dim3(1), 32, (227 << 10) + 1, [] {}),
               "shared memory: 232449, at most");
  alignas(32) static cuda::Bf16 values[32];
  const auto run = [](void (*body)()) {
    cuda::emulation::Run(dim3(1), 32, 0, body);
  };
  EXPECT_DEATH(run([] { cuda::LoadPack(values + 1); }),
               "thread 0: an access of 16 bytes is off by 2");
  EXPECT_DEATH(run([] { cuda::StorePack(values + 4, cuda::Packed()); }),
               "16 bytes is off by 8");
  EXPECT_DEATH(run([] { cuda::StorePair(values + 1, 0); }),
               "4 bytes is off by 2");
  EXPECT_DEATH(run([] {
                 uint32_t to[4];
                 cuda::LoadMatrices(to, values + 2);
               }),
               "16 bytes is off by 4");
  EXPECT_DEATH(run([] {
                 uint32_t to[4];
                 cuda::LoadTransposed(to, values + 3);
               }),
               "16 bytes is off by 6");
  EXPECT_DEATH(run([] { cuda::CopyAsync<16>(values, values + 12); }),
               "16 bytes is off by 8");
  EXPECT_DEATH(run([] { cuda::CopyAsync<16>(values + 2, values); }),
               "16 bytes is off by 4");
  EXPECT_DEATH(run([] { cuda::CopyAsync<4>(values, values + 1); }),
               "4 bytes is off by 2");
  EXPECT_DEATH(run([] { cuda::CopyAsync<4>(values + 1, values); }),
               "4 bytes is off by 2");
  // An access takes its alignment from its type, whatever its size.
  EXPECT_DEATH(run([] { cuda::LoadWhole<Wide>(values + 8); }),
               "32 bytes is off by 16");
  EXPECT_DEATH(run([] { cuda::StoreWhole(values + 8, Wide()); }),
               "32 bytes is off by 16");
}

// Of many sizes, so that the allocator returns addresses of both kinds.
TEST(CudaEmulation, SharedMemoryIsAligned) {
  for (size_t bytes = 0; bytes < 4096; bytes += 16) {
    cuda::emulation::Run(dim3(1), 32, bytes, [] {
      cuda::emulation::RequireAligned(cuda::SharedMemory(), alignof(Wide));
    });
  }
}

}  // namespace
}  // namespace rollcall
