// What the entries of a checkpoint store's folder are called.
//
// Pure.
#ifndef ROLLCALL_TRAINER_CHECKPOINT_CHECKPOINT_NAMES_H_
#define ROLLCALL_TRAINER_CHECKPOINT_CHECKPOINT_NAMES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace rollcall {

enum class CheckpointKind { kWhole, kReplaced, kPartial };

struct CheckpointName {
  int64_t step = 0;
  CheckpointKind kind = CheckpointKind::kWhole;
};

// Eight digits, or as many as it takes: by number, not by name, they sort.
std::string FormatCheckpointName(int64_t step,
                                 CheckpointKind kind = CheckpointKind::kWhole);

// None: not one of ours.
std::optional<CheckpointName> ParseCheckpointName(absl::string_view name);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECKPOINT_CHECKPOINT_NAMES_H_
