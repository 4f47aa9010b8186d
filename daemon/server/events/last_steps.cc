#include "daemon/server/events/last_steps.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/numbers.h"
#include "daemon/core/limits.h"
#include "rollcall/v1/reasons.pb.h"

namespace rollcall {
namespace {

// No daemon writes a longer one.
constexpr size_t kRunNameBytesMax = 64;

}  // namespace

void LastSteps::Take(
    const std::string& run,
    const std::vector<std::pair<std::string, std::string>>& event) {
  std::string name, code, step, saved;
  for (const auto& [key, value] : event) {
    if (key == "event") name = value;
    if (key == "code") code = value;
    if (key == "step") step = value;
    if (key == "saved") saved = value;
  }
  if (name != "reached" && name != "checkpoint" && name != "abort" &&
      name != "end") {
    return;
  }
  if (name == "end" && code == v1::ReasonCode_Name(v1::REASON_CODE_FINISHED)) {
    last_ = LastStep();
    return;
  }
  uint64_t number = 0;
  if (run.empty() || run.size() > kRunNameBytesMax ||
      !absl::SimpleAtoi(step, &number) || number == 0 ||
      number > Limits::step_max) {
    return;
  }
  last_ = {run, number};
  if (!absl::SimpleAtoi(saved, &last_.saved) || last_.saved > number) {
    last_.saved = 0;
  }
}

}  // namespace rollcall
