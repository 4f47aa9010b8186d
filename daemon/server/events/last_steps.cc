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

// The number of a step; 0: the text has none.
uint64_t StepIn(const std::string& text) {
  uint64_t step = 0;
  return absl::SimpleAtoi(text, &step) && step <= Limits::step_max ? step : 0;
}

}  // namespace

void LastSteps::Take(const std::string& run, const LogFields& event) {
  const std::string& name = FieldOf(event, "event");
  if (name == "end" &&
      FieldOf(event, "code") == v1::ReasonCode_Name(v1::REASON_CODE_FINISHED)) {
    last_ = LastStep();
    return;
  }
  const bool begins = name == "resumed_below";
  const bool reports = name == "reached" || name == "checkpoint" ||
                       name == "abort" || name == "end";
  const uint64_t number = StepIn(FieldOf(event, "step"));
  if (!(begins || reports) || number == 0 || run.empty() ||
      run.size() > kRunNameBytesMax) {
    return;
  }
  uint64_t world = 0;
  if (absl::SimpleAtoi(FieldOf(event, "generation"), &world)) {
    last_.world_run = run;
    last_.world_generation = world;
  }
  // A run that begins below an earlier one is compared with that again, until
  // it has steps of its own.
  if (begins) return;
  last_.run = run;
  last_.step = number;
  last_.saved = StepIn(FieldOf(event, "saved"));
}

}  // namespace rollcall
