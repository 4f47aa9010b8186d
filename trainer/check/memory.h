// CheckMemory: the buffers that the check sends and sums.
//
// A device's collective must be measured on that device's memory, and it has
// finished only when the device has finished. HostMemory is the CPU's memory;
// RankDevice has the memory of a device.
//
// Thread rule: one thread.
#ifndef ROLLCALL_TRAINER_CHECK_MEMORY_H_
#define ROLLCALL_TRAINER_CHECK_MEMORY_H_

#include <algorithm>
#include <memory>
#include <new>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace rollcall {

class CheckMemory {
 public:
  virtual ~CheckMemory() = default;

  // Returns a buffer for `values` values, valid until the next call for this
  // `which` (0 or 1). RESOURCE_EXHAUSTED: not enough memory.
  virtual absl::StatusOr<absl::Span<float>> Room(int which, size_t values) = 0;
  // These copy between host memory and a buffer of the same size.
  virtual absl::Status Put(absl::Span<const float> host,
                           absl::Span<float> room) = 0;
  virtual absl::Status Get(absl::Span<const float> room,
                           absl::Span<float> host) = 0;
  // Waits until the device has finished all its work.
  virtual absl::Status Synchronize() = 0;
  // True for a device's memory, for which the default maximum size is larger.
  virtual bool device() const = 0;
};

class HostMemory final : public CheckMemory {
 public:
  absl::StatusOr<absl::Span<float>> Room(int which, size_t values) override {
    Piece& piece = pieces_[which];
    if (piece.size < values) {
      piece = Piece{nullptr, 0};
      piece.values.reset(new (std::nothrow) float[values]);
      if (piece.values == nullptr) {
        return absl::ResourceExhaustedError(
            absl::StrCat("no memory for ", values * sizeof(float),
                         " bytes; give a smaller --max-bytes"));
      }
      piece.size = values;
    }
    return absl::MakeSpan(piece.values.get(), values);
  }
  absl::Status Put(absl::Span<const float> host,
                   absl::Span<float> room) override {
    std::copy(host.begin(), host.end(), room.begin());
    return absl::OkStatus();
  }
  absl::Status Get(absl::Span<const float> room,
                   absl::Span<float> host) override {
    std::copy(room.begin(), room.end(), host.begin());
    return absl::OkStatus();
  }
  absl::Status Synchronize() override { return absl::OkStatus(); }
  bool device() const override { return false; }

 private:
  struct Piece {
    std::unique_ptr<float[]> values;
    size_t size = 0;
  };
  Piece pieces_[2];
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECK_MEMORY_H_
