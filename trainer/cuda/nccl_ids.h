// AgreeOnNcclIds: the ids that all ranks of a world begin NCCL with.
//
// One for each 128 ranks: whoever mints one is the root of that many, and must
// live until they have begun. An id is a secret, and good for one communicator.
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
