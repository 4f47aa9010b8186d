// Pattern: values whose results are known exactly, so that every wrong element
// is found, whatever moved or summed it.
//
// Each rank has small whole numbers, so that the sum over the largest world is
// exact in a float in any order. The numbers repeat after a prime number of
// elements, so that a shift by a chunk or a page is found. They depend on the
// seed, so that values left over from an earlier row are found.
//
// Pure.
#ifndef ROLLCALL_TRAINER_CHECK_PATTERN_H_
#define ROLLCALL_TRAINER_CHECK_PATTERN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace rollcall {

// One period of values, from element 0.
using Period = std::vector<float>;

inline constexpr size_t kPatternPeriod = 1021;

Period PatternOf(int rank, uint32_t seed);
Period PatternSum(int ranks, uint32_t seed);

// Fills `values` with the pattern from element `first` on.
void FillPattern(const Period& period, size_t first, absl::Span<float> values);

// No pattern contains this value, so an element that was not written is found.
inline constexpr float kUnwritten = -1;

struct WrongValues {
  uint64_t count = 0;
  // The index and values of the first wrong element.
  uint64_t index = 0;
  float expected = 0, found = 0;
};
// Compares `values` with the pattern from element `first` on, and adds the
// differences to `wrong`.
void CompareWithPattern(const Period& period, size_t first,
                        absl::Span<const float> values, WrongValues* wrong);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECK_PATTERN_H_
