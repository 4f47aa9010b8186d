// ChooseDevices: which device each rank of a world takes, computed from the
// offers of all ranks. Every rank computes it for all ranks, so that they agree
// without another exchange.
//
// A rank that already trains keeps its device. In the order of ranks, each
// other rank takes the first GPU that it sees and that no rank of its host has.
// So all get GPUs of their own: ranks of one agent, of several agents on one
// machine, and of containers that see one GPU each.
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

// What a rank tells the other ranks.
struct DeviceOffer {
  DeviceKind wanted = DeviceKind::kAuto;
  // The value of NCCL_HOSTID; empty if it is not set. NCCL treats ranks with
  // different values as ranks of different machines, and lets them share a GPU.
  std::string host;
  // The UUIDs of the GPUs that the rank sees and can use, in CUDA's order; at
  // most kGpusMax.
  std::vector<std::string> gpus;
  // The device on which it already trains: a UUID, or kHeldCpu; empty: none.
  std::string held;

  static constexpr char kHeldCpu[] = "cpu";
  static constexpr size_t kGpusMax = 64;

  // The offer as the value of an exchange. Decode: INVALID_ARGUMENT says what
  // is wrong.
  std::string Encode() const;
  static absl::StatusOr<DeviceOffer> Decode(absl::string_view text);
};

struct DeviceChoice {
  std::optional<std::string> gpu;  // Its UUID; none: the CPU.
  // The rank sees GPUs, but other ranks have them all. If no rank holds or
  // demands a GPU, all ranks then take the CPU. All ranks also take the CPU if
  // a rank already holds the CPU and none holds or demands a GPU.
  bool all_taken = false;
};

// Returns the choices by rank, one for each of `offers`.
std::vector<DeviceChoice> ChooseDevices(const std::vector<DeviceOffer>& offers);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_DEVICE_CHOICE_H_
