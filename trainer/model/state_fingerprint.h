// StateFingerprint: a number for the bits of a training state, by which ranks
// find out whether they have the same one.
//
// It is the sum, modulo 2^64, of a term for each pair of values. So it does not
// depend on the order of the additions, and threads and a GPU's blocks can each
// add up a part. It finds differences by accident; an attacker can make
// two states with equal fingerprints.
//
// Pure; any thread.
#ifndef ROLLCALL_TRAINER_MODEL_STATE_FINGERPRINT_H_
#define ROLLCALL_TRAINER_MODEL_STATE_FINGERPRINT_H_

#include <bit>
#include <cstdint>

#include "absl/types/span.h"
#include "trainer/model/random.h"

namespace rollcall {

// A part of the state has fewer pairs than this. The pairs of part p are
// counted from p times this number.
inline constexpr uint64_t kFingerprintPairsMax = uint64_t{1} << 56;

// The term of pair `index`. cuda/kernels/update_kernels.cu has the same
// function.
inline uint64_t FingerprintTerm(uint64_t index, uint32_t first,
                                uint32_t second) {
  return Mix((uint64_t{second} << 32 | first) +
             (index + 1) * 0x9e3779b97f4a7c15u);
}

// The sum of the terms of `values`, of which the first belongs to pair `index`.
// The second value of an odd last pair counts as 0.
inline uint64_t FingerprintOf(absl::Span<const float> values, uint64_t index) {
  uint64_t sum = 0;
  for (size_t i = 0; i < values.size(); i += 2, ++index) {
    const float second = i + 1 < values.size() ? values[i + 1] : 0.0f;
    sum += FingerprintTerm(index, std::bit_cast<uint32_t>(values[i]),
                           std::bit_cast<uint32_t>(second));
  }
  return sum;
}

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_MODEL_STATE_FINGERPRINT_H_
