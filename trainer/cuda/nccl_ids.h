// AgreeOnNcclIds: the ids with which all ranks of a world initialize NCCL.
//
// One id per 128 ranks. The rank that makes an id is the root of those ranks
// and must live until they are initialized. An id is a secret and is valid for
// one communicator.
#ifndef ROLLCALL_TRAINER_CUDA_NCCL_IDS_H_
#define ROLLCALL_TRAINER_CUDA_NCCL_IDS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "trainer/cuda/nccl_collective.h"

namespace rollcall {

// Errors: see ConnectNccl.
absl::StatusOr<std::vector<nccl::UniqueId>> AgreeOnNcclIds(
    const NcclLibrary& library, const NcclOptions& options);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CUDA_NCCL_IDS_H_
