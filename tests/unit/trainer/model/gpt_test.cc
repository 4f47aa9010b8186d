#include "trainer/model/gpt.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "trainer/model/adamw.h"
#include "trainer/model/layers.h"
#include "trainer/model/random.h"
#include "trainer/model/schedule.h"

namespace rollcall {
namespace {

using Doubles = std::vector<double>;

void ExpectNear(const Doubles& got, const Doubles& expect, double tolerance) {
  ASSERT_EQ(got.size(), expect.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], expect[i], tolerance) << "element " << i;
  }
}

TEST(Layers, EmbedAddsTokenAndPosition) {
  const Doubles tokens = {1, 2, 3, 4, 5, 6};  // Three tokens of width 2.
  const Doubles positions = {10, 20, 30, 40};
  const Token ids[] = {2, 0, 0, 1};  // Two sequences of two.
  Doubles out(8);
  EmbedForward(out.data(), ids, tokens.data(), positions.data(), 4, 2, 2);
  ExpectNear(out, {15, 26, 31, 42, 11, 22, 33, 44}, 0);
  Doubles dtokens(6), dpositions(4);
  const Doubles dout = {1, 2, 3, 4, 5, 6, 7, 8};
  EmbedBackward(dtokens.data(), dpositions.data(), ids, dout.data(), 4, 2, 2);
  ExpectNear(dtokens, {8, 10, 7, 8, 1, 2}, 0);
  ExpectNear(dpositions, {6, 8, 10, 12}, 0);
}

TEST(Layers, LayerNormHasMeanZeroAndStandardDeviationOne) {
  const Doubles in = {1, 2, 3, 4, 5, 5, 5, 5};
  const Doubles gain = {1, 1, 2, 1}, bias = {0, 0, 0, 7};
  Doubles out(8), mean(2), rstd(2);
  LayerNormForward(out.data(), mean.data(), rstd.data(), in.data(), gain.data(),
                   bias.data(), 2, 4);
  const double s = 1 / std::sqrt(1.25 + 1e-5);
  ExpectNear(out, {-1.5 * s, -0.5 * s, 2 * 0.5 * s, 1.5 * s + 7, 0, 0, 0, 7},
             1e-12);
  ExpectNear(mean, {2.5, 5}, 0);
}

TEST(Layers, GeluAsInTheTable) {
  // The values are 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), computed
  // separately.
  const Doubles in = {-1000, -3, -1, 0, 0.5, 1, 3, 1000};
  Doubles out(in.size()), tanhs(in.size());
  GeluForward(out.data(), tanhs.data(), in.data(), in.size());
  ExpectNear(out,
             {0, -0.003637392, -0.158808010, 0, 0.345714010, 0.841191990,
              2.996362608, 1000},
             1e-9);
}

TEST(Layers, CrossEntropyAndItsGradient) {
  const double e = std::exp(1.0);
  Doubles logits = {0, 0, 1000, 1000, 1, 0};
  const Token targets[] = {0, 1, 1};
  const double loss = CrossEntropy(logits.data(), targets, 0.5, 3, 2);
  EXPECT_NEAR(loss, 2 * std::log(2.0) + std::log(1 + e), 1e-12);
  ExpectNear(
      logits,
      {-0.25, 0.25, 0.25, -0.25, 0.5 * e / (1 + e), 0.5 * (1 / (1 + e) - 1)},
      1e-12);
}

TEST(Layers, AttentionWeighsEarlierPositions) {
  // One head of width 1, so the scores are plain products.
  const Doubles qkv = {1, 0, 10, 1, std::log(3.0), 20};  // q k v, two rows
  Doubles out(2), weights(4);
  AttentionForward(out.data(), weights.data(), qkv.data(), 1, 2, 1, 1);
  ExpectNear(weights, {1, 0, 0.25, 0.75}, 1e-12);
  ExpectNear(out, {10, 17.5}, 1e-12);
}

constexpr int kSequences = 3;

GptConfig Tiny() {
  GptConfig config;
  config.layers = 2;
  config.heads = 2;
  config.width = 8;
  config.context = 5;
  return config;
}

struct Batch {
  std::vector<Token> tokens, targets;
};

Batch RandomBatch(int size, uint64_t seed) {
  Random random(seed);
  Batch batch;
  for (int i = 0; i < size; ++i) {
    batch.tokens.push_back(random.Next() % 256);
    batch.targets.push_back(random.Next() % 256);
  }
  return batch;
}

// The weights are larger than initial ones, so that every path matters.
template <typename T>
void Randomize(absl::Span<T> weights) {
  Random random(5);
  for (T& w : weights)
    w = T(0.6) * (T(random.Next() >> 40) / (1 << 24) - T(0.5));
}

