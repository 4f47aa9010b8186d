// CheckpointSaver: saves checkpoints on a thread of its own, so that a step
// waits for a copy of the state and for nothing else.
//
// One save at a time, in the order of their beginning, and none is dropped: who
// begins one while another goes on waits for that.
//
// Its thread asks the system for the lowest priority in reading and writing.
//
// Thread rule: Begin, Ended and Wait from one thread.
#ifndef ROLLCALL_TRAINER_CHECKPOINT_CHECKPOINT_SAVER_H_
#define ROLLCALL_TRAINER_CHECKPOINT_CHECKPOINT_SAVER_H_

#include <functional>
#include <optional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/server/mutex.h"
#include "trainer/checkpoint/checkpoint_store.h"

namespace rollcall {

class CheckpointSaver {
 public:
  // What a save has come to.
  using Outcome = absl::StatusOr<SavedCheckpoint>;

  struct Begun {
    absl::Duration waited;  // For the save before this one.
    absl::Duration copied;  // The snapshot's time.
    // Of the save before this one, if nobody was told yet.
    std::optional<Outcome> before;
  };

  // `store` must outlive it, and is its alone.
  explicit CheckpointSaver(CheckpointStore& store);
  // Waits for the save that goes on.
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  // Calls `fill` here and now with room that keeps its memory from save to
  // save, and saves what it left there in the background. An error is `fill`'s,
  // and nothing is saved.
  absl::StatusOr<Begun> Begin(
      const TrainState& state,
      const std::function<absl::Status(StateTensors&)>& fill);

  // What the last save has come to, told once; none: it goes on, was told, or
  // there was none. Does not wait.
  std::optional<Outcome> Ended();

  // The same, once no save goes on.
  std::optional<Outcome> Wait();

 private:
  void Run();
  void AwaitIdle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  CheckpointStore& store_;
  // Between Begin and the end of the save the thread's, then the caller's.
  TrainState state_;
  StateTensors room_;

  Mutex mutex_;
  CondVar changed_;
  bool saving_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<Outcome> outcome_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // Last: it uses all of the above.
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECKPOINT_CHECKPOINT_SAVER_H_
