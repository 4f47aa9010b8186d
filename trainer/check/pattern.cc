#include "trainer/check/pattern.h"

#include "daemon/core/limits.h"

namespace rollcall {
namespace {

constexpr uint32_t kValueMax = 15;
// The largest sum is a whole number that a float represents exactly.
static_assert(uint64_t{kValueMax} * Limits::nodes_max *
                  Limits::ranks_per_node_max <
              uint64_t{1} << 24);

// Spreads its input over 32 bits. Any function that does this and is the same
// on every machine could be used.
uint32_t Scatter(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

uint32_t ValueAt(uint32_t rank, uint32_t seed, uint32_t phase) {
  return Scatter(Scatter(Scatter(seed) + rank) + phase) & kValueMax;
}

}  // namespace

Period PatternOf(int rank, uint32_t seed) {
  Period period(kPatternPeriod);
  for (size_t i = 0; i < period.size(); ++i) {
    period[i] = static_cast<float>(ValueAt(rank, seed, i));
  }
  return period;
}

Period PatternSum(int ranks, uint32_t seed) {
  Period period(kPatternPeriod);
  for (size_t i = 0; i < period.size(); ++i) {
    uint32_t sum = 0;
    for (int rank = 0; rank < ranks; ++rank) sum += ValueAt(rank, seed, i);
    period[i] = static_cast<float>(sum);
  }
  return period;
}

void FillPattern(const Period& period, size_t first, absl::Span<float> values) {
  size_t phase = first % period.size();
  for (float& value : values) {
    value = period[phase];
    if (++phase == period.size()) phase = 0;
  }
}

void CompareWithPattern(const Period& period, size_t first,
                        absl::Span<const float> values, WrongValues* wrong) {
  size_t phase = first % period.size();
  for (size_t i = 0; i < values.size(); ++i) {
    const float expected = period[phase];
    if (++phase == period.size()) phase = 0;
    if (values[i] == expected) continue;
    if (wrong->count++ == 0) {
      wrong->index = first + i;
      wrong->expected = expected;
      wrong->found = values[i];
    }
  }
}

}  // namespace rollcall
