// A checkpoint: one folder, its files and what they must be.
//
//   model.safetensors      weights: Hugging Face's names and shapes of GPT-2
//   config.json            and what transformers must know to load them
//   optimizer.safetensors  moments: `exp_avg.NAME` and `exp_avg_sq.NAME`
//   trainer_state.json     TrainState
//   manifest.json          size and SHA-256 of each of these; written last
//
// Where folders lie and how they come and go is CheckpointStore's.
//
// Thread rule: any thread.
#ifndef ROLLCALL_TRAINER_CHECKPOINT_CHECKPOINT_H_
#define ROLLCALL_TRAINER_CHECKPOINT_CHECKPOINT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/checkpoint/disk_calls.h"
#include "trainer/checkpoint/manifest.h"
#include "trainer/checkpoint/train_state.h"

namespace rollcall {

inline constexpr char kManifestFile[] = "manifest.json";
// All others, which a manifest must have.
inline constexpr const char* kCheckpointFiles[] = {
    "model.safetensors", "config.json", "optimizer.safetensors",
    "trainer_state.json"};

// On the host, each of GptLayout::size floats in the layout's order.
struct StateTensors {
  std::vector<float> weights;
  std::vector<float> first, second;  // The optimizer's moments.

  // RESOURCE_EXHAUSTED: memory. What they have already stays.
  absl::Status Resize(size_t parameters);
};

// One that verified: every file had the size and hash that its manifest says.
struct FoundCheckpoint {
  std::string path;  // Its folder.
  TrainState state;
  Manifest manifest;
};

// Writes all files into `folder`, which is there and empty; on the disk when it
// returns. INVALID_ARGUMENT: a state that cannot be read back, or tensors of a
// size that is not the model's; otherwise the file and the system's reason.
absl::StatusOr<Manifest> WriteCheckpoint(const DiskCalls& calls,
                                         const std::string& folder,
                                         const TrainState& state,
                                         const StateTensors& tensors);

// Its manifest.json alone.
absl::StatusOr<Manifest> ReadManifest(const std::string& folder);

// NOT_FOUND: there is none. DATA_LOSS: it does not verify: file, field,
// expected, found. FAILED_PRECONDITION: written by a newer rollcall.
absl::StatusOr<FoundCheckpoint> VerifyCheckpoint(const std::string& folder);

// The same, and FAILED_PRECONDITION: it is of another model than `expected`,
// and in which field.
absl::StatusOr<FoundCheckpoint> VerifyCheckpoint(const std::string& folder,
                                                 const GptConfig& expected);
absl::Status CheckModel(const FoundCheckpoint& found,
                        const GptConfig& expected);

// Reads the tensors and sees once more that they are what the manifest says.
// After an error `tensors` hold nothing of use. RESOURCE_EXHAUSTED: memory.
absl::Status LoadCheckpoint(const FoundCheckpoint& found,
                            StateTensors* tensors);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECKPOINT_CHECKPOINT_H_
