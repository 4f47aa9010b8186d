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
#ifndef ROLLCALL_TRAINER_RANK_DEVICE_CHOICE_H_
#define ROLLCALL_TRAINER_RANK_DEVICE_CHOICE_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trainer/rank/options.h"

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
  // By UUID: "NVIDIA H100 80GB HBM3 (compute capability 9.0)". A GPU that is
  // not in here is of an unknown model.
  std::map<std::string, std::string> models = {};

  static constexpr char kHeldCpu[] = "cpu";
  static constexpr size_t kGpusMax = 64;
  // Different models in one offer; GPUs of more are of an unknown one.
  static constexpr size_t kModelsMax = 4;

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

// Why a rank that asked for `auto` takes the CPU, for a person, with `name` for
// a rank. `missing`: why it sees no GPU. Empty: it takes a GPU, already has a
// device, or did not ask for `auto`.
std::string WhyCpu(const std::vector<DeviceOffer>& offers,
                   const std::vector<DeviceChoice>& choices, int rank,
                   absl::string_view missing,
                   absl::FunctionRef<std::string(int)> name);

// Which ranks compute on which model of GPU, for a person, with `name` for a
// rank: "NVIDIA A100 (compute capability 8.0): rank 0 on a to rank 7 on a;
// NVIDIA H100 (...): ...". Empty: no two ranks are known to differ. A rank on
// the CPU is not named.
std::string DifferentModels(const std::vector<DeviceOffer>& offers,
                            const std::vector<DeviceChoice>& choices,
                            absl::FunctionRef<std::string(int)> name);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_RANK_DEVICE_CHOICE_H_
