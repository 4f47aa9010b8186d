// TrainLoop: the steps of a data-parallel training, as one rank executes them.
//
// One step: take this rank's share of the batch from the sampler; compute loss
// and gradients of the mean over the whole batch; sum both over all ranks,
// bucket by bucket, while the backward pass is still running; apply the same
// update to the same weights on every rank. Nothing is updated before the sum
// is complete. So a step that fails on a rank is not done there, and the ranks
// of a world that ends are at most one step apart.
//
// A TrainLoop outlives worlds: Enter moves it to the next one, of any size,
// where all ranks start from the state of one of them.
//
// It knows no agent and prints nothing: training.cc does both.
//
// Thread rule: one thread.
#ifndef ROLLCALL_TRAINER_TRAIN_LOOP_H_
#define ROLLCALL_TRAINER_TRAIN_LOOP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/checkpoint/checkpoint_store.h"
#include "trainer/collective/collective.h"
#include "trainer/data/dataset.h"
#include "trainer/data/sampler.h"
#include "trainer/model/backend.h"
#include "trainer/model/memory_plan.h"
#include "trainer/rank/options.h"
#include "trainer/steps/spike_guard.h"
#include "trainer/steps/step_result.h"
#include "trainer/steps/validation.h"

namespace rollcall {

// The rank whose state all others receive, and the step that it must be at.
struct TrainSource {
  int rank = 0;
  int64_t step = 0;
};

// A state on this rank's disk, used if no rank has one in memory. Its tensors
// have not been verified, because only one rank of the world reads them.
struct StoredState {
  TrainState state;
  // Equal for ranks that see the same files; see FoundCheckpoint.
  uint64_t copy = 0;
  // Reads and verifies its tensors.
  std::function<absl::Status(StateTensors*)> load;
  // Sets the next older state, or nullopt; called if this one was damaged.
  std::function<absl::Status(std::optional<StoredState>*)> find_older;
};

class TrainLoop {
 public:
  using MakeBackend = std::function<absl::StatusOr<std::unique_ptr<Backend>>(
      const GptConfig&, const AdamWConfig&)>;

  // Opens the data; its vocabulary becomes the model's. Errors name what a
  // person must fix.
  static absl::StatusOr<std::unique_ptr<TrainLoop>> Create(
      TrainOptions options, const MakeBackend& make = MakeCpuBackend);

  // Sets a function that Enter calls with the memory that this rank needs in
  // that world, before it allocates that memory.
  void WhenPlanned(std::function<void(const MemoryPlan&)> tell) {
    tell_ = std::move(tell);
  }
  // Sets a function that reads the weights of a training that begins; without
  // it they come from the seed. Only the first rank of a world reads them.
  void BeginsWith(std::function<absl::Status(absl::Span<float>)> read) {
    read_first_ = std::move(read);
  }
  // How many ranks share this machine's memory.
  void set_ranks_here(int ranks) { ranks_here_ = ranks; }

  // Enters a world. Checks that all ranks agree on settings and data. Then
  // takes over the state of `source`; its tensors are sent only if a rank has
  // others. Without a source, the newest state that
  // any rank has `stored`, which one rank reads. If it is damaged, every rank
  // with this copy of it gets its next older state in `stored`. Without any,
  // starts at step 0, with the seed's weights or those of BeginsWith. Finally
  // checks that all ranks have the same state. `collective` must live until the
  // next Enter. Errors: those of the collective. FAILED_PRECONDITION: ranks
  // disagree; the message says on what. If there is a source, or more than half
  // of the ranks agree, only a rank that differs from them gets
  // FAILED_PRECONDITION; all others get UNAVAILABLE, as for a lost peer, and
  // train on in a world without that rank.
  // RESOURCE_EXHAUSTED: memory. After an error, enter another world.
  absl::Status Enter(Collective& collective,
                     const std::optional<TrainSource>& source,
                     std::optional<StoredState>* stored = nullptr);

  // Executes the next step. `stop`: this rank was asked to come to a boundary.
  // With --skip-spikes, a step may change no weights; all ranks agree on it,
  // and the next step takes the next samples. An error leaves the state
  // unchanged. FAILED_PRECONDITION: the loss or a gradient is not finite, or
  // too many steps in a row were skipped; all ranks get it, and the same step
  // would give it again.
  absl::StatusOr<StepResult> Step(bool stop = false);

  // Whether the last step was skipped; and whether the next step ends the run
  // if it would be skipped.
  bool skipping() const { return guard_.state().skipped_in_a_row > 0; }
  bool next_skip_ends() const { return guard_.NextSkipEnds(); }

  // Whether a validation is due after the last step; and the loss on held-out
  // data, which all ranks compute together and which changes no state. Errors:
  // those of Validation. Only if validation() is not null.
  bool ValidationDue() const;
  absl::StatusOr<double> Validate();
  // Null: no --val-data.
  const Validation* validation() const {
    return validation_.has_value() ? &*validation_ : nullptr;
  }

  // The number of steps done, and whether the state is complete. It is not
  // complete while another rank's state was only partly received.
  int64_t steps_done() const { return steps_done_; }
  bool whole() const { return whole_; }

  uint64_t samples() const { return samples_; }
  // A fingerprint of the data.
  uint64_t data() const { return data_; }
  size_t parameters() const { return backend_->layout().size; }
  Backend& backend() { return *backend_; }

  // The training state and a copy of its tensors. Together they are one
  // checkpoint.
  TrainState state() const;
  absl::Status CopyOut(StateTensors* tensors);

 private:
  TrainLoop(const TrainOptions& options, Dataset dataset, uint64_t data,
            std::optional<Validation> validation,
            std::unique_ptr<Backend> backend);

  absl::Status WarmUp();
  absl::Status ReserveMemory();
  // These return a fingerprint of the state that the rank then has; 0 in a
  // world of one.
  absl::StatusOr<uint64_t> Begin();
  absl::StatusOr<uint64_t> TakeOver(const TrainSource& source);
  absl::StatusOr<uint64_t> SendTensors(const TrainSource& source);
  absl::StatusOr<uint64_t> TakeStoredOrBegin(
      std::optional<StoredState>* stored);
  absl::StatusOr<uint64_t> Fingerprint();
  absl::Status Reset();
  absl::StatusOr<std::optional<TrainSource>> FindStored(
      const std::optional<StoredState>& stored);
  absl::StatusOr<bool> Load(const StoredState& stored);
  absl::Status LoadShare();
  void PrefetchShare(const DataPosition& position) const;
  absl::Status Apply(StepResult* result);

  const TrainOptions options_;
  const Dataset dataset_;
  const uint64_t data_;  // Fingerprint of the data.
  const std::optional<Validation> validation_;
  const uint64_t samples_;
  const Sampler sampler_;
  const std::unique_ptr<Backend> backend_;
  Collective* collective_ =
      nullptr;  // Of the current world; destroyed between two.
  int world_size_ = 1;
  int ranks_here_ = 1;
  std::function<void(const MemoryPlan&)> tell_;
  std::function<absl::Status(absl::Span<float>)> read_first_;
  int64_t steps_done_ = 0;
  DataPosition position_;  // Where the next step's batch begins.
  double loss_ = 0;        // Of the last step that was not skipped.
  SpikeGuard guard_;
  bool whole_ = false;
  std::vector<Token> tokens_, targets_;
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_TRAIN_LOOP_H_
