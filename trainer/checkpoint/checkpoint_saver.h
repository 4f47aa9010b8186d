// CheckpointSaver: saves checkpoints on its own thread, so that a training step
// waits only for a copy of the state.
//
// One save runs at a time. Saves run in the order in which they were begun, and
// none is dropped: Begin waits for the save in progress.
//
// The thread asks the system for the lowest I/O priority.
//
// Thread rule: call Begin, Ended and Wait from one thread.
#ifndef ROLLCALL_TRAINER_CHECKPOINT_CHECKPOINT_SAVER_H_
#define ROLLCALL_TRAINER_CHECKPOINT_CHECKPOINT_SAVER_H_

#include <functional>
#include <optional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/mutex.h"
#include "trainer/checkpoint/checkpoint_store.h"

namespace rollcall {

class CheckpointSaver {
 public:
  // The result of a save.
  using Outcome = absl::StatusOr<SavedCheckpoint>;

  struct Begun {
    absl::Duration waited;  // The time of waiting for the previous save.
    absl::Duration copied;  // The snapshot's time.
    // The result of the previous save, if it was not returned yet.
    std::optional<Outcome> before;
  };

  // `store` must outlive this object. Nothing else may use it during a save.
  explicit CheckpointSaver(CheckpointStore& store);
  // Waits for the save in progress.
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  // Calls `fill` on this thread, with buffers that all saves share, and then
  // saves their contents in the background. If `fill` fails, its error is
  // returned and nothing is saved.
  absl::StatusOr<Begun> Begin(
      const TrainState& state,
      const std::function<absl::Status(StateTensors&)>& fill);

  // The result of the last save, returned once. nullopt: the save is still
  // running, its result was returned, or there was no save. Does not wait.
  std::optional<Outcome> Ended();

  // Waits for the save in progress, and returns the result as Ended does.
  std::optional<Outcome> Wait();

 private:
  void Run();
  void AwaitIdle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  CheckpointStore& store_;
  // While `saving_` is true, only the saver's thread uses these two; otherwise
  // only the thread that calls Begin.
  TrainState state_;
  StateTensors room_;

  Mutex mutex_;
  CondVar changed_;
  bool saving_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<Outcome> outcome_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // Declared last: it uses all members above.
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECKPOINT_CHECKPOINT_SAVER_H_
