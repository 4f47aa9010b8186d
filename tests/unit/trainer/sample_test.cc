#include "trainer/sample.h"

#include <gtest/gtest.h>

#include <vector>

namespace rollcall {
namespace {

TEST(Sample, TokensComeAsOftenAsTheirProbabilitiesSay) {
  // The probabilities are 1/7, 4/7 and 2/7; with temperature 1/2 1/21, 16/21
  // and 4/21.
  const std::vector<float> logits = {0, 2 * 0.6931472f, 0.6931472f};
  const struct {
    double temperature;
    std::vector<double> expect;
  } rows[] = {{1, {1.0 / 7, 4.0 / 7, 2.0 / 7}},
              {0.5, {1.0 / 21, 16.0 / 21, 4.0 / 21}},
              {0, {0, 1, 0}}};
  for (const auto& row : rows) {
    constexpr int kDraws = 20000;
    Random random(5);
    std::vector<int> counts(3);
    for (int i = 0; i < kDraws; ++i) {
      ++counts[DrawToken(logits, row.temperature, random)];
    }
    for (int i = 0; i < 3; ++i) {
      EXPECT_NEAR(double(counts[i]) / kDraws, row.expect[i], 0.02)
          << row.temperature << " " << i;
    }
  }
}

}  // namespace
}  // namespace rollcall
