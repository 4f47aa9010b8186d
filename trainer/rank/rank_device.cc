#include "trainer/rank/rank_device.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "trainer/model/model_flops.h"

namespace rollcall {
namespace {

class GpuMemory final : public CheckMemory {
 public:
  explicit GpuMemory(CudaDevice& gpu) : gpu_(gpu) {}
  ~GpuMemory() override {
    for (Piece& piece : pieces_) gpu_.Free(piece.values);
  }

  absl::StatusOr<absl::Span<float>> Room(int which, size_t values) override {
    Piece& piece = pieces_[which];
    if (piece.size < values) {
      gpu_.Free(std::exchange(piece.values, nullptr));
      piece.size = 0;
      absl::StatusOr<void*> room =
          gpu_.Allocate(values * sizeof(float), "the check's values");
      if (!room.ok()) return room.status();
      piece = {static_cast<float*>(*room), values};
    }
    return absl::MakeSpan(piece.values, values);
  }
  absl::Status Put(absl::Span<const float> host,
                   absl::Span<float> room) override {
    return gpu_.Upload(room.data(), host.data(), host.size() * sizeof(float),
                       "the check's values");
  }
  absl::Status Get(absl::Span<const float> room,
                   absl::Span<float> host) override {
    return gpu_.Download(host.data(), room.data(), host.size() * sizeof(float),
                         "the check's values");
  }
  absl::Status Synchronize() override { return gpu_.Synchronize("the check"); }
  bool device() const override { return true; }

 private:
  struct Piece {
    float* values = nullptr;
    size_t size = 0;
  };

  CudaDevice& gpu_;
  Piece pieces_[2];
};

}  // namespace

absl::StatusOr<std::unique_ptr<RankDevice>> RankDevice::Find(DeviceKind kind,
                                                             const Rank* rank) {
  std::unique_ptr<RankDevice> found(new RankDevice());
  found->offer_.wanted = kind;
  if (kind == DeviceKind::kCpu) return found;
  absl::StatusOr<std::vector<CudaDevice::Known>> gpus = CudaDevice::List();
  absl::Status status = gpus.status();
  absl::StatusOr<NcclLibrary> nccl;
  if (status.ok()) {
    nccl = NcclLibrary::Open("");
    // A single rank needs no NCCL.
    const bool alone = rank == nullptr || rank->world_size() == 1;
    if (!nccl.ok() && !alone) status = nccl.status();
  }
  if (!status.ok()) {
    if (kind == DeviceKind::kCuda) return status;
    found->reason_ = std::string(status.message());
    return found;
  }
  found->known_ = *std::move(gpus);
  for (const CudaDevice::Known& gpu : found->known_) {
    found->offer_.gpus.push_back(gpu.uuid);
    found->offer_.models[gpu.uuid] = gpu.model;
  }
  const char* host = std::getenv("NCCL_HOSTID");
  if (host != nullptr) found->offer_.host = host;
  // This must precede the first call of NCCL.
  found->log_ = NcclLog::Catch();
  if (nccl.ok()) {
    found->nccl_ = std::make_unique<NcclLibrary>(*std::move(nccl));
  }
  return found;
}

absl::Status RankDevice::Take(const DeviceChoice& choice) {
  if (!offer_.held.empty()) return absl::OkStatus();
  if (!choice.gpu.has_value()) {
    if (choice.all_taken) {
      reason_ = "all GPUs that it sees are in use by other ranks";
    }
    offer_.held = DeviceOffer::kHeldCpu;
    return absl::OkStatus();
  }
  const auto known = std::find_if(
      known_.begin(), known_.end(),
      [&](const CudaDevice::Known& gpu) { return gpu.uuid == *choice.gpu; });
  if (known == known_.end()) {
    return absl::InternalError("a GPU was chosen that this rank did not offer");
  }
  absl::StatusOr<std::unique_ptr<CudaDevice>> gpu =
      CudaDevice::Choose(known->number);
  if (!gpu.ok()) return gpu.status();
  gpu_ = *std::move(gpu);
  offer_.held = *choice.gpu;
  return absl::OkStatus();
}

std::string RankDevice::description() const {
  return gpu_ == nullptr ? "the CPU" : gpu_->description();
}

std::optional<double> RankDevice::peak_flops() const {
  if (gpu_ == nullptr) return std::nullopt;
  return PeakFlops(gpu_->name());
}

absl::StatusOr<std::unique_ptr<Backend>> RankDevice::MakeBackend(
    const GptConfig& config, const AdamWConfig& optimizer) {
  if (gpu_ == nullptr) return MakeCpuBackend(config, optimizer);
  return MakeCudaBackend(config, optimizer, *gpu_);
}

std::unique_ptr<CheckMemory> RankDevice::MakeCheckMemory() {
  if (gpu_ == nullptr) return std::make_unique<HostMemory>();
  return std::make_unique<GpuMemory>(*gpu_);
}

}  // namespace rollcall
