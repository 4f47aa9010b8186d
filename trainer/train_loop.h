// TrainLoop: the steps of a data-parallel training, as one rank takes them.
//
// A step: this rank's share of the batch from the sampler, loss and gradients
// of the mean over the whole batch, the sum of both over all ranks, bucket by
// bucket while the way back goes on, and the same update of the same weights
// everywhere. Nothing is updated before the sum is whole, so a step that fails
// is not done here, and ranks of a world that ends are at most one step apart.
//
// It outlives worlds: Enter takes it into the next one, of any size, where all
// ranks begin with the state of one of them.
//
// It knows no agent and prints nothing: main.cc does both.
//
// Thread rule: one thread.
#ifndef ROLLCALL_TRAINER_TRAIN_LOOP_H_
#define ROLLCALL_TRAINER_TRAIN_LOOP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/checkpoint/checkpoint_store.h"
#include "trainer/collective/collective.h"
#include "trainer/data/dataset.h"
#include "trainer/data/sampler.h"
#include "trainer/model/backend.h"
#include "trainer/options.h"
#include "trainer/step_result.h"

namespace rollcall {

// Whose state all ranks take over: which it must be of, too.
struct TrainSource {
  int rank = 0;
  int64_t step = 0;
};

// A state on this rank's disk, for when no rank has one in memory.
struct StoredState {
  TrainState state;
  // Reads its tensors.
  std::function<absl::Status(StateTensors*)> load;
};

class TrainLoop {
 public:
  using MakeBackend = std::function<absl::StatusOr<std::unique_ptr<Backend>>(
      const GptConfig&, const AdamWConfig&)>;

  // Opens the data, whose vocabulary is the model's. Errors name what a person
  // must fix.
  static absl::StatusOr<std::unique_ptr<TrainLoop>> Create(
      TrainOptions options, const MakeBackend& make = MakeCpuBackend);

  // Enters a world: sees that all ranks agree on settings and data, takes over
  // the state of `source`; without one, the newest that any rank has `stored`;
  // without that, begins at step 0; and sees that all have the same.
  // `collective` must live until the next Enter. Errors: the collective's;
  // FAILED_PRECONDITION: ranks disagree, and on what; where there is a source,
  // only a rank that differs from it gets that, and to all others, which train
  // on in a world without it, it is a peer that goes: UNAVAILABLE.
  // RESOURCE_EXHAUSTED: memory; DATA_LOSS: what is stored cannot be read. After
  // an error, enter another world.
  absl::Status Enter(Collective& collective,
                     const std::optional<TrainSource>& source,
                     const std::optional<StoredState>& stored = std::nullopt);

  // Takes the next step. `stop`: this rank was told to come to a boundary. An
  // error leaves the state as it was.
  absl::StatusOr<StepResult> Step(bool stop = false);

  // Done so far, and whether the state is wholly that of this step: not while
  // another rank's was half taken over.
  int64_t steps_done() const { return steps_done_; }
  bool whole() const { return whole_; }

  uint64_t samples() const { return samples_; }
  size_t parameters() const { return backend_->layout().size; }
  Backend& backend() { return *backend_; }

  // Where it stands, and a copy of its tensors: what makes up a checkpoint.
  TrainState state() const;
  absl::Status CopyOut(StateTensors* tensors);

 private:
  // Something that must be equal on all ranks.
  struct Fingerprint {
    const char* otherwise;  // What is said if it is not.
    uint64_t value;
  };

  TrainLoop(const TrainOptions& options, Dataset dataset, uint64_t data,
            std::unique_ptr<Backend> backend);

  absl::Status Reset();
  absl::Status TakeOver(const TrainSource& source);
  absl::StatusOr<std::optional<TrainSource>> FindStored(
      const std::optional<StoredState>& stored);
  absl::Status Load(const StoredState& stored);
  absl::Status Agree(const std::vector<Fingerprint>& fingerprints,
                     const std::optional<TrainSource>& source);
  absl::StatusOr<uint64_t> WeightsFingerprint();
  absl::Status LoadShare();

  const TrainOptions options_;
  const Dataset dataset_;
  const uint64_t data_;  // Its fingerprint.
  const uint64_t samples_;
  const Sampler sampler_;
  const std::unique_ptr<Backend> backend_;
  Collective* collective_ =
      nullptr;  // Of the world it is in; gone between two.
  int world_size_ = 1;
  int64_t steps_done_ = 0;
  DataPosition position_;  // Where the next step's batch begins.
  double loss_ = 0;        // Of the last step.
  bool whole_ = false;
  std::vector<Token> tokens_, targets_;
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_TRAIN_LOOP_H_