TEST(Gpt, GradientsMatchFiniteDifferences) {
  Gpt<double> gpt(Tiny(), kSequences);
  Randomize(gpt.weights());
  const Batch batch = RandomBatch(kSequences * 5, 3);
  const double scale = 0.1;
  const double loss = gpt.LossAndGradients(batch.tokens, batch.targets, scale);
  EXPECT_NEAR(gpt.Loss(batch.tokens, batch.targets), loss, 1e-12);
  const std::vector<double> gradients(gpt.gradients().begin(),
                                      gpt.gradients().end());
  constexpr double kStep = 1e-5;
  for (const Tensor& tensor : gpt.layout().tensors) {
    double largest = 0;
    for (size_t i = 0; i < tensor.size; ++i) {
      // Only some values of a large tensor are tested. In the token table, some
      // of their rows occur in the batch and some do not.
      if (tensor.size > 500 && i % 7 != 0) continue;
      double& weight = gpt.weights()[tensor.offset + i];
      const double before = weight;
      weight = before + kStep;
      const double above = gpt.Loss(batch.tokens, batch.targets);
      weight = before - kStep;
      const double below = gpt.Loss(batch.tokens, batch.targets);
      weight = before;
      const double expect = scale * (above - below) / (2 * kStep);
      const double got = gradients[tensor.offset + i];
      largest = std::max(largest, std::abs(got));
      ASSERT_NEAR(got, expect, 1e-8) << tensor.name << "[" << i << "]";
    }
    EXPECT_GT(largest, 1e-5) << tensor.name << " has no gradient at all";
  }
}

TEST(Gpt, FloatAgreesWithDouble) {
  Gpt<double> exact(Tiny(), kSequences);
  Gpt<float> gpt(Tiny(), kSequences);
  Randomize(exact.weights());
  std::copy(exact.weights().begin(), exact.weights().end(),
            gpt.weights().begin());
  // The batch has fewer sequences than there is memory for.
  const Batch batch = RandomBatch(2 * 5, 3);
  const double loss = exact.LossAndGradients(batch.tokens, batch.targets, 0.1);
  EXPECT_NEAR(gpt.LossAndGradients(batch.tokens, batch.targets, 0.1f), loss,
              1e-4);
  for (size_t i = 0; i < gpt.gradients().size(); ++i) {
    ASSERT_NEAR(gpt.gradients()[i], exact.gradients()[i], 1e-5) << i;
  }
}

TEST(Gpt, UsesNoLaterByte) {
  Gpt<double> gpt(Tiny(), 1);
  Randomize(gpt.weights());
  Batch batch = RandomBatch(5, 3);
  // If only the last input changes, only the loss at the last position may
  // change. So the sum must change by the same amount, whatever the other
  // targets are.
  const auto change = [&](const std::vector<Token>& targets) {
    Batch other = batch;
    other.tokens[4] ^= 1;
    return gpt.Loss(other.tokens, targets) - gpt.Loss(batch.tokens, targets);
  };
  std::vector<Token> others = {9, 8, 7, 6, batch.targets[4]};
  EXPECT_NEAR(change(batch.targets), change(others), 1e-12);
  EXPECT_GT(std::abs(change(others)), 1e-6);
}

TEST(Gpt, ShareWithNoSampleHasNoGradient) {
  Gpt<float> gpt(Tiny(), 1);
  Randomize(gpt.weights());
  const Batch batch = RandomBatch(5, 3);
  gpt.LossAndGradients(batch.tokens, batch.targets, 1);
  EXPECT_EQ(gpt.LossAndGradients({}, {}, 1), 0);
  for (float g : gpt.gradients()) ASSERT_EQ(g, 0);
}

TEST(Parameters, AreThoseOfGpt2) {
  const GptLayout layout(Tiny());
  ASSERT_EQ(layout.tensors.size(), 2u + 2 * 12 + 2);
  EXPECT_EQ(layout.tensors[0].name, "wte.weight");
  EXPECT_EQ(layout.tensors[0].shape, (std::vector<int>{256, 8}));
  EXPECT_EQ(layout.tensors[4].name, "h.0.attn.c_attn.weight");
  EXPECT_EQ(layout.tensors[4].shape, (std::vector<int>{8, 24}));
  size_t end = 0;
  for (const Tensor& tensor : layout.tensors) {
    EXPECT_EQ(tensor.offset, end);
    end += tensor.size;
  }
  EXPECT_EQ(layout.size, end);
}

TEST(Parameters, StartWithGpt2sStandardDeviations) {
  GptConfig config;
  const GptLayout layout(config);
  std::vector<float> weights(layout.size), again(layout.size);
  InitializeWeights(config, layout, 1, absl::MakeSpan(weights));
  InitializeWeights(config, layout, 1, absl::MakeSpan(again));
  EXPECT_EQ(weights, again);
  InitializeWeights(config, layout, 2, absl::MakeSpan(again));
  EXPECT_NE(weights, again);
  for (const Tensor& tensor : layout.tensors) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < tensor.size; ++i) {
      const double w = weights[tensor.offset + i];
      sum += w;
      squares += w * w;
    }
    const double mean = sum / tensor.size;
    const double deviation =
        std::sqrt(std::max(0.0, squares / tensor.size - mean * mean));
    if (!tensor.decays()) {
      EXPECT_EQ(deviation, 0) << tensor.name;
      continue;
    }
    const bool residual = tensor.name.find("c_proj") != std::string::npos;
    EXPECT_NEAR(mean, 0, 1e-3) << tensor.name;
    EXPECT_NEAR(deviation, residual ? 0.02 / std::sqrt(6.0) : 0.02, 5e-4)
        << tensor.name;
  }
}

