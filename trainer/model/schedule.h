// LearningRates: the learning rate of each step.
//
// Pure arithmetic that rounds the same way on every machine.
#ifndef ROLLCALL_TRAINER_MODEL_SCHEDULE_H_
#define ROLLCALL_TRAINER_MODEL_SCHEDULE_H_

#include <cstdint>

namespace rollcall {

// How the learning rate falls from its peak: along half a cosine, along a line,
// or not at all.
enum class Schedule { kCosine, kLinear, kConstant };
inline constexpr Schedule kSchedules[] = {Schedule::kCosine, Schedule::kLinear,
                                          Schedule::kConstant};
// As --schedule takes it.
const char* NameOf(Schedule schedule);

struct LearningRates {
  float peak = 0;
  float last = 0;  // At `steps`; kConstant does not use it.
  int64_t warmup = 0;
  int64_t steps = 1;
  Schedule schedule = Schedule::kCosine;

  // Of `step` (1, 2, ...): grows linearly to `peak` over `warmup` steps, then
  // falls to `last`.
  float At(int64_t step) const;
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_MODEL_SCHEDULE_H_
