#include "trainer/data/sampler.h"

#include <algorithm>

#include "daemon/base/check.h"
#include "trainer/model/random.h"

namespace rollcall {
namespace {

// The index in a batch at which the share of `rank` begins. Shares differ by at
// most one sample.
uint64_t ShareBegin(uint64_t batch, int rank, int ranks) {
  return batch * rank / ranks;
}

}  // namespace

Sampler::Sampler(uint64_t seed, uint64_t samples, uint64_t batch)
    : seed_(seed), samples_(samples), batch_(batch), half_bits_(1) {
  CHECK_GE(samples, 1u);
  CHECK_GE(batch, 1u);
  while (half_bits_ < 32 && (uint64_t{1} << (2 * half_bits_)) < samples) {
    ++half_bits_;
  }
}

uint64_t Sampler::CountSamples(uint64_t tokens, uint64_t context) {
  return tokens == 0 ? 0 : (tokens - 1) / context;
}

uint64_t Sampler::ShareSize(uint64_t batch, int rank, int ranks) {
  return ShareBegin(batch, rank + 1, ranks) - ShareBegin(batch, rank, ranks);
}

uint64_t Sampler::ShareSizeMax(uint64_t batch, int ranks) {
  return (batch + ranks - 1) / ranks;
}

std::vector<uint64_t> Sampler::Share(const DataPosition& position, int rank,
                                     int ranks) const {
  std::vector<uint64_t> share(ShareSize(batch_, rank, ranks));
  DataPosition at = Ahead(position, ShareBegin(batch_, rank, ranks));
  for (uint64_t& sample : share) {
    sample = At(at.epoch, at.cursor);
    at = Ahead(at, 1);
  }
  return share;
}

DataPosition Sampler::After(const DataPosition& position) const {
  return Ahead(position, batch_);
}

DataPosition Sampler::Ahead(const DataPosition& position,
                            uint64_t samples) const {
  const uint64_t cursor = position.cursor % samples_ + samples;
  return {position.epoch + position.cursor / samples_ + cursor / samples_,
          cursor % samples_};
}

// A Feistel network permutes the smallest power of four that is at least the
// number of samples. A result that is not a sample is permuted again until it
// is one; on average this takes at most about four rounds.
uint64_t Sampler::At(uint64_t epoch, uint64_t position) const {
  CHECK_LT(position, samples_);
  constexpr int kRounds = 4;
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  const uint64_t key = Mix(Mix(seed_) + epoch);
  uint64_t at = position;
  do {
    uint64_t left = at >> half_bits_;
    uint64_t right = at & mask;
    for (int round = 0; round < kRounds; ++round) {
      const uint64_t next = left ^ (Mix(key + round + (right << 8)) & mask);
      left = right;
      right = next;
    }
    at = (left << half_bits_) | right;
  } while (at >= samples_);
  return at;
}

}  // namespace rollcall
