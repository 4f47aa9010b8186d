// CheckpointStore: the folder that holds a run's checkpoints.
//
//   step-00000100/          one checkpoint (checkpoint.h)
//   step-00000200.partial/  being written, or unfinished
//   step-00000100.replaced/ the old one while its step is saved again
//   step-00000200.damaged/  did not verify; set aside and kept
//   latest                  the name of the checkpoint that was saved last
//   .lock                   held by the process that saves
//
// Invariants, whenever the process or the machine stops: a folder named
// step-NUMBER was complete on the disk before it got that name. Once the store
// has a whole checkpoint, it always has one. The store never removes an entry
// that it does not know or cannot verify.
//
// It does not decide when to save, and does not keep what it has loaded.
//
// Thread rule: one thread at a time. One process at a time saves into a
// folder; any number may read.
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
#include "trainer/checkpoint/files/disk_calls.h"
#include "trainer/checkpoint/train_state.h"

namespace rollcall {

struct SavedCheckpoint {
  std::string path;
  uint64_t bytes = 0;
  // Failures after the checkpoint was safe: `latest` could not be switched, or
  // an old checkpoint could not be removed. They are for the log; nothing is
  // lost.
  std::vector<std::string> warnings;
};

class CheckpointStore {
 public:
  static constexpr int kKeepLast = 3;

  // Creates `folder` and its missing parents. FAILED_PRECONDITION: the path is
  // not a folder. Other errors have the system's reason. `keep_last` is at
  // least 1.
  static absl::StatusOr<std::unique_ptr<CheckpointStore>> Open(
      const std::string& folder, int keep_last = kKeepLast,
      DiskCalls calls = DiskCalls::System());
  ~CheckpointStore();
  CheckpointStore(const CheckpointStore&) = delete;
  CheckpointStore& operator=(const CheckpointStore&) = delete;

  // Writes a checkpoint, and replaces one of the same step. Once the checkpoint
  // is safe, removes partial ones and all whole ones except the newest
  // `keep_last`. After an error everything is as before, and the message has
  // the file, the step and the system's reason; safe to retry.
  // RESOURCE_EXHAUSTED: the disk is full. UNAVAILABLE: another process is
  // saving in this folder. INVALID_ARGUMENT: the size of `tensors` is not the
  // model's.
  absl::StatusOr<SavedCheckpoint> Save(const TrainState& state,
                                       const StateTensors& tensors);

  // The checkpoint of the highest step that FindCheckpoint finds intact;
  // nullopt: there is none. With `older_than`, which had damaged tensors, the
  // next older one. For each newer checkpoint that is damaged, adds a line to
  // `skipped`: file, field, what was expected and what was found.
  // FAILED_PRECONDITION: the checkpoint has another model than `expected`; the
  // message names the field.
  absl::StatusOr<std::optional<FoundCheckpoint>> Newest(
      const GptConfig& expected, std::vector<std::string>* skipped,
      const FoundCheckpoint* older_than = nullptr) const;

  // The highest step of all folders with a whole checkpoint's name; 0: there is
  // none. The folders are not verified.
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
  // Moves an existing entry `name` away. Returns its new path, or "" if there
  // was none.
  absl::StatusOr<std::string> SetAside(const std::string& name) const;
  absl::Status PutInPlace(const std::string& partial,
                          const std::string& name) const;
  absl::Status SwitchLatest(const std::string& name) const;
  // Removes partial checkpoints, and whole ones beyond keep_last_, but not
  // `saved`.
  void Sweep(const std::string& saved,
             std::vector<std::string>* warnings) const;
  // Whether the folder looks like a complete checkpoint and has no other files.
  bool LooksWhole(const std::string& name) const;
  absl::Status RemoveWhole(const std::string& name, int64_t step) const;
  absl::Status RemovePartial(const std::string& path) const;

  const std::string folder_;
  const int keep_last_;
  const DiskCalls calls_;
  const int lock_;  // A file descriptor; negative: the lock file could not be
                    // opened.
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECKPOINT_CHECKPOINT_STORE_H_
