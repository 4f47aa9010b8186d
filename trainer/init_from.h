// --init-from: a training that begins with the weights of a given model.
//
// Thread rule: the main thread.
#ifndef ROLLCALL_TRAINER_INIT_FROM_H_
#define ROLLCALL_TRAINER_INIT_FROM_H_

#include <cstdint>

#include "absl/status/status.h"
#include "trainer/rank/options.h"
#include "trainer/train_loop.h"

namespace rollcall {

// Sets what `loop` begins with. Does nothing without --init-from.
// INVALID_ARGUMENT: the model's vocabulary is not that of the data.
absl::Status BeginWithGiven(const TrainOptions& options, TrainLoop& loop);

// Reports whether the given weights were used, in a world that took its state
// from no rank's memory and is now after step `step`.
void TellOfGiven(const TrainOptions& options, int64_t step);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_INIT_FROM_H_
