// NcclCollective: the ranks' GPU collective, by NCCL.
//
// The communicator does not block: while it begins and ends, and while the
// device is at work for it, the host looks for NCCL's errors and for an
// interruption, which aborts it wherever it is. NCCL offers nothing to wait on:
// so it looks every millisecond, or sooner, and an interruption wakes it.
//
// Memory may be the device's or the host's; the latter goes through a piece of
// the device's.
//
// NCCL's own connections are neither authenticated nor encrypted.
//
// Thread rule: one thread at a time, the one that chose the device.
#ifndef ROLLCALL_TRAINER_CUDA_NCCL_COLLECTIVE_H_
#define ROLLCALL_TRAINER_CUDA_NCCL_COLLECTIVE_H_

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
#include "trainer/cuda/nccl_library.h"
#include "trainer/cuda/nccl_log.h"
#include "trainer/cuda/streams.h"

namespace rollcall {

struct NcclOptions {
  int rank = 0;
  int size = 1;
  // Ids of this generation alone, 128 bytes each, and the version of NCCL that
  // minted them (Seal). None: ranks 0, 128, 256, ... mint one each, and pass it
  // on by `exchange`.
  std::vector<std::string> ids;
  uint32_t ids_version = 0;
  Exchange exchange;
  // For the begin, the end, and for each wait once this rank's own device has
  // got there.
  absl::Duration timeout = absl::Seconds(30);
  // How a message names a rank, for example "rank 2 on node-b".
  std::function<std::string(int rank)> name;
  // Ends what waits; may be null. Shared with whoever raises it.
  std::shared_ptr<Interruption> interruption;
  // Must outlive the collective.
  Streams* streams = nullptr;
  // May be null; must outlive the collective.
  NcclLog* log = nullptr;
};

// Begins a communicator of all ranks. FAILED_PRECONDITION: ranks have different
// versions of NCCL, both named; UNAVAILABLE: NCCL failed, in its own words;
// DEADLINE_EXCEEDED: not all ranks came; ABORTED: interrupted; else the
// exchange's own error. Not to be retried within a generation.
absl::StatusOr<std::unique_ptr<Collective>> ConnectNccl(
    const NcclLibrary& library, NcclOptions options);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CUDA_NCCL_COLLECTIVE_H_
