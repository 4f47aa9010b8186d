#include "trainer/rank_device.h"

#include <utility>

#include "absl/strings/str_cat.h"

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

absl::StatusOr<std::unique_ptr<RankDevice>> RankDevice::Choose(
    DeviceKind kind, const Rank* rank) {
  std::unique_ptr<RankDevice> chosen(new RankDevice());
  if (kind == DeviceKind::kCpu) return chosen;
  absl::Status status = CudaAvailable();
  absl::StatusOr<NcclLibrary> nccl;
  if (status.ok()) {
    nccl = NcclLibrary::Open("");
    // A single rank needs no NCCL.
    const bool alone = rank == nullptr || rank->world_size() == 1;
    if (!nccl.ok() && !alone) status = nccl.status();
  }
  if (!status.ok()) {
    if (kind == DeviceKind::kCuda) return status;
    chosen->reason_ = std::string(status.message());
    return chosen;
  }
  // Must precede NCCL's first call.
  chosen->log_ = NcclLog::Catch();
  if (nccl.ok()) {
    chosen->nccl_ = std::make_unique<NcclLibrary>(*std::move(nccl));
  }
  absl::StatusOr<std::unique_ptr<CudaDevice>> gpu =
      CudaDevice::Choose(rank == nullptr ? 0 : rank->local_rank());
  if (!gpu.ok()) return gpu.status();
  chosen->gpu_ = *std::move(gpu);
  return chosen;
}

std::string RankDevice::description() const {
  return gpu_ == nullptr ? "the CPU" : gpu_->description();
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
