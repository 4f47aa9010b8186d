// Validation: the loss on held-out data, computed by all ranks together.
//
// It always takes the same samples: the first ones of the files, in their
// order. They are cut into chunks of a fixed size, which the ranks share. The
// losses of all chunks are gathered and summed in the order of the chunks. So
// equal weights give the same bits on all ranks, and on the CPU in a world of
// any size whose ranks have as many threads.
//
// It changes no weights, moments or gradients, and no position in the data.
//
// Thread rule: one thread.
#ifndef ROLLCALL_TRAINER_STEPS_VALIDATION_H_
#define ROLLCALL_TRAINER_STEPS_VALIDATION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/collective/collective.h"
#include "trainer/data/dataset.h"
#include "trainer/model/backend.h"

namespace rollcall {

class Validation {
 public:
  // Opens `paths`. Takes at most `samples_max` samples of `context` tokens.
  // Errors are those of Dataset, and INVALID_ARGUMENT: the data is too short
  // for one sample, or of another kind than `training`.
  static absl::StatusOr<Validation> Open(const std::vector<std::string>& paths,
                                         const Dataset& training, int context,
                                         uint64_t samples_max);

  uint64_t samples() const { return samples_; }
  // A fingerprint of the data.
  uint64_t data() const { return data_; }
  // A file that is also in the training data; its loss is not of held-out data.
  const std::optional<std::string>& trained_on() const { return trained_on_; }

  // The mean loss with the weights that `backend` has now. Every rank must call
  // it. Errors: those of the collective, of reading and of the backend.
  absl::StatusOr<double> MeanLoss(Backend& backend,
                                  Collective& collective) const;

 private:
  Validation(Dataset dataset, uint64_t data, int context, uint64_t samples);

  absl::StatusOr<double> ChunkLoss(Backend& backend, uint64_t chunk) const;

  Dataset dataset_;
  uint64_t data_;
  uint64_t context_;
  uint64_t samples_;
  uint64_t chunk_samples_;
  std::optional<std::string> trained_on_;
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_STEPS_VALIDATION_H_
