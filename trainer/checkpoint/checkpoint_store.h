// CheckpointStore: the folder that a run's checkpoints lie in.
//
//   step-00000100/          one checkpoint (checkpoint.h)
//   step-00000200.partial/  one that is being written, or was not finished
//   step-00000100.replaced/ one whose step was saved anew, for a moment
//   step-00000200.damaged/  one that did not verify, put aside and kept
//   latest                  the name of the one that was saved last
//   .lock                   held by the process that saves
//
// Invariants, whenever the process or the machine stops: a folder called
// step-NUMBER was complete on the disk before it got that name; there is at all
// times a whole one once there was one; what the store does not know, or cannot
// verify, it never removes.
//
// It does not decide when to save, and keeps nothing of what it has loaded.
//
// Thread rule: one thread at a time. One process at a time saves into a folder;
// any number may read.
#ifndef ROLLCALL_TRAINER_CHECKPOINT_CHECKPOINT_STORE_H_
#define ROLLCALL_TRAINER_CHECKPOINT_CHECKPOINT_STORE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/disk_calls.h"
#include "trainer/checkpoint/train_state.h"

namespace rollcall {

struct SavedCheckpoint {
  std::string path;
  uint64_t bytes = 0;
  // What went wrong once it was safe: `latest` not switched, an old one not
  // removed. For the log; nothing is lost.
  std::vector<std::string> warnings;
};

class CheckpointStore {
 public:
  static constexpr int kKeepLast = 3;

  // Makes `folder`, and what is missing above it. FAILED_PRECONDITION: it is
  // something else; otherwise the system's reason. `keep_last` is at least 1.
  static absl::StatusOr<std::unique_ptr<CheckpointStore>> Open(
      const std::string& folder, int keep_last = kKeepLast,
      DiskCalls calls = DiskCalls::System());
  ~CheckpointStore();
  CheckpointStore(const CheckpointStore&) = delete;
  CheckpointStore& operator=(const CheckpointStore&) = delete;

  // Writes one, and when it is safe removes whole ones beyond `keep_last` and
  // what was left unfinished. A checkpoint of the same step is replaced.
  // After an error all is as it was before, and the message names file, step
  // and the system's reason; safe to retry. RESOURCE_EXHAUSTED: the disk is
  // full. UNAVAILABLE: another process is saving there. INVALID_ARGUMENT:
  // tensors of a size that is not the model's.
  absl::StatusOr<SavedCheckpoint> Save(const TrainState& state,
                                       const StateTensors& tensors);

  // The one of the highest step that verifies; none: there is none. Adds a line
  // to `skipped` for each newer one that does not: its file, the field, what
  // was expected and what was found. FAILED_PRECONDITION: the newest that
  // verifies is of another model than `expected`, and in which field.
  absl::StatusOr<std::optional<FoundCheckpoint>> Newest(
      const GptConfig& expected, std::vector<std::string>* skipped) const;

  // Of the folders that have a whole one's name; 0: there is none. It is not
  // verified.
  int64_t HighestStep() const;

  const std::string& folder() const { return folder_; }

 private:
  CheckpointStore(std::string folder, int keep_last, DiskCalls calls, int lock);

  std::string Path(const std::string& name) const {
    return folder_ + "/" + name;
  }
  absl::StatusOr<Manifest> Write(const std::string& partial,
                                 const TrainState& state,
                                 const StateTensors& tensors) const;
  // Makes room under `name`: where what was there lies now, or none.
  absl::StatusOr<std::string> SetAside(const std::string& name) const;
  absl::Status PutInPlace(const std::string& partial,
                          const std::string& name) const;
  absl::Status SwitchLatest(const std::string& name) const;
  // What was left unfinished, and whole ones beyond keep_last_, but not
  // `saved`.
  void Sweep(const std::string& saved,
             std::vector<std::string>* warnings) const;
  // Whether it is a checkpoint by its looks, with nothing else in its folder.
  bool LooksWhole(const std::string& name) const;
  absl::Status RemoveWhole(const std::string& name, int64_t step) const;
  absl::Status RemovePartial(const std::string& path) const;

  const std::string folder_;
  const int keep_last_;
  const DiskCalls calls_;
  const int lock_;  // A descriptor; below 0: it could not be had.
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECKPOINT_CHECKPOINT_STORE_H_
