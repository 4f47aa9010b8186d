// TrainState: the state of a training run without its tensors; the contents of
// a checkpoint's trainer_state.json.
//
// Pure: text in, text out. Numbers read back with the same bits.
#ifndef ROLLCALL_TRAINER_CHECKPOINT_TRAIN_STATE_H_
#define ROLLCALL_TRAINER_CHECKPOINT_TRAIN_STATE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trainer/data/sampler.h"
#include "trainer/model/adamw.h"
#include "trainer/model/parameters.h"
#include "trainer/model/schedule.h"

namespace rollcall {

// How the learning rate falls; see LearningRates.
struct RateFall {
  float last = 0;
  Schedule schedule = Schedule::kCosine;
};

struct TrainState {
  int64_t step = 0;  // Steps done.
  double loss = 0;   // The loss of the last step that was not skipped.
  DataPosition position;
  AdamWPowers powers;

  // The run's options. A resumed run may change them, except for the model, the
  // seed and, without --new-data, the data.
  GptConfig model;
  AdamWConfig optimizer;
  uint64_t seed = 0;
  int64_t batch = 1;
  float learning_rate = 0;
  // nullopt: unknown, because version 1 does not have it.
  std::optional<RateFall> fall;
  int64_t warmup = 0;
  int64_t steps = 1;  // Total.
  uint64_t data_fingerprint = 0;

  // The world that saved it. This is only information.
  int64_t world_size = 1;
  std::string backend;  // The value of Backend::name().

  static constexpr int kVersion = 2;
  static constexpr size_t kTextBytesMax = 64 << 10;
};

// Writes version 1 if `fall` is unknown.
std::string FormatTrainState(const TrainState& state);

// FAILED_PRECONDITION: a newer version wrote it; the message names the version.
// DATA_LOSS: it is not a training state, or it is damaged; the message has the
// field, what was expected and what was found.
absl::StatusOr<TrainState> ParseTrainState(absl::string_view text);

// FAILED_PRECONDITION: the models differ; the message names the first field
// that differs.
absl::Status SameModel(const GptConfig& expected, const GptConfig& found);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECKPOINT_TRAIN_STATE_H_
