// --sample: text that a trained model generates, printed to stdout.
//
// It runs alone, on the CPU, and only for models whose tokens are bytes.
//
// Thread rule: the main thread.
#ifndef ROLLCALL_TRAINER_SAMPLE_H_
#define ROLLCALL_TRAINER_SAMPLE_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "trainer/model/parameters.h"
#include "trainer/model/random.h"
#include "trainer/rank/options.h"

namespace rollcall {

// Draws a token with probabilities of softmax(logits / temperature); with 0 it
// takes the most probable one.
Token DrawToken(absl::Span<const float> logits, double temperature,
                Random& random);

// Loads the model of --init-from, or the newest checkpoint of --checkpoints,
// and prints --sample followed by what the model generates. Errors name what a
// person must fix.
absl::Status Sample(const TrainOptions& options);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_SAMPLE_H_