TEST(GptConfig, IsChecked) {
  struct Row {
    int layers, heads, width, context;
    bool ok;
  };
  const Row kRows[] = {
      {1, 1, 1, 1, true},    {3, 4, 128, 64, true},   {0, 1, 8, 8, false},
      {-1, 1, 8, 8, false},  {1, 3, 8, 8, false},     {1, 0, 8, 8, false},
      {1, 16, 8, 8, false},  {1, 1, 8, 0, false},     {1, 1, 8, 8193, false},
      {257, 1, 8, 8, false}, {1, 1, 16385, 8, false},
  };
  for (const Row& row : kRows) {
    const GptConfig config{row.layers, row.heads, row.width, row.context};
    EXPECT_EQ(config.Validate().ok(), row.ok) << config.Validate();
  }
}

// One value decays (the first of the token table) and one does not (the first
// norm's gain). All others have no gradient.
TEST(AdamW, AsComputedByHand) {
  const GptConfig config{1, 1, 1, 1};
  const GptLayout layout(config);
  const size_t gain = layout.blocks[0].norm1_gain;
  struct Row {
    float g_table, g_gain;
    double norm, table, gain;
  };
  const struct {
    const char* what;
    std::vector<Row> rows;
  } kCases[] = {
      {"plain",
       {{0.3f, 0.4f, 0.5, 0.89, 1.9},
        {-0.1f, 0.0f, 0.1, 0.8406695, 1.8321352}}},
      {"clipped to norm 1",
       {{3.0f, 4.0f, 5, 0.89, 1.9}, {0.3f, 0.0f, 0.3, 0.7871707, 1.8321352}}},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.what);
    AdamW adamw(AdamWConfig{}, layout);
    std::vector<float> weights(layout.size), gradients(layout.size);
    weights[0] = 1;
    weights[gain] = 2;
    for (const Row& row : c.rows) {
      gradients[0] = row.g_table;
      gradients[gain] = row.g_gain;
      const double norm = adamw.Step(absl::MakeSpan(weights), gradients, 0.1f);
      EXPECT_NEAR(norm, row.norm, 1e-6);
      EXPECT_NEAR(weights[0], row.table, 2e-6);
      EXPECT_NEAR(weights[gain], row.gain, 2e-6);
    }
  }
}

TEST(AdamW, KeepsTheWeightsIfAGradientIsNotFinite) {
  const GptLayout layout(GptConfig{1, 1, 1, 1});
  AdamW adamw(AdamWConfig{}, layout);
  std::vector<float> weights(layout.size, 1), gradients(layout.size, 0.1f);
  for (float bad : {std::numeric_limits<float>::quiet_NaN(),
                    std::numeric_limits<float>::infinity()}) {
    gradients[3] = bad;
    EXPECT_FALSE(
        std::isfinite(adamw.Step(absl::MakeSpan(weights), gradients, 0.1f)));
    EXPECT_EQ(weights, std::vector<float>(layout.size, 1));
  }
}

TEST(LearningRate, RisesAndFalls) {
  struct Row {
    int step, warmup, steps;
    float expect;
    Schedule schedule = Schedule::kCosine;
    float last = 0.1f;
  };
  const Row kRows[] = {
      {1, 4, 8, 0.25f},
      {4, 4, 8, 1.0f},
      {6, 4, 8, 0.55f},
      {8, 4, 8, 0.1f},
      {1, 0, 1, 0.1f},
      {2, 4, 3, 0.5f},
      {4, 4, 4, 1.0f},
      // A quarter of the way: (1 + cos(pi / 4)) / 2.
      {5, 4, 8, 0.8535534f, Schedule::kCosine, 0},
      {5, 4, 8, 0.75f, Schedule::kLinear, 0},
      {5, 4, 8, 0.8f, Schedule::kLinear, 0.2f},
      {8, 4, 8, 0.2f, Schedule::kLinear, 0.2f},
      {9, 4, 8, 0.2f, Schedule::kLinear, 0.2f},
      {2, 4, 8, 0.5f, Schedule::kConstant},
      {8, 4, 8, 1.0f, Schedule::kConstant},
  };
  for (const Row& row : kRows) {
    const LearningRates rates = {1, row.last, row.warmup, row.steps,
                                 row.schedule};
    EXPECT_NEAR(rates.At(row.step), row.expect, 1e-6)
        << "step " << row.step << " of " << row.steps;
  }
}

}  // namespace
}  // namespace rollcall
