// Checkpointing: which checkpoint a run starts from, and when it writes one.
//
// A periodic save copies the state, and training continues while the copy is
// written. A save at a boundary is on the disk before the rank reports that it
// has stopped there. A failed save is reported on stderr. It loses only that
// save: older checkpoints stay, and the next save is tried as usual.
//
// Thread rule: one thread.
#ifndef ROLLCALL_TRAINER_CHECKPOINTING_H_
#define ROLLCALL_TRAINER_CHECKPOINTING_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "trainer/checkpoint/checkpoint_saver.h"
#include "trainer/checkpoint/checkpoint_store.h"
#include "trainer/rank/options.h"
#include "trainer/train_loop.h"

namespace rollcall {

// The flags of a run that differ from those with which the state that it
// resumes from was trained: "--lr 0.003 before, 0.001 now; --steps ..."; empty:
// none. A default that follows from another flag is not a change of its own. A
// checkpoint of version 1 does not tell whether --min-lr and --schedule differ.
std::string ChangedOptions(const TrainState& before,
                           const TrainOptions& options);

class Checkpointing {
 public:
  // Opens the folder; `options.checkpoints` is not empty. Errors: see
  // CheckpointStore::Open.
  static absl::StatusOr<std::unique_ptr<Checkpointing>> Open(
      const TrainOptions& options);

  // Returns the newest checkpoint that looks intact, for TrainLoop::Enter, or
  // nullopt if there is none; its tensors are verified when they are read.
  // Reports the checkpoints that it skipped, and why. This object must outlive
  // the state.
  // `data`: the fingerprint of the run's data. FAILED_PRECONDITION: the
  // checkpoint is of another model or seed, or of other data without
  // --new-data.
  absl::StatusOr<std::optional<StoredState>> Newest(const GptConfig& model,
                                                    uint64_t data);

  // OK if this process may write to the folder; otherwise the reason.
  absl::Status Writable() const;

  // Calls `told` with the step of each checkpoint that is complete from now on.
  void WhenSaved(std::function<void(int64_t step)> told) {
    when_saved_ = std::move(told);
  }

  // The run continues after `step` in another world. `stored`: the state was
  // read from this folder.
  void GoesOnAfter(int64_t step, bool stored);

  // To be called after each step of the loop. Begins a save when one is due.
  // Returns for how long it blocked the caller.
  absl::Duration AfterStep(TrainLoop& loop);

  // Saves the loop's current step unless it is saved already, and waits until
  // it is on the disk. If another process saves into the folder, tries again
  // until `deadline`.
  absl::Status SaveNow(TrainLoop& loop, absl::Time deadline);

  // The same, but saves nothing if the folder already holds this step or a
  // later one: several ranks may hold the same state, and one saved copy is
  // enough.
  absl::Status SaveUnlessStored(TrainLoop& loop, absl::Time deadline);

  // Waits for the save in progress.
  absl::Status Finish();

 private:
  Checkpointing(const TrainOptions& options,
                std::unique_ptr<CheckpointStore> store);

  absl::StatusOr<std::optional<StoredState>> NewestBefore(
      const FoundCheckpoint* older_than, const GptConfig& model, uint64_t data);
  absl::Status Begin(TrainLoop& loop);
  absl::Status SaveUnless(TrainLoop& loop, absl::Time deadline,
                          const std::function<bool()>& kept);
  // Reports the result of the save of `step`.
  absl::Status Tell(const CheckpointSaver::Outcome& outcome, int64_t step);

  const TrainOptions& options_;
  const std::unique_ptr<CheckpointStore> store_;
  CheckpointSaver saver_;
  std::function<void(int64_t step)> when_saved_;
  int64_t begun_ = -1;  // The step of the latest save that was begun.
  int64_t saved_ = -1;  // The latest step that is on the disk.
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECKPOINTING_H_
