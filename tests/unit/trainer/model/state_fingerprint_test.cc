#include "trainer/model/state_fingerprint.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "trainer/model/backend.h"

namespace rollcall {
namespace {

std::vector<float> Values(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = 0.25f * static_cast<float>(i);
  return values;
}

TEST(StateFingerprint, TellsSmallDifferencesApart) {
  const std::vector<float> values = Values(9);
  std::set<uint64_t> seen = {FingerprintOf(values, 0), FingerprintOf(values, 1),
                             FingerprintOf(values, kFingerprintPairsMax)};
  size_t states = 3;
  for (size_t i = 0; i < values.size(); ++i) {
    std::vector<float> other = values;
    other[i] = std::nextafter(other[i], 100.0f);
    seen.insert(FingerprintOf(other, 0));
    ++states;
    for (size_t j = 0; j < i; ++j, ++states) {
      other = values;
      std::swap(other[i], other[j]);
      seen.insert(FingerprintOf(other, 0));
    }
  }
  // 0 and -0 are equal numbers, but not equal bits.
  std::vector<float> negative = values;
  negative[0] = -0.0f;
  seen.insert(FingerprintOf(negative, 0));
  EXPECT_EQ(seen.size(), states + 1);
}

TEST(StateFingerprint, IsTheSumOfItsPieces) {
  const std::vector<float> values = Values(1001);
  const absl::Span<const float> all = values;
  EXPECT_EQ(FingerprintOf(all, 40),
            FingerprintOf(all.first(600), 40) +
                FingerprintOf(all.subspan(600), 40 + 300));
}

TEST(StateFingerprint, TheCpusThreadsAddItUp) {
  std::unique_ptr<Backend> backend =
      *MakeCpuBackend({2, 2, 64, 16, 256}, AdamWConfig());
  ASSERT_TRUE(backend->Reserve(1).ok());
  ASSERT_TRUE(backend->Reset(3).ok());
  const size_t size = backend->layout().size;
  ASSERT_GT(size, 100000u);
  uint64_t want = 0;
  uint64_t index = 0;
  for (const StatePart part : kStateParts) {
    std::vector<float> values = Values(size);
    values[0] = static_cast<float>(part);
    ASSERT_TRUE(backend->CopyIn(part, values).ok());
    want += FingerprintOf(values, index);
    index += kFingerprintPairsMax;
  }
  EXPECT_EQ(*backend->Fingerprint(), want);
}

}  // namespace
}  // namespace rollcall
