// A checkpoint: one folder with these files:
//
//   model.safetensors      weights: Hugging Face's names and shapes of GPT-2
//   config.json            what transformers needs to load the weights
//   optimizer.safetensors  moments: `exp_avg.NAME` and `exp_avg_sq.NAME`
//   trainer_state.json     TrainState
//   manifest.json          size and SHA-256 of each of these; written last
//
// CheckpointStore creates, replaces and removes the folders.
//
// Thread rule: any thread.
#ifndef ROLLCALL_TRAINER_CHECKPOINT_CHECKPOINT_H_
#define ROLLCALL_TRAINER_CHECKPOINT_CHECKPOINT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/checkpoint/files/disk_calls.h"
#include "trainer/checkpoint/files/manifest.h"
#include "trainer/checkpoint/train_state.h"

namespace rollcall {

inline constexpr char kManifestFile[] = "manifest.json";
// The other files; a manifest must list all of them.
inline constexpr const char* kCheckpointFiles[] = {
    "model.safetensors", "config.json", "optimizer.safetensors",
    "trainer_state.json"};

// The model's tensors in host memory. Each vector has GptLayout::size floats in
// the layout's order. Movable only: a copy would not be pinned.
struct StateTensors {
  // What keeps the vectors' memory pinned; see Backend::Pin. Declared first, so
  // that a move assignment drops it before the memory.
  std::vector<std::shared_ptr<void>> pins;
  std::vector<float> weights;
  std::vector<float> first, second;  // The optimizer's moments.

  StateTensors() = default;
  StateTensors(StateTensors&&) = default;
  StateTensors& operator=(StateTensors&&) = default;
  ~StateTensors() { pins.clear(); }

  // Unpins, and makes all vectors zeros of this size. RESOURCE_EXHAUSTED: not
  // enough memory. After an error the contents are unchanged.
  absl::Status Resize(size_t parameters);
};

// A checkpoint whose files had the sizes of its manifest. All hashes were
// verified, except those of the two tensor files: LoadCheckpoint does that.
struct FoundCheckpoint {
  std::string path;  // The folder.
  TrainState state;
  Manifest manifest;
  // From the tensor files' inodes, sizes and times. So processes that see the
  // same files find the same number, and for copies on other disks it differs.
  uint64_t copy = 0;
};

// Writes all files into `folder`, which must exist and be empty. When it
// returns, the files are safe on the disk. INVALID_ARGUMENT: `state` could not
// be read back, or the size of `tensors` is not the model's. Other errors have
// the file and the system's reason.
absl::StatusOr<Manifest> WriteCheckpoint(const DiskCalls& calls,
                                         const std::string& folder,
                                         const TrainState& state,
                                         const StateTensors& tensors);

// Reads manifest.json only.
absl::StatusOr<Manifest> ReadManifest(const std::string& folder);

// Reads no tensors, so that each of many ranks can afford it. NOT_FOUND: there
// is no checkpoint. DATA_LOSS: it does not verify; the message has the file,
// the field, what was expected and what was found. FAILED_PRECONDITION: a newer
// rollcall wrote it.
absl::StatusOr<FoundCheckpoint> FindCheckpoint(const std::string& folder);

// The same, and also reads and verifies the tensors.
absl::StatusOr<FoundCheckpoint> VerifyCheckpoint(const std::string& folder);

// VerifyCheckpoint with `expected` verifies as above. Both functions return
// FAILED_PRECONDITION if the checkpoint's model differs from `expected`; the
// message names the field.
absl::StatusOr<FoundCheckpoint> VerifyCheckpoint(const std::string& folder,
                                                 const GptConfig& expected);
absl::Status CheckModel(const FoundCheckpoint& found,
                        const GptConfig& expected);

// Reads the tensors, and verifies that they match the manifest. After an
// error the contents of `tensors` are undefined. RESOURCE_EXHAUSTED: not enough
// memory.
absl::Status LoadCheckpoint(const FoundCheckpoint& found,
                            StateTensors* tensors);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECKPOINT_CHECKPOINT_H_
