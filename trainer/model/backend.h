// Backend: one rank's model and its optimizer, wherever they live: first
// weights, the way from tokens to loss and gradients, and the update.
//
// Gradients lie in one flat array in the layout's order, followed by two more
// values that are summed along with them (kExtras), and are cut into buckets:
// contiguous pieces that the way back finishes one after the other, so that a
// collective can reduce one while the next is made.
//
// What a backend gives as a span of floats is in its own memory: the host's for
// the CPU, the device's for CUDA. A Collective of the same kind takes it. Every
// value depends on what it was given alone, and rounds alike on every machine
// of its kind, so that ranks keep equal weights.
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

// Behind the gradients: this rank's part of the loss, and 1 where it was told
// to stop.
inline constexpr size_t kExtras = 2;
struct Extras {
  float loss = 0;
  float stops = 0;
};

// What makes up a state, each of layout().size floats.
enum class StatePart { kWeights, kFirstMoment, kSecondMoment };
inline constexpr StatePart kStateParts[] = {
    StatePart::kWeights, StatePart::kFirstMoment, StatePart::kSecondMoment};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual absl::string_view name() const = 0;  // "cpu" or "cuda".
  virtual const GptConfig& config() const = 0;
  virtual const GptLayout& layout() const = 0;

  // Takes memory for up to `sequences` of `context` tokens a call; weights and
  // moments stay as they are. RESOURCE_EXHAUSTED: what is needed, what is
  // there, and which flag to lower; then nothing has changed.
  virtual absl::Status Reserve(int sequences) = 0;

  // As before step 1: the seed's first weights, moments 0.
  virtual absl::Status Reset(uint64_t seed) = 0;

  // --- A step -------------------------------------------------------------
  // In the order in which they are finished; together all of gradients(). The
  // first one holds the extras.
  virtual absl::Span<const Bucket> buckets() const = 0;
  // layout().size + kExtras.
  virtual absl::Span<float> gradients() = 0;

  // Leaves d(scale * summed loss)/d(weights) in gradients(), and `stop` and the
  // loss times `scale` behind them. `tokens` and `targets` hold whole sequences
  // of `context`, none at all gives zeros; each is below config().vocabulary.
  // `finished` is called with each bucket, in order, as soon as it is whole (on
  // a device: as soon as the work that fills it is in its stream); an error of
  // it ends the call.
  using Finished = std::function<absl::Status(const Bucket&)>;
  virtual absl::Status LossAndGradients(absl::Span<const Token> tokens,
                                        absl::Span<const Token> targets,
                                        float scale, bool stop,
                                        const Finished& finished) = 0;
  // What stands behind the gradients now.
  virtual absl::StatusOr<Extras> ReadExtras() = 0;

  // One update by gradients(). Returns their norm before clipping; one that is
  // not finite changes nothing.
  virtual absl::StatusOr<double> Update(float learning_rate) = 0;

  // The loss of each next token, summed; nothing else changes.
  virtual absl::StatusOr<double> Loss(absl::Span<const Token> tokens,
                                      absl::Span<const Token> targets) = 0;

  // --- The state ------------------------------------------------------------
  // In this backend's memory; whoever writes it writes all of it.
  virtual absl::Span<float> state(StatePart part) = 0;
  // To be called after weights were written through state().
  virtual absl::Status WeightsChanged() = 0;
  // Copies between there and the host; sizes are layout().size.
  virtual absl::Status CopyOut(StatePart part, absl::Span<float> host) = 0;
  virtual absl::Status CopyIn(StatePart part, absl::Span<const float> host) = 0;
  virtual AdamWPowers& powers() = 0;
};

// On the CPU, with OpenBLAS. `config` must be valid.
absl::StatusOr<std::unique_ptr<Backend>> MakeCpuBackend(
    const GptConfig& config, const AdamWConfig& optimizer);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_MODEL_BACKEND_H_
