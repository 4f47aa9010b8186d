// StepResult: what a step has come to.
#ifndef ROLLCALL_TRAINER_STEP_RESULT_H_
#define ROLLCALL_TRAINER_STEP_RESULT_H_

#include <cstdint>

namespace rollcall {

struct StepResult {
  int64_t step = 0;
  double loss = 0;  // Mean over the whole batch, before the step's update.
  float learning_rate = 0;
  // Some rank was told to stop at a step's end: all do, after this one.
  bool boundary = false;
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_STEP_RESULT_H_
