#include "trainer/checkpoint/checkpoint_names.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

namespace rollcall {
namespace {

constexpr CheckpointKind kKinds[] = {CheckpointKind::kPartial,
                                     CheckpointKind::kReplaced,
                                     CheckpointKind::kWhole};

const char* Ending(CheckpointKind kind) {
  switch (kind) {
    case CheckpointKind::kPartial:
      return ".partial";
    case CheckpointKind::kReplaced:
      return ".replaced";
    case CheckpointKind::kWhole:
      break;
  }
  return "";
}

}  // namespace

std::string FormatCheckpointName(int64_t step, CheckpointKind kind) {
  return absl::StrFormat("step-%08d%s", step, Ending(kind));
}

std::optional<CheckpointName> ParseCheckpointName(absl::string_view name) {
  for (const CheckpointKind kind : kKinds) {
    absl::string_view digits = name;
    CheckpointName parsed;
    parsed.kind = kind;
    if (absl::ConsumePrefix(&digits, "step-") &&
        absl::ConsumeSuffix(&digits, Ending(kind)) &&
        absl::SimpleAtoi(digits, &parsed.step) && parsed.step >= 0 &&
        FormatCheckpointName(parsed.step, kind) == name) {
      return parsed;
    }
  }
  return std::nullopt;
}

}  // namespace rollcall
