// Streams: the operations of a GPU that a collective needs: two queues of work
// (one for the model, one for communication), the order between them, and
// copies.
//
// It does not depend on what the work is. The CUDA device implements it; tests
// have their own implementation.
//
// Thread rule: one thread, except for Counted.
#ifndef ROLLCALL_TRAINER_CUDA_STREAMS_H_
#define ROLLCALL_TRAINER_CUDA_STREAMS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "trainer/cuda/kernels/kernels.h"

namespace rollcall {

// Points in `communication` that the device has reached.
enum class Counter { kEntered, kLeft };

class Streams {
 public:
  virtual ~Streams() = default;

  virtual cuda::Stream compute() const = 0;
  virtual cuda::Stream communication() const = 0;

  // After CommunicationAfterCompute, later work in `communication` waits for
  // the present work in `compute`. ComputeAfterCommunication does the reverse.
  // The host does not wait.
  virtual absl::Status CommunicationAfterCompute() = 0;
  virtual absl::Status ComputeAfterCommunication() = 0;

  // Whether the device has done the work that was in `compute` at the last
  // CommunicationAfterCompute, or in `communication` at the last
  // ComputeAfterCommunication. Errors are those of that work.
  virtual absl::StatusOr<bool> ComputeIsDone() = 0;
  virtual absl::StatusOr<bool> CommunicationIsDone() = 0;

  // Puts an increment of the counter into `communication`. The device
  // increments it when it reaches that point.
  virtual absl::Status Count(Counter counter) = 0;
  // How often Count was called for this counter since this object was made.
  virtual uint64_t Begun(Counter counter) const = 0;
  // The value that the counter has reached on the device. Any thread.
  virtual uint64_t Counted(Counter counter) const = 0;

  virtual bool IsOnDevice(const void* memory) const = 0;
  // Device memory of at least `bytes`, valid until the next call.
  // RESOURCE_EXHAUSTED: not enough memory.
  virtual absl::StatusOr<char*> Room(size_t bytes) = 0;
  // These copy in `communication`, and wait for the copy.
  virtual absl::Status CopyIn(char* device, absl::Span<const char> host) = 0;
  virtual absl::Status CopyOut(absl::Span<char> host, const char* device) = 0;
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CUDA_STREAMS_H_
