// NcclLibrary: the functions of NCCL that are used. They are declared here, so
// that the build does not need NCCL's header, and are opened at run time.
#ifndef ROLLCALL_TRAINER_CUDA_NCCL_NCCL_LIBRARY_H_
#define ROLLCALL_TRAINER_CUDA_NCCL_NCCL_LIBRARY_H_

#include <climits>
#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "trainer/cuda/kernels/kernels.h"

namespace rollcall {

namespace nccl {

struct Communicator;

struct UniqueId {
  char bytes[128];
};

// Results, types and reductions, with their numbers in nccl.h.
inline constexpr int kSuccess = 0;
inline constexpr int kUnhandledCudaError = 1;
inline constexpr int kSystemError = 2;
inline constexpr int kInternalError = 3;
inline constexpr int kInvalidArgument = 4;
inline constexpr int kInvalidUsage = 5;
inline constexpr int kRemoteError = 6;
inline constexpr int kInProgress = 7;
inline constexpr int kChar = 0;
inline constexpr int kFloat = 7;
inline constexpr int kSum = 0;
inline constexpr int kMax = 2;

// The part of ncclConfig_t that NCCL 2.14 has. The library reads `size` bytes
// of it and uses its defaults for later fields.
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;
};

}  // namespace nccl

// System, internal and remote errors mean that a peer, or the connection to it,
// has failed: UNAVAILABLE. An internal error is among them, because NCCL's
// proxy returns it when the connection to another process of the host closes.
// All other errors are this rank's own, and would occur again in another world:
// INTERNAL.
absl::StatusCode NcclStatusCode(int code);

struct NcclLibrary {
  // Opens the first library that is found: `path` if it is not empty, else at
  // the places where an agent looks. FAILED_PRECONDITION: not found, or too
  // old.
  static absl::StatusOr<NcclLibrary> Open(const std::string& path);

  using Communicator = nccl::Communicator*;

  std::string name;
  int version = 0;  // 22809 is 2.28.9.

  int (*get_version)(int*) = nullptr;
  int (*get_unique_id)(nccl::UniqueId*) = nullptr;
  const char* (*error_string)(int) = nullptr;
  const char* (*last_error)(Communicator) = nullptr;
  int (*init)(Communicator*, int ranks, nccl::UniqueId, int rank,
              nccl::Config*) = nullptr;
  // Null before 2.23, which supports only one id.
  int (*init_scalable)(Communicator*, int ranks, int rank, int ids,
                       nccl::UniqueId*, nccl::Config*) = nullptr;
  int (*async_error)(Communicator, int*) = nullptr;
  int (*finalize)(Communicator) = nullptr;
  int (*destroy)(Communicator) = nullptr;
  int (*abort)(Communicator) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*all_reduce)(const void*, void*, size_t, int type, int reduction,
                    Communicator, cuda::Stream) = nullptr;
  int (*broadcast)(const void*, void*, size_t, int type, int root, Communicator,
                   cuda::Stream) = nullptr;
  int (*all_gather)(const void*, void*, size_t, int type, Communicator,
                    cuda::Stream) = nullptr;
  int (*reduce_scatter)(const void*, void*, size_t, int type, int reduction,
                        Communicator, cuda::Stream) = nullptr;
  int (*send)(const void*, size_t, int type, int peer, Communicator,
              cuda::Stream) = nullptr;
  int (*receive)(void*, size_t, int type, int peer, Communicator,
                 cuda::Stream) = nullptr;
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CUDA_NCCL_NCCL_LIBRARY_H_
