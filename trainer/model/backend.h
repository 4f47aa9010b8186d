// Backend: one rank's model and optimizer on its device. It has the initial
// weights, the forward and backward pass, and the update.
//
// Gradients are one flat array in the layout's order, followed by kExtras
// values that are summed along with them. The array is cut into buckets:
// contiguous pieces that the backward pass finishes one after the other, so
// that a collective can reduce one bucket while the next one is computed.
//
// The spans of floats that a backend returns are in its own memory: host memory
// for the CPU, device memory for CUDA. A Collective of the same kind accepts
// them. Every value depends only on the inputs and rounds the same way on every
// machine of its kind, so that ranks keep equal weights.
//
// It draws no samples and talks to no peer: TrainLoop does.
//
// Thread rule: one thread.
#ifndef ROLLCALL_TRAINER_MODEL_BACKEND_H_
#define ROLLCALL_TRAINER_MODEL_BACKEND_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "trainer/model/adamw.h"
#include "trainer/model/buckets.h"
#include "trainer/model/parameters.h"

namespace rollcall {

// Stored after the gradients: this rank's part of the loss; and 1 if this rank
// was asked to stop, otherwise 0.
inline constexpr size_t kExtras = 2;
struct Extras {
  float loss = 0;
  float stops = 0;
};

// The parts of a training state, each of layout().size floats.
enum class StatePart { kWeights, kFirstMoment, kSecondMoment };
inline constexpr StatePart kStateParts[] = {
    StatePart::kWeights, StatePart::kFirstMoment, StatePart::kSecondMoment};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual absl::string_view name() const = 0;  // "cpu" or "cuda".
  virtual const GptConfig& config() const = 0;
  virtual const GptLayout& layout() const = 0;

  // --- Memory, in bytes -----------------------------------------------------
  // The memory of weights, moments and gradients; and of the activations of a
  // micro-batch with this many sequences.
  virtual double StateBytes() const = 0;
  virtual double ActivationBytes(int sequences) const = 0;
  // How much memory activations may use: the free memory and what they use now.
  // `ranks_here` ranks share this machine's memory; a GPU is used by one rank.
  virtual absl::StatusOr<double> RoomForActivations(int ranks_here) = 0;

  // Whether the first sum over ranks takes some of this memory, as NCCL's
  // buffers on a GPU do.
  virtual bool FirstSumTakesMemory() const = 0;

  // The most memory that this backend has used so far: on the CPU the most that
  // the whole process has had in memory, on a GPU what the backend itself has
  // allocated there.
  virtual double PeakBytes() const = 0;

  // Allocates the activations of micro-batches that are computed at a time:
  // `sequences` sequences of `context` tokens (on the CPU rounded up to whole
  // units, see gpt.h). The functions below take any number of sequences.
  // Weights and moments stay as they are. RESOURCE_EXHAUSTED: the message says
  // how much is needed, how much there is, and which flag to lower. Call it
  // again before the next step.
  virtual absl::Status Reserve(int sequences) = 0;

  // Restores the state before step 1: initial weights from the seed, moments 0.
  virtual absl::Status Reset(uint64_t seed) = 0;

  // --- A step -------------------------------------------------------------
  // The buckets in the order in which they are finished. Together they cover
  // gradients(). The first one contains the extras.
  virtual absl::Span<const Bucket> buckets() const = 0;
  // layout().size + kExtras values.
  virtual absl::Span<float> gradients() = 0;

  // Stores d(scale * summed loss)/d(weights) in gradients(), followed by the
  // loss times `scale` and by `stop`. `tokens` and `targets` hold whole
  // sequences of `context`; if they are empty, the gradients are zeros. Every
  // token is below config().vocabulary. Computes one micro-batch after the
  // other. On the CPU the result has the same bits for any size of micro-batch;
  // on a GPU the micro-batches add up in fp32. Calls `finished` with each
  // bucket, in order, as soon as it is complete, which is during the last
  // micro-batch (on a device: as soon as the work that fills it is in its
  // stream). An error of `finished` ends the call.
  using Finished = std::function<absl::Status(const Bucket&)>;
  virtual absl::Status LossAndGradients(absl::Span<const Token> tokens,
                                        absl::Span<const Token> targets,
                                        float scale, bool stop,
                                        const Finished& finished) = 0;
  // The values that are now stored after the gradients.
  virtual absl::StatusOr<Extras> ReadExtras() = 0;

  // Applies one update with gradients(). Returns their norm before clipping. If
  // the norm is not finite, or is above `norm_max`, nothing changes.
  virtual absl::StatusOr<double> Update(float learning_rate,
                                        double norm_max) = 0;

  // The loss of every next token, summed. Changes nothing else.
  virtual absl::StatusOr<double> Loss(absl::Span<const Token> tokens,
                                      absl::Span<const Token> targets) = 0;

  // --- The state ------------------------------------------------------------
  // A part of the state in this backend's memory. A caller that writes to it
  // must write all of it.
  virtual absl::Span<float> state(StatePart part) = 0;
  // To be called after weights were written through state().
  virtual absl::Status WeightsChanged() = 0;
  // Copies between state() and the host. Sizes are layout().size.
  virtual absl::Status CopyOut(StatePart part, absl::Span<float> host) = 0;
  virtual absl::Status CopyIn(StatePart part, absl::Span<const float> host) = 0;
  // Prepares host memory to which CopyOut copies again and again: a device pins
  // it, which makes these copies faster. `host` must stay allocated while the
  // result lives. Null: there is nothing to do, or pinning is not possible.
  virtual std::shared_ptr<void> Pin(absl::Span<float> host) = 0;
  // A number that is equal for weights and moments with equal bits and almost
  // certainly differs for others. See state_fingerprint.h.
  virtual absl::StatusOr<uint64_t> Fingerprint() = 0;
  virtual AdamWPowers& powers() = 0;
};

// A backend on the CPU, with OpenBLAS. `config` must be valid.
absl::StatusOr<std::unique_ptr<Backend>> MakeCpuBackend(
    const GptConfig& config, const AdamWConfig& optimizer);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_MODEL_BACKEND_H_
