// ChooseDevices: which device each rank of a world takes, from what all of them
// have said. Every rank computes it for all ranks, so that they agree without
// another exchange.
//
// A rank that already trains keeps its device. Each other one takes the first
// GPU that it sees and no rank of its host has, in the order of ranks: so ranks
// of one agent, of several agents on one machine, and of containers that see a
// GPU each, all get GPUs of their own.
//
// Pure.
#ifndef ROLLCALL_TRAINER_DEVICE_CHOICE_H_
#define ROLLCALL_TRAINER_DEVICE_CHOICE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trainer/options.h"

namespace rollcall {

// What a rank tells the others.
struct DeviceOffer {
  DeviceKind wanted = DeviceKind::kAuto;
  // NCCL_HOSTID, if it is set: NCCL takes ranks with different ones for ranks
  // of different machines, and lets them share a GPU. Otherwise empty.
  std::string host;
  // The UUIDs of the GPUs that the rank sees and can use, in CUDA's order; at
  // most kGpusMax.
  std::vector<std::string> gpus;
  // What it trains on already: a UUID, or kHeldCpu; empty: nothing yet.
  std::string held;

  static constexpr char kHeldCpu[] = "cpu";
  static constexpr size_t kGpusMax = 64;

  // As a value of an exchange. Decode: INVALID_ARGUMENT says what is wrong.
  std::string Encode() const;
  static absl::StatusOr<DeviceOffer> Decode(absl::string_view text);
};

struct DeviceChoice {
  std::optional<std::string> gpu;  // Its UUID; none: the CPU.
  // The rank sees GPUs, but other ranks have them all. If no rank holds or
  // demands a GPU, all ranks then take the CPU. They also do if a rank holds
  // the CPU already and none holds or demands a GPU.
  bool all_taken = false;
};

// By rank; of the size of `offers`.
std::vector<DeviceChoice> ChooseDevices(const std::vector<DeviceOffer>& offers);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_DEVICE_CHOICE_H_
