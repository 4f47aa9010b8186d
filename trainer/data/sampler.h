// Sampler: the samples of a step, and which of them are this rank's.
//
// A dataset of n tokens has floor((n - 1) / context) samples: sample i is the
// `context` tokens from i * context on, each with the token after it as its
// target. Every epoch is a permutation of all samples, drawn from the seed and
// the epoch. The epochs, one after the other, are one stream. A step takes the
// next `batch` samples of the stream and cuts them into one contiguous share
// per rank. The caller keeps the position in the stream. So every sample comes
// once per epoch, even if the number of ranks or the batch changes within the
// epoch.
//
// Pure: a function of its arguments. It stores nothing per sample, so its
// memory does not depend on the dataset's size.
#ifndef ROLLCALL_TRAINER_DATA_SAMPLER_H_
#define ROLLCALL_TRAINER_DATA_SAMPLER_H_

#include <cstdint>
#include <vector>

namespace rollcall {

// How far a training is in its data: `cursor` samples of `epoch` are done.
struct DataPosition {
  uint64_t epoch = 0;
  uint64_t cursor = 0;

  bool operator==(const DataPosition& other) const = default;
};

class Sampler {
 public:
  // `samples` and `batch` are at least 1.
  Sampler(uint64_t seed, uint64_t samples, uint64_t batch);

  // Number of samples in a dataset; 0: it is too short for one.
  static uint64_t CountSamples(uint64_t tokens, uint64_t context);

  // How many samples of a batch are `rank`'s, and the maximum over all ranks.
  static uint64_t ShareSize(uint64_t batch, int rank, int ranks);
  static uint64_t ShareSizeMax(uint64_t batch, int ranks);

  // The samples of `rank` in the step that begins at `position`. A batch that
  // reaches the end of an epoch continues in the next one. A cursor beyond the
  // end of its epoch is carried over into the next epochs.
  std::vector<uint64_t> Share(const DataPosition& position, int rank,
                              int ranks) const;
  // Where the next step begins.
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
