// AgreeOnNcclIds: agrees on the ids with which all ranks of a world initialize
// NCCL.
//
// There is one id per 128 ranks. The rank that makes an id is the root of the
// bootstrap with that id, and its process must exist until those ranks are
// initialized. An id is a secret and is valid for one communicator.
#ifndef ROLLCALL_TRAINER_CUDA_NCCL_NCCL_IDS_H_
#define ROLLCALL_TRAINER_CUDA_NCCL_NCCL_IDS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "trainer/cuda/nccl/nccl_collective.h"

namespace rollcall {

// Errors: see ConnectNccl.
absl::StatusOr<std::vector<nccl::UniqueId>> AgreeOnNcclIds(
    const NcclLibrary& library, const NcclOptions& options);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CUDA_NCCL_NCCL_IDS_H_
