// Streams: what a collective needs of a GPU: two queues of work (one for the
// model, one for communication), the order between them, and copies.
//
// It does not know what the work is. The CUDA device implements it; a test has
// its own implementation.
//
// Thread rule: one thread, except for Counted.
#ifndef ROLLCALL_TRAINER_CUDA_STREAMS_H_
#define ROLLCALL_TRAINER_CUDA_STREAMS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "trainer/cuda/kernels.h"

namespace rollcall {

// What the device has come to in `communication`.
enum class Counter { kEntered, kLeft };

class Streams {
 public:
  virtual ~Streams() = default;

  virtual cuda::Stream compute() const = 0;
  virtual cuda::Stream communication() const = 0;

  // The work in `compute` now precedes later work in `communication`, and the
  // reverse for the second function. The host does not wait.
  virtual absl::Status CommunicationAfterCompute() = 0;
  virtual absl::Status ComputeAfterCommunication() = 0;

  // Whether the work that `compute` had at the last CommunicationAfterCompute
  // is done; the same for `communication` at the last
  // ComputeAfterCommunication. Errors are those of that work.
  virtual absl::StatusOr<bool> ComputeIsDone() = 0;
  virtual absl::StatusOr<bool> CommunicationIsDone() = 0;

  // Puts into `communication`: the counter grows by one when the device comes
  // to it.
  virtual absl::Status Count(Counter counter) = 0;
  // How often Count was called since this object was made.
  virtual uint64_t Begun(Counter counter) const = 0;
  // How often the device has come to it. Any thread.
  virtual uint64_t Counted(Counter counter) const = 0;

  virtual bool IsOnDevice(const void* memory) const = 0;
  // Device memory of at least `bytes`, valid until the next call.
  // RESOURCE_EXHAUSTED: not enough memory.
  virtual absl::StatusOr<char*> Room(size_t bytes) = 0;
  // Copies in `communication`; waits for the copy.
  virtual absl::Status CopyIn(char* device, absl::Span<const char> host) = 0;
  virtual absl::Status CopyOut(absl::Span<char> host, const char* device) = 0;
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CUDA_STREAMS_H_
