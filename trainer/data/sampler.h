// Sampler: which samples a step takes, and which of them are this rank's.
//
// A dataset of n tokens has floor((n - 1) / context) samples: sample i is the
// `context` tokens from i * context, each to be followed by the next one. Every
// epoch is a permutation of all samples, drawn from seed and epoch. A step
// takes the next `batch` samples of the stream of all epochs, one after the
// other, and cuts them into one contiguous share a rank. Where in the stream it
// begins is the caller's to keep. So every sample comes once an epoch, however
// many ranks or samples a step has meanwhile.
//
// Pure: a function of its arguments; nothing is kept, however large the
// dataset.
#ifndef ROLLCALL_TRAINER_DATA_SAMPLER_H_
#define ROLLCALL_TRAINER_DATA_SAMPLER_H_

#include <cstdint>
#include <vector>

namespace rollcall {

// How far a training has come in its data: `cursor` samples of `epoch` are
// taken.
struct DataPosition {
  uint64_t epoch = 0;
  uint64_t cursor = 0;

  bool operator==(const DataPosition& other) const = default;
};

class Sampler {
 public:
  // `samples` and `batch` are at least 1.
  Sampler(uint64_t seed, uint64_t samples, uint64_t batch);

  // Of a dataset; 0: it is too short for any.
  static uint64_t CountSamples(uint64_t tokens, uint64_t context);

  // How many samples of a batch are `rank`'s, and at most any rank's.
  static uint64_t ShareSize(uint64_t batch, int rank, int ranks);
  static uint64_t ShareSizeMost(uint64_t batch, int ranks);

  // The samples of `rank` in the step that begins at `position`: of the batch
  // from there, which goes on into the next epoch where that one ends. A cursor
  // beyond the epoch's end counts on from there.
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
