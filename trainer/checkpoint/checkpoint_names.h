// The names of the entries in a checkpoint store's folder.
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

// Eight digits, or more for a larger step. So entries must be sorted by number,
// not by name.
std::string FormatCheckpointName(int64_t step,
                                 CheckpointKind kind = CheckpointKind::kWhole);

// nullopt: `name` is not one of the store's names.
std::optional<CheckpointName> ParseCheckpointName(absl::string_view name);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECKPOINT_CHECKPOINT_NAMES_H_
