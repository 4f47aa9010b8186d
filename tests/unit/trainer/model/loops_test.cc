#include "trainer/model/cpu/loops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "trainer/model/random.h"

namespace rollcall {
namespace {

std::vector<float> Uniform(size_t count, float least, float most) {
  static Random random(11);
  std::vector<float> values(count);
  for (float& v : values) {
    v = least +
        (most - least) * static_cast<float>(random.Next() >> 40) / (1 << 24);
  }
  return values;
}

// Returns everything that an instruction set computes for `rows` rows of
// `width`.
std::vector<float> All(const Loops<float>& loops, AdamWLoop adamw,
                       const std::vector<float>& from, int rows, int width) {
  const size_t n = size_t(rows) * width;
  const float* in = from.data();
  std::vector<float> out;
  const auto take = [&](const std::vector<float>& values) {
    out.insert(out.end(), values.begin(), values.end());
  };
  std::vector<float> y(n), t(n), mean(rows), rstd(rows), sums(width, 1),
      more(width, 2);
  loops.exponentials(y.data(), in, n);
  take(y);
  loops.norm_forward(y.data(), mean.data(), rstd.data(), in, in + 1, in + 2,
                     rows, width);
  take(y);
  take(mean);
  take(rstd);
  loops.norm_backward(y.data(), in + 3, in, in + 4, mean.data(), rstd.data(),
                      rows, width);
  take(y);
  loops.norm_backward_weights(sums.data(), more.data(), in + 3, in, mean.data(),
                              rstd.data(), rows, width, width / 3, width);
  loops.add_rows(sums.data(), in, rows, width, 0, width);
  take(sums);
  take(more);
  loops.fill_rows(y.data(), in, in + 5, rows, width);
  take(y);
  loops.gelu_forward(y.data(), t.data(), in, n);
  take(y);
  take(t);
  loops.gelu_backward(y.data(), in, t.data(), n);
  take(y);
  for (int r = 0; r < rows; ++r) {
    loops.softmax(t.data() + r * width, 1 + r % width, width);
    loops.softmax_backward(y.data() + r * width, t.data() + r * width,
                           1 + r % width, width);
  }
  take(t);
  take(y);
  std::vector<float> logits(in, in + n);
  for (int r = 0; r < rows; ++r) {
    take({static_cast<float>(loops.cross_entropy(logits.data() + r * width,
                                                 r % width, 0.25f, width))});
  }
  take(logits);
  take({static_cast<float>(loops.squares(in, n))});
  std::vector<float> weights(in, in + n), first(n, 0.5f), second(n, 0.25f);
  adamw(weights.data(), first.data(), second.data(), in + 6, n,
        {0.7f, 0.9f, 0.95f, 1.1f, 1.2f, 1e-8f, 1e-3f, 0.999f});
  take(weights);
  take(first);
  take(second);
  return out;
}

TEST(Loops, AllInstructionSetsGiveTheSameBits) {
  const int plain = kLoopSets - 1;
  ASSERT_NE(LoopsOf<float>(plain), nullptr);
  int others = 0;
  for (const int width : {1, 7, 16, 35, 48, 130}) {
    const int rows = 9;
    const std::vector<float> in = Uniform(size_t(rows) * width + 8, -9, 9);
    const std::vector<float> expect =
        All(*LoopsOf<float>(plain), AdamWLoopOf(plain), in, rows, width);
    for (int set = 0; set < plain; ++set) {
      if (LoopsOf<float>(set) == nullptr) continue;
      ++others;
      const std::vector<float> got =
          All(*LoopsOf<float>(set), AdamWLoopOf(set), in, rows, width);
      ASSERT_EQ(got.size(), expect.size());
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(std::memcmp(&got[i], &expect[i], sizeof(float)), 0)
            << "set " << set << ", width " << width << ", value " << i << ": "
            << got[i] << ", expected " << expect[i];
      }
    }
  }
  if (others == 0) GTEST_SKIP() << "this processor has one set alone";
}

TEST(Loops, ExponentialIsWithinTolerance) {
  const Loops<float>& loops = LoopsHere<float>();
  // The inputs cover every exponent, and the values around each power of two.
  std::vector<float> in;
  for (int n = -125; n <= 125; ++n) {
    for (const double part : {-0.5, -0.499999, -0.25, 0.0, 0.3, 0.499999}) {
      in.push_back(static_cast<float>((n + part) * 0.6931471805599453));
    }
  }
  const std::vector<float> more = Uniform(100000, -86.9f, 87.9f);
  in.insert(in.end(), more.begin(), more.end());
  std::vector<float> out(in.size());
  loops.exponentials(out.data(), in.data(), in.size());
  for (size_t i = 0; i < in.size(); ++i) {
    const double expect = std::exp(double(in[i]));
    ASSERT_NEAR(out[i] / expect, 1, 2e-7) << "exp(" << in[i] << ")";
  }
  const std::vector<float> ends = {0, -87.5f, -1000, 88, 1000, -INFINITY};
  std::vector<float> at(ends.size());
  loops.exponentials(at.data(), ends.data(), ends.size());
  EXPECT_EQ(at[0], 1);
  EXPECT_EQ(at[1], 0);
  EXPECT_EQ(at[2], 0);
  EXPECT_EQ(at[3], at[4]);
  EXPECT_EQ(at[5], 0);
}

TEST(Loops, ANonFiniteValueReachesTheNorm) {
  // The norm must show a gradient that is not finite, because only the norm is
  // checked.
  const Loops<float>& loops = LoopsHere<float>();
  std::vector<float> in(20, 1), out(20);
  in[17] = in[3] = NAN;
  loops.exponentials(out.data(), in.data(), in.size());
  EXPECT_TRUE(std::isnan(out[3]));
  EXPECT_TRUE(std::isnan(out[17]));
  EXPECT_TRUE(std::isnan(loops.squares(in.data(), in.size())));
  std::vector<float> t(20);
  loops.gelu_forward(out.data(), t.data(), in.data(), in.size());
  EXPECT_TRUE(std::isnan(out[3]));
  EXPECT_TRUE(std::isnan(out[17]));
  EXPECT_TRUE(std::isnan(loops.cross_entropy(in.data(), 0, 1, 20)));
}

}  // namespace
}  // namespace rollcall
