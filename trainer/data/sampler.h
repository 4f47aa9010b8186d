// Sampler: the samples of a step, and this rank's share of them.
//
// A dataset of n tokens has floor((n - 1) / context) samples. Sample i is the
// `context` tokens from i * context on; the target of each token is the token
// after it. Every epoch is a permutation of all samples, which depends on the
// seed and the epoch. The epochs, one after the other, form one stream. A step
// takes the next `batch` samples of the stream and divides them into one
// contiguous share per rank. The caller keeps the position in the stream. So
// every sample occurs once per epoch, even if the number of ranks or the batch
// changes within the epoch.
//
// Pure: the result depends only on the arguments. Nothing is stored per sample,
// so the memory does not depend on the dataset's size.
#ifndef ROLLCALL_TRAINER_DATA_SAMPLER_H_
#define ROLLCALL_TRAINER_DATA_SAMPLER_H_

#include <cstdint>
#include <vector>

namespace rollcall {

// The position of a training run in its data: `cursor` samples of `epoch` are
// done.
struct DataPosition {
  uint64_t epoch = 0;
  uint64_t cursor = 0;

  bool operator==(const DataPosition& other) const = default;
};

class Sampler {
 public:
  // `samples` and `batch` are at least 1.
  Sampler(uint64_t seed, uint64_t samples, uint64_t batch);

  // The number of samples in a dataset; 0: it is too short for one sample.
  static uint64_t CountSamples(uint64_t tokens, uint64_t context);

  // The number of samples in `rank`'s share of a batch, and the maximum over
  // all ranks.
  static uint64_t ShareSize(uint64_t batch, int rank, int ranks);
  static uint64_t ShareSizeMax(uint64_t batch, int ranks);

  // The samples of `rank` in the step that begins at `position`. A batch that
  // reaches the end of an epoch continues in the next epoch. If the cursor is
  // beyond the end of its epoch, the excess counts in the next epochs.
  std::vector<uint64_t> Share(const DataPosition& position, int rank,
                              int ranks) const;
  // The position at which the next step begins.
  DataPosition After(const DataPosition& position) const;

  // The sample at `position` of `epoch`.
  uint64_t At(uint64_t epoch, uint64_t position) const;

 private:
  DataPosition Ahead(const DataPosition& position, uint64_t samples) const;

  const uint64_t seed_;
  const uint64_t samples_;
  const uint64_t batch_;
  int half_bits_;  // The permutation works on two halves of this many bits.
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_DATA_SAMPLER_H_
