// Checkpointing: which checkpoint a run begins from, and when it writes one.
//
// A save that is due while training copies the state and goes on behind it; one
// at a boundary is on the disk before the rank says that it stands there. A
// save that fails is told on stderr and costs nothing but that save: what was
// safe stays so, and the next one is tried.
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
#include "trainer/options.h"
#include "trainer/train_loop.h"

namespace rollcall {

class Checkpointing {
 public:
  // Opens the folder; `options.checkpoints` is not empty. Errors: see
  // CheckpointStore::Open.
  static absl::StatusOr<std::unique_ptr<Checkpointing>> Open(
      const TrainOptions& options);

  // The newest checkpoint that verifies, as an offer to TrainLoop::Enter; none:
  // there is none. Says which ones were skipped, and why. FAILED_PRECONDITION:
  // it is of another model, seed or version.
  absl::StatusOr<std::optional<StoredState>> Newest(const GptConfig& model);

  // Whether this process may write there: otherwise why not.
  absl::Status Writable() const;

  // The run goes on after `step` in another world; `stored`: as it lies here.
  void GoesOnAfter(int64_t step, bool stored);

  // After a step of the loop: begins a save where one is due. Returns how long
  // the caller was held up by it.
  absl::Duration AfterStep(TrainLoop& loop);

  // Saves the loop's step unless that was done, and waits until it is on the
  // disk or `deadline` has passed.
  absl::Status SaveNow(TrainLoop& loop, absl::Time deadline);

  // The same, unless the folder holds this step or a later one already: several
  // ranks may hold the same state, and one that is kept is enough.
  absl::Status SaveUnlessKept(TrainLoop& loop, absl::Time deadline);

  // Waits for the save that goes on.
  absl::Status Finish();

 private:
  Checkpointing(const TrainOptions& options,
                std::unique_ptr<CheckpointStore> store);

  absl::Status Begin(TrainLoop& loop);
  absl::Status SaveUnless(TrainLoop& loop, absl::Time deadline,
                          const std::function<bool()>& kept);
  // Says what became of the save of `step`.
  absl::Status Tell(const CheckpointSaver::Outcome& outcome, int64_t step);

  const TrainOptions& options_;
  const std::unique_ptr<CheckpointStore> store_;
  CheckpointSaver saver_;
  int64_t begun_ = -1;  // The step whose save was begun last.
  int64_t saved_ = -1;  // The last one that is on the disk.
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECKPOINTING_H_
