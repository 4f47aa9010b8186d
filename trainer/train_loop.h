// TrainLoop: the steps of a data-parallel training, as one rank takes them.
//
// A step: this rank's share of the batch from the sampler, loss and gradients
// of the mean over the whole batch, the sum of both over all ranks by one
// all-reduce, and the same update of the same weights everywhere. A step is
// done by all ranks or by none.
//
// It knows no agent and prints nothing: main.cc does both.
//
// Thread rule: one thread.
#ifndef ROLLCALL_TRAINER_TRAIN_LOOP_H_
#define ROLLCALL_TRAINER_TRAIN_LOOP_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/collective/collective.h"
#include "trainer/data/corpus.h"
#include "trainer/data/sampler.h"
#include "trainer/model/adamw.h"
#include "trainer/model/gpt.h"
#include "trainer/options.h"

namespace rollcall {

struct StepResult {
  int64_t step = 0;
  double loss = 0;  // Mean over the whole batch, before the step's update.
  float learning_rate = 0;
};

class TrainLoop {
 public:
  // Opens the data, makes the first weights and sees that all ranks agree on
  // settings, data and weights. `collective` must outlive the loop. Errors name
  // what a person must fix.
  static absl::StatusOr<std::unique_ptr<TrainLoop>> Create(
      const TrainOptions& options, Collective& collective);

  // Takes the next step. An error leaves the weights as they were.
  absl::StatusOr<StepResult> Step();

  uint64_t samples() const { return samples_; }
  size_t parameters() const { return model_.layout().size; }
  absl::Span<const float> weights() { return model_.weights(); }

 private:
  TrainLoop(const TrainOptions& options, Collective& collective, Corpus corpus);

  absl::Status AgreeOnStart();
  absl::Status LoadShare(int64_t step);

  const TrainOptions options_;
  Collective& collective_;
  const Corpus corpus_;
  const uint64_t samples_;
  const Sampler sampler_;
  Gpt<float> model_;
  AdamW optimizer_;
  int64_t steps_done_ = 0;
  std::vector<uint8_t> tokens_, targets_;
  // The gradients, and after them the loss: one all-reduce takes both.
  std::vector<float> reduced_;
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_TRAIN_LOOP_H_
