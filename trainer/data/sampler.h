// Sampler: which samples a step takes, and which of them are this rank's.
//
// A corpus of n bytes has floor((n - 1) / context) samples: sample i is the
// `context` bytes from i * context, each to be followed by the next one. Every
// epoch is a permutation of all samples, drawn from seed and epoch. The stream
// of all epochs, one after the other, is cut into steps of `batch` samples, and
// a step into one contiguous share a rank. So every sample comes once an epoch,
// whatever the number of ranks, and a step's samples do not depend on it.
//
// Pure: a function of its arguments; nothing is kept, however large the corpus.
#ifndef ROLLCALL_TRAINER_DATA_SAMPLER_H_
#define ROLLCALL_TRAINER_DATA_SAMPLER_H_

#include <cstdint>
#include <vector>

namespace rollcall {

class Sampler {
 public:
  // `samples` and `batch` are at least 1.
  Sampler(uint64_t seed, uint64_t samples, uint64_t batch);

  // Of a corpus; 0: it is too short for any.
  static uint64_t CountSamples(uint64_t corpus_bytes, uint64_t context);

  // How many samples of a batch are `rank`'s, and at most any rank's.
  static uint64_t ShareSize(uint64_t batch, int rank, int ranks);
  static uint64_t ShareSizeMost(uint64_t batch, int ranks);

  // The samples of `rank` in step 1, 2, ...
  std::vector<uint64_t> Share(uint64_t step, int rank, int ranks) const;

  // The sample at `position` of `epoch`.
  uint64_t At(uint64_t epoch, uint64_t position) const;

 private:
  const uint64_t seed_;
  const uint64_t samples_;
  const uint64_t batch_;
  int half_bits_;  // The permutation works on two halves of this many bits.
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_DATA_SAMPLER_H_
