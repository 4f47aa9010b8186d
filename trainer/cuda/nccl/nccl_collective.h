// NcclCollective: the collective of GPU ranks, by NCCL.
//
// The communicator does not block. While it is initialized or finalized, and
// while the device works for it, the host polls for NCCL's errors and for an
// interruption. NCCL has no event to wait for, so the host polls every
// millisecond or more often. An interruption wakes the host, and aborts the
// communicator in any state.
//
// Buffers may be in device or host memory; host data goes through a device
// buffer.
//
// NCCL's own connections are neither authenticated nor encrypted.
//
// Thread rule: one thread at a time, which must be the thread that chose the
// device.
#ifndef ROLLCALL_TRAINER_CUDA_NCCL_NCCL_COLLECTIVE_H_
#define ROLLCALL_TRAINER_CUDA_NCCL_NCCL_COLLECTIVE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "trainer/collective/blob_exchange.h"
#include "trainer/collective/collective.h"
#include "trainer/collective/interruption.h"
#include "trainer/cuda/nccl/nccl_library.h"
#include "trainer/cuda/nccl/nccl_log.h"
#include "trainer/cuda/streams.h"

namespace rollcall {

struct NcclOptions {
  int rank = 0;
  int size = 1;
  // Ids for this generation only, 128 bytes each, and the version of the NCCL
  // that made them (WorldCommit). Empty: ranks 0, 128, 256, ... each make one
  // id and publish it by `exchange`.
  std::vector<std::string> ids;
  uint32_t ids_version = 0;
  Exchange exchange;
  // The time limit for initialization, for the end, and for each wait. The time
  // of a wait begins when this rank's own device has reached the collective.
  absl::Duration timeout = absl::Seconds(30);
  // The name of a rank in messages, for example "rank 2 on node-b".
  std::function<std::string(int rank)> name;
  // Ends blocked calls; may be null. Shared with the thread that raises it.
  std::shared_ptr<Interruption> interruption;
  // Must outlive the collective.
  Streams* streams = nullptr;
  // May be null; must outlive the collective.
  NcclLog* log = nullptr;
};

// Initializes a communicator of all ranks. FAILED_PRECONDITION: ranks have
// different versions of NCCL; the message names both. UNAVAILABLE: a peer or
// the network has failed (NCCL's remote, system and internal errors). INTERNAL:
// any other error of NCCL (its arguments, its memory, CUDA), which is this
// rank's own. The messages of UNAVAILABLE and INTERNAL have NCCL's text.
// DEADLINE_EXCEEDED: not all ranks have joined in time. ABORTED: interrupted.
// Other errors are the exchange's own. Do not retry within a generation.
//
// The collective's own calls fail in the same ways.
absl::StatusOr<std::unique_ptr<Collective>> ConnectNccl(
    const NcclLibrary& library, NcclOptions options);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CUDA_NCCL_NCCL_COLLECTIVE_H_
