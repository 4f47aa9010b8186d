// Runs the CUDA backend's kernels by emulation on the CPU, and compares them
// with layers.h in double. The inputs are rounded to bf16 first, so only the
// rounding in the kernels shows: kOnce for a result that is rounded once,
// kTwice if an intermediate value is rounded too (attention's weights).
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "trainer/cuda/kernels/kernel_language.h"
#include "trainer/cuda/kernels/kernels.h"
#include "trainer/cuda/token_places.h"
#include "trainer/model/adamw.h"
#include "trainer/model/layers.h"
#include "trainer/model/state_fingerprint.h"

namespace rollcall {
namespace {

using cuda::Bf16;

constexpr double kExact = 1e-5;  // fp32 throughout, in another order.
constexpr double kOnce = 1.0 / 256;
constexpr double kTwice = 2.5 / 256;

// The parameter is the order in which a block's threads take turns.
class CudaKernels : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override { cuda::emulation::downwards = GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Orders, CudaKernels, testing::Bool(),
                         [](const testing::TestParamInfo<bool>& info) {
                           return info.param ? "Downwards" : "Upwards";
                         });

std::vector<Bf16> Draw(size_t count, int seed, double scale = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<Bf16> values(count);
  for (Bf16& v : values) v = cuda::ToBf16(uniform(random) * float(scale));
  return values;
}

std::vector<double> Doubles(const std::vector<Bf16>& values) {
  std::vector<double> doubles;
  for (Bf16 v : values) doubles.push_back(cuda::ToFloat(v));
  return doubles;
}
std::vector<double> Doubles(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}
std::vector<float> Floats(const std::vector<Bf16>& values) {
  const std::vector<double> doubles = Doubles(values);
  return {doubles.begin(), doubles.end()};
}

// Checks the distance between `got` and `want`: as vectors, and at the worst
// position. There, small values are compared with the typical value.
template <typename T>
void ExpectNear(const char* what, const std::vector<T>& got,
                const std::vector<double>& want, double tolerance) {
  const std::vector<double> values = Doubles(got);
  ASSERT_EQ(values.size(), want.size()) << what;
  double apart = 0, length = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_TRUE(std::isfinite(values[i])) << what << " at " << i;
    apart += (values[i] - want[i]) * (values[i] - want[i]);
    length += want[i] * want[i];
  }
  EXPECT_LE(std::sqrt(apart), tolerance * std::sqrt(length) + 1e-12) << what;
  const double typical = std::sqrt(length / want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(values[i], want[i],
                4 * tolerance * (std::abs(want[i]) + typical) + 1e-12)
        << what << " at " << i;
  }
}

std::vector<Token> DrawTokens(size_t count, int vocabulary, int seed) {
  std::mt19937 random(seed);
  std::vector<Token> tokens(count);
  for (Token& t : tokens) t = random() % vocabulary;
  return tokens;
}

TEST_P(CudaKernels, EmbeddingEqualsTheReference) {
  constexpr int kContext = 7, kSequences = 9, kWidth = 40, kWords = 11;
  constexpr int kCells = kContext * kSequences * kWidth;
  const auto tokens = DrawTokens(kContext * kSequences, kWords, 1);
  const auto table = Draw(kWords * kWidth, 2);
  const auto positions = Draw(kContext * kWidth, 3);
  std::vector<Bf16> out(kCells);
  cuda::EmbedForward(nullptr, out.data(), tokens.data(), Floats(table).data(),
                     Floats(positions).data(), tokens.size(), kContext, kWidth);
  std::vector<double> want(kCells);
  EmbedForward(want.data(), tokens.data(), Doubles(table).data(),
               Doubles(positions).data(), tokens.size(), kContext, kWidth);
  ExpectNear("out", out, want, kOnce);

  const auto dout = Draw(kCells, 4);
  // The values that the output matrix has already stored here stay.
  std::vector<float> dtable(kWords * kWidth, 0.5f);
  std::vector<float> dpositions(kContext * kWidth, NAN);
  cuda::TokenIndex index;
  index.Sort(tokens);
  cuda::EmbedBackward(nullptr, dtable.data(), dpositions.data(),
                      index.places.data(), index.places.size(),
                      index.order.data(), dout.data(), tokens.size(), kContext,
                      kWidth);
  std::vector<double> want_table(kWords * kWidth, 0.5);
  std::vector<double> want_positions(kContext * kWidth);
  EmbedBackward(want_table.data(), want_positions.data(), tokens.data(),
                Doubles(dout).data(), tokens.size(), kContext, kWidth);
  ExpectNear("dtable", dtable, want_table, kExact);
  ExpectNear("dpositions", dpositions, want_positions, kExact);

  // A second micro-batch adds the same values again.
  cuda::EmbedBackward(nullptr, dtable.data(), dpositions.data(),
                      index.places.data(), index.places.size(),
                      index.order.data(), dout.data(), tokens.size(), kContext,
                      kWidth, true);
  EmbedBackward(want_table.data(), want_positions.data(), tokens.data(),
                Doubles(dout).data(), tokens.size(), kContext, kWidth);
  ExpectNear("dtable twice", dtable, want_table, kExact);
  ExpectNear("dpositions twice", dpositions, want_positions, kExact);
}

void CheckLayerNorm(int rows, int width) {
  SCOPED_TRACE(testing::Message() << rows << " rows of " << width);
  const auto in = Draw(rows * width, 1, 3);
  const auto gain = Draw(width, 2), bias = Draw(width, 3);
  std::vector<Bf16> out(in.size());
  std::vector<float> mean(rows), rstd(rows);
  cuda::LayerNormForward(nullptr, out.data(), mean.data(), rstd.data(),
                         in.data(), Floats(gain).data(), Floats(bias).data(),
                         rows, width);
  std::vector<double> want(in.size()), want_mean(rows), want_rstd(rows);
  LayerNormForward(want.data(), want_mean.data(), want_rstd.data(),
                   Doubles(in).data(), Doubles(gain).data(),
                   Doubles(bias).data(), rows, width);
  ExpectNear("out", out, want, kOnce);
  ExpectNear("mean", mean, want_mean, kExact);
  ExpectNear("rstd", rstd, want_rstd, kExact);

  const auto dout = Draw(in.size(), 4), residual = Draw(in.size(), 5);
  std::vector<Bf16> din = residual;
  std::vector<float> dgain(width, NAN), dbias(width, NAN);
  std::vector<float> parts(2 * cuda::Parts(rows) * width, NAN);
  cuda::LayerNormBackward(nullptr, din.data(), dgain.data(), dbias.data(),
                          parts.data(), dout.data(), in.data(),
                          Floats(gain).data(), mean.data(), rstd.data(), rows,
                          width);
  std::vector<double> want_din = Doubles(residual);
  std::vector<double> want_dgain(width), want_dbias(width);
  LayerNormBackward(want_din.data(), want_dgain.data(), want_dbias.data(),
                    Doubles(dout).data(), Doubles(in).data(),
                    Doubles(gain).data(), want_mean.data(), want_rstd.data(),
                    rows, width);
  ExpectNear("din", din, want_din, kOnce);
  ExpectNear("dgain", dgain, want_dgain, kExact);
  ExpectNear("dbias", dbias, want_dbias, kExact);

  din = residual;
  cuda::LayerNormBackward(nullptr, din.data(), dgain.data(), dbias.data(),
                          parts.data(), dout.data(), in.data(),
                          Floats(gain).data(), mean.data(), rstd.data(), rows,
                          width, true);
  for (double& d : want_dgain) d *= 2;
  for (double& d : want_dbias) d *= 2;
  ExpectNear("din again", din, want_din, kOnce);
  ExpectNear("dgain twice", dgain, want_dgain, kExact);
  ExpectNear("dbias twice", dbias, want_dbias, kExact);
}

TEST_P(CudaKernels, LayerNormEqualsTheReference) {
  CheckLayerNorm(1, 8);
  CheckLayerNorm(5, 40);
  CheckLayerNorm(11, 264);                   // More packs than a warp has.
  CheckLayerNorm(cuda::kRowsAPart + 3, 40);  // More than one part.
}

TEST_P(CudaKernels, BiasIsAddedAndItsGradientSummed) {
  constexpr int kRows = 2 * cuda::kRowsAPart + 1, kWidth = 40;
  const auto in = Draw(kRows * kWidth, 1), bias = Draw(kWidth, 2);
  std::vector<Bf16> values = in;
  cuda::AddBias(nullptr, values.data(), bias.data(), kRows, kWidth);
  std::vector<double> want = Doubles(in), want_sum(kWidth);
  for (int i = 0; i < kRows * kWidth; ++i) {
    want_sum[i % kWidth] += want[i];
    want[i] += cuda::ToFloat(bias[i % kWidth]);
  }
  ExpectNear("values", values, want, kOnce);

  std::vector<float> sum(kWidth, NAN), parts(cuda::Parts(kRows) * kWidth, NAN);
  cuda::BiasBackward(nullptr, sum.data(), parts.data(), in.data(), kRows,
                     kWidth);
  ExpectNear("sum", sum, want_sum, kExact);
  cuda::BiasBackward(nullptr, sum.data(), parts.data(), in.data(), kRows,
                     kWidth, true);
  for (double& d : want_sum) d *= 2;
  ExpectNear("sum twice", sum, want_sum, kExact);
}

TEST_P(CudaKernels, GeluEqualsTheReference) {
  constexpr int kCount = 3 * 256 * cuda::kPack + 24;
  const auto in = Draw(kCount, 1, 8), dout = Draw(kCount, 2);
  std::vector<Bf16> out(kCount), d = dout;
  cuda::GeluForward(nullptr, out.data(), in.data(), kCount);
  cuda::GeluBackward(nullptr, d.data(), in.data(), kCount);
  std::vector<double> want(kCount), tanhs(kCount), want_d = Doubles(dout);
  GeluForward(want.data(), tanhs.data(), Doubles(in).data(), kCount);
  GeluBackward(want_d.data(), Doubles(in).data(), tanhs.data(), kCount);
  ExpectNear("out", out, want, kOnce);
  ExpectNear("d", d, want_d, kOnce);
}

struct AttentionShape {
  int sequences, context, heads, head;
};

void CheckAttention(const AttentionShape& shape) {
  const auto [sequences, context, heads, head] = shape;
  SCOPED_TRACE(testing::Message() << sequences << " x " << context << ", "
                                  << heads << " heads of " << head);
  const int width = heads * head;
  const int rows = sequences * context;
  // These values are large enough to make the softmax far from uniform.
  const auto qkv = Draw(3 * rows * width, 1, 2), dout = Draw(rows * width, 2);
  std::vector<Bf16> out(rows * width), dqkv(3 * rows * width, Bf16{0x7fff});
  std::vector<float> lse(rows * heads, NAN), dots(rows * heads, NAN);
  cuda::AttentionForward(nullptr, out.data(), lse.data(), qkv.data(), sequences,
                         context, width, heads);
  cuda::AttentionBackward(nullptr, dqkv.data(), dots.data(), dout.data(),
                          out.data(), qkv.data(), lse.data(), sequences,
                          context, width, heads);

  std::vector<double> want(rows * width), want_dqkv(3 * rows * width);
  std::vector<double> weights(rows * heads * context);
  std::vector<double> scratch(AttentionScratch(context, 1));
  AttentionForward(want.data(), weights.data(), Doubles(qkv).data(), sequences,
                   context, width, heads);
  AttentionBackward(want_dqkv.data(), scratch.data(), Doubles(dout).data(),
                    Doubles(qkv).data(), weights.data(), sequences, context,
                    width, heads);
  ExpectNear("out", out, want, kTwice);
  ExpectNear("dqkv", dqkv, want_dqkv, kTwice);
}

TEST_P(CudaKernels, AttentionEqualsTheReference) {
  CheckAttention({1, 1, 1, 8});
  CheckAttention({2, 7, 3, 16});
  CheckAttention({1, 64, 1, 32});   // Tiles are full.
  CheckAttention({1, 65, 2, 24});   // One row more.
  CheckAttention({1, 130, 1, 40});  // Three blocks of rows, heads of 64.
  CheckAttention({1, 33, 1, 72});   // Heads of 128.
}

void CheckCrossEntropy(int rows, int vocabulary, float scale) {
  SCOPED_TRACE(testing::Message() << rows << " rows of " << vocabulary);
  const int padded = (vocabulary + 127) / 128 * 128;
  const auto targets = DrawTokens(rows, vocabulary, 1);
  auto logits = Draw(rows * padded, 2, 20);
  const std::vector<Bf16> before = logits;
  std::vector<double> want;
  for (int r = 0; r < rows; ++r) {
    for (int i = 0; i < vocabulary; ++i) {
      want.push_back(cuda::ToFloat(logits[r * padded + i]));
    }
  }
  std::vector<float> losses(rows, NAN);
  cuda::CrossEntropy(nullptr, logits.data(), losses.data(), targets.data(),
                     scale, rows, vocabulary, padded);
  const double loss = CrossEntropy(want.data(), targets.data(), double(scale),
                                   rows, vocabulary);
  EXPECT_NEAR(std::accumulate(losses.begin(), losses.end(), 0.0), loss,
              kExact * loss);
  if (scale == 0) {
    for (size_t i = 0; i < logits.size(); ++i) {
      ASSERT_EQ(logits[i].bits, before[i].bits) << i;
    }
    return;
  }
  std::vector<Bf16> got;
  for (int r = 0; r < rows; ++r) {
    for (int i = 0; i < padded; ++i) {
      const Bf16 value = logits[r * padded + i];
      if (i < vocabulary) {
        got.push_back(value);
      } else {
        ASSERT_EQ(value.bits, 0) << "after the vocabulary, row " << r;
      }
    }
  }
  ExpectNear("dlogits", got, want, kOnce);
}

TEST_P(CudaKernels, CrossEntropyEqualsTheReference) {
  CheckCrossEntropy(5, 11, 0.01f);
  CheckCrossEntropy(3, 256, 1);
  CheckCrossEntropy(2, 5003, 1e-5f);  // More than one pass of a block.
  CheckCrossEntropy(3, 300, 0);
}

TEST_P(CudaKernels, LossesAreSummedAfterTheGradients) {
  std::vector<float> losses(1003);
  for (size_t i = 0; i < losses.size(); ++i) losses[i] = 1.0f / (i + 1);
  double sum = NAN, want = 0;
  float extras[2];
  for (float loss : losses) want += loss;
  cuda::SumLosses(nullptr, &sum, extras, losses.data(), losses.size(), 0.25, 1);
  EXPECT_NEAR(sum, want, 1e-12);
  EXPECT_FLOAT_EQ(extras[0], want / 4);
  EXPECT_EQ(extras[1], 1);
  cuda::SumLosses(nullptr, &sum, extras, losses.data(), losses.size(), 0.25, 0,
                  true);
  EXPECT_NEAR(sum, 2 * want, 1e-12);
  EXPECT_FLOAT_EQ(extras[0], want / 2);
  EXPECT_EQ(extras[1], 0);
}

// Compares with the CPU's optimizer over some steps, with tensors cut into
// pieces.
TEST_P(CudaKernels, UpdateEqualsTheReference) {
  GptConfig config;
  config.layers = 1;
  config.heads = 1;
  config.width = 8;
  config.context = 5;
  config.vocabulary = 13;
  const GptLayout layout(config);
  AdamW reference((AdamWConfig()), layout);
  const std::vector<cuda::Piece> pieces = cuda::CutPieces(layout, 100);
  std::vector<float> weights(layout.size), first(layout.size);
  std::vector<float> second(layout.size);
  InitializeWeights(config, layout, 1, absl::MakeSpan(weights));
  std::vector<float> want = weights;
  std::vector<Bf16> copy(cuda::CopySize(layout), Bf16{0});
  const AdamWConfig numbers;
  AdamWPowers powers;
  for (int step = 0; step < 3; ++step) {
    const auto gradients = Floats(Draw(layout.size, step, 0.1 + step));
    double squares = NAN;
    std::vector<double> parts(cuda::kSquareParts, NAN);
    cuda::SumSquares(nullptr, &squares, parts.data(), gradients.data(),
                     layout.size);
    const double norm = reference.Step(absl::MakeSpan(want), gradients, 1e-2f);
    EXPECT_NEAR(std::sqrt(squares), norm, 1e-9 * norm);
    const cuda::AdamWNumbers n =
        cuda::NextNumbers(numbers, std::sqrt(squares), 1e-2f, powers);
    cuda::AdamWStep(nullptr, weights.data(), copy.data(), first.data(),
                    second.data(), gradients.data(), pieces.data(),
                    pieces.size(), n);
  }
  ExpectNear("weights", weights, Doubles(want), kExact);
  ExpectNear("first", first, Doubles(reference.state().first), kExact);
  ExpectNear("second", second, Doubles(reference.state().second), kExact);
  EXPECT_EQ(powers.beta1, reference.state().powers.beta1);

  std::vector<Bf16> rewritten(copy.size(), Bf16{0});
  cuda::CopyWeights(nullptr, rewritten.data(), weights.data(), pieces.data(),
                    pieces.size());
  const std::vector<size_t> at = cuda::CopyOffsets(layout);
  for (size_t t = 0; t < layout.tensors.size(); ++t) {
    const Tensor& tensor = layout.tensors[t];
    for (size_t i = 0; i < tensor.size; ++i) {
      const uint16_t bits = cuda::ToBf16(weights[tensor.offset + i]).bits;
      ASSERT_EQ(copy[at[t] + i].bits, bits) << tensor.name << " at " << i;
      ASSERT_EQ(rewritten[at[t] + i].bits, bits) << tensor.name << " at " << i;
    }
  }
}

// --- The emulation itself ----------------------------------------------------

// Each thread reads its neighbour's number, with or without a barrier.
std::vector<int> Neighbours(bool barrier) {
  std::vector<int> got(64);
  cuda::emulation::Run(dim3(1), 64, 64 * sizeof(int), [&] {
    int* shared = reinterpret_cast<int*>(cuda::SharedMemory());
    const int i = threadIdx.x;
    shared[i] = i;
    if (barrier) cuda::__syncthreads();
    got[i] = shared[(i + 1) % 64];
  });
  return got;
}

// Any number of blocks, a last pair with one value, and sums that are added to.
TEST_P(CudaKernels, FingerprintsEqualTheCpus) {
  for (const size_t count : {1, 2, 255, 4097, 3 * 4096 + 1}) {
    SCOPED_TRACE(count);
    const auto values = Floats(Draw(count, 3, 1));
    std::vector<uint64_t> parts(cuda::kFingerprintParts, 99);
    uint64_t sum = 7;
    cuda::Fingerprint(nullptr, &sum, parts.data(), values.data(), count, 0);
    const uint64_t want = FingerprintOf(values, 0);
    EXPECT_EQ(sum, want);
    cuda::Fingerprint(nullptr, &sum, parts.data(), values.data(), count,
                      kFingerprintPairsMax, true);
    EXPECT_EQ(sum, want + FingerprintOf(values, kFingerprintPairsMax));
  }
}

TEST_P(CudaKernels, MissingBarrierIsFound) {
  std::vector<int> want(64);
  for (int i = 0; i < 64; ++i) want[i] = (i + 1) % 64;
  EXPECT_EQ(Neighbours(true), want);
  EXPECT_NE(Neighbours(false), want);
}

TEST_P(CudaKernels, SharedMemoryStartsAsNaN) {
  int numbers = 0;
  cuda::emulation::Run(dim3(2), 32, 32 * sizeof(float), [&] {
    float* shared = reinterpret_cast<float*>(cuda::SharedMemory());
    if (!std::isnan(shared[threadIdx.x])) ++numbers;
    shared[threadIdx.x] = 0;
  });
  EXPECT_EQ(numbers, 0);
}

}  // namespace
}  // namespace rollcall
