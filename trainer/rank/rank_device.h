// RankDevice: the device of a rank's model (the CPU or a GPU), with its
// backend, its collective and its memory for the network check.
//
// Thread rule: the main thread, which must call Find before it starts others.
#ifndef ROLLCALL_TRAINER_RANK_RANK_DEVICE_H_
#define ROLLCALL_TRAINER_RANK_RANK_DEVICE_H_

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "client/rank/rank.h"
#include "trainer/check/memory.h"
#include "trainer/collective/collective.h"
#include "trainer/cuda/cuda.h"
#include "trainer/cuda/nccl/nccl_library.h"
#include "trainer/cuda/nccl/nccl_log.h"
#include "trainer/model/backend.h"
#include "trainer/rank/device_choice.h"
#include "trainer/rank/options.h"

namespace rollcall {

class RankDevice {
 public:
  // Finds which devices there are. kAuto: GPUs if there are some and NCCL is
  // available, otherwise the CPU. kCuda: FAILED_PRECONDITION says what is
  // missing and how to get it. `rank` is null if there is no agent.
  static absl::StatusOr<std::unique_ptr<RankDevice>> Find(DeviceKind kind,
                                                          const Rank* rank);
  // What this rank tells the other ranks.
  const DeviceOffer& offer() const { return offer_; }
  // Opens the device that was chosen from the offers of all ranks. Does nothing
  // if one is already open. Errors: those of CudaDevice::Choose.
  absl::Status Take(const DeviceChoice& choice);

  // The functions from here on: only after Take.
  bool is_gpu() const { return gpu_ != nullptr; }
  // For people: "the CPU", "GPU 0, NVIDIA H100 80GB HBM3, 79.6 GiB".
  std::string description() const;
  // What the device can do at most, in operations a second; see PeakFlops.
  // nullopt: unknown, as for a CPU.
  std::optional<double> peak_flops() const;
  // Why the CPU was chosen although a GPU was wanted; empty otherwise.
  const std::string& reason() const { return reason_; }

  // This object must outlive the objects that these return.
  absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(
      const GptConfig& config, const AdamWConfig& optimizer);
  std::unique_ptr<CheckMemory> MakeCheckMemory();

  // Null on the CPU.
  CudaDevice* gpu() { return gpu_.get(); }
  const NcclLibrary* nccl() const { return nccl_.get(); }
  NcclLog* nccl_log() { return log_.get(); }

 private:
  RankDevice() = default;

  DeviceOffer offer_;
  std::vector<CudaDevice::Known> known_;  // The GPUs in the offer.
  std::unique_ptr<CudaDevice> gpu_;
  std::unique_ptr<NcclLibrary> nccl_;
  std::unique_ptr<NcclLog> log_;
  std::string reason_;
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_RANK_RANK_DEVICE_H_
