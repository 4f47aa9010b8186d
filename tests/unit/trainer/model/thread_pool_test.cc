#include "trainer/model/cpu/thread_pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "trainer/model/adamw.h"
#include "trainer/model/layers.h"
#include "trainer/model/random.h"

namespace rollcall {
namespace {

TEST(ThreadPool, ExecutesEveryPieceOnce) {
  struct Row {
    int threads;
    int64_t count, grain;
  };
  const Row kRows[] = {{1, 10, 1},  {2, 0, 1},   {2, 1, 1},   {2, 10, 1},
                       {3, 10, 4},  {3, 2, 1},   {4, 9, 4},   {5, 1000, 16},
                       {2, 16, 16}, {8, 17, 16}, {3, 12, 100}};
  ThreadPool pool;
  for (const Row& row : kRows) {
    SCOPED_TRACE(
        absl::StrCat(row.threads, " threads, ", row.count, " by ", row.grain));
    pool.Resize(row.threads);
    EXPECT_EQ(pool.threads(), row.threads);
    std::vector<int> done(row.count), parts(row.threads);
    pool.Split(row.count, row.grain, [&](int64_t begin, int64_t end, int part) {
      EXPECT_EQ(begin % row.grain, 0);
      EXPECT_LT(begin, end);
      ++parts[part];
      for (int64_t i = begin; i < end; ++i) ++done[i];
    });
    EXPECT_EQ(done, std::vector<int>(row.count, 1));
    for (const int times : parts) EXPECT_LE(times, 1);
  }
}

TEST(ThreadPool, RunsManyRounds) {
  ThreadPool pool;
  pool.Resize(3);
  std::vector<int64_t> values(100);
  for (int round = 0; round < 1000; ++round) {
    pool.Split(values.size(), 10, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) values[i] += i;
    });
  }
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(values[i], 1000 * static_cast<int64_t>(i));
  }
}

std::vector<float> Uniform(size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& v : values) {
    v = static_cast<float>(random.Next() >> 40) / (1 << 24) - 0.5f;
  }
  return values;
}

constexpr int64_t kContext = 20, kHeads = 5, kWidth = 165, kSequences = 7;
constexpr int64_t kRows = kSequences * kContext;

// Returns everything that the layers write.
std::vector<float> Layers(ThreadPool* pool) {
  std::vector<float> all;
  const auto room = [](size_t count) { return std::vector<float>(count); };
  const auto take = [&](const std::vector<float>& values) {
    all.insert(all.end(), values.begin(), values.end());
  };
  const size_t narrow = kRows * kWidth;
  const std::vector<float> in = Uniform(3 * narrow, 1);
  const std::vector<float> d = Uniform(3 * narrow, 2);
  const std::vector<float> gain = Uniform(3 * kWidth, 3);
  auto y = room(narrow), mean = room(kRows), rstd = room(kRows);
  LayerNormForward(y.data(), mean.data(), rstd.data(), in.data(), gain.data(),
                   gain.data() + 1, kRows, kWidth, pool);
  take(y);
  auto dgain = room(kWidth), dbias = room(kWidth);
  LayerNormBackward(y.data(), dgain.data(), dbias.data(), d.data(), in.data(),
                    gain.data(), mean.data(), rstd.data(), kRows, kWidth, pool);
  take(y);
  take(dgain);
  take(dbias);
  auto tanhs = room(narrow);
  GeluForward(y.data(), tanhs.data(), in.data(), narrow, pool);
  take(y);
  GeluBackward(y.data(), in.data(), tanhs.data(), narrow, pool);
  take(y);
  auto weights = room(kSequences * kHeads * kContext * kContext);
  AttentionForward(y.data(), weights.data(), in.data(), kSequences, kContext,
                   kWidth, kHeads, pool);
  take(y);
  auto dqkv = room(3 * narrow);
  auto scratch =
      room(AttentionScratch(kContext, pool == nullptr ? 1 : pool->threads()));
  AttentionBackward(dqkv.data(), scratch.data(), d.data(), in.data(),
                    weights.data(), kSequences, kContext, kWidth, kHeads, pool);
  take(dqkv);
  std::vector<float> logits = in;
  const std::vector<Token> targets(kRows, 3);
  take({static_cast<float>(CrossEntropy(logits.data(), targets.data(), 0.5f,
                                        kRows, 3 * kWidth, pool))});
  take(logits);
  std::vector<float> matrix = Uniform(kWidth * kWidth, 4);
  LinearForward(y.data(), in.data(), matrix.data(), gain.data(), kRows, kWidth,
                kWidth, d.data(), pool);
  take(y);
  auto dmatrix = room(kWidth * kWidth);
  LinearBackward(y.data(), dmatrix.data(), dbias.data(), d.data(), in.data(),
                 matrix.data(), kRows, kWidth, kWidth, pool);
  take(dbias);
  return all;
}

TEST(ThreadPool, LayersGiveTheSameBitsForAnyNumber) {
  const std::vector<float> expect = Layers(nullptr);
  for (const int threads : {1, 2, 3, 5}) {
    ThreadPool pool;
    pool.Resize(threads);
    const std::vector<float> got = Layers(&pool);
    ASSERT_EQ(got.size(), expect.size());
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(std::memcmp(&got[i], &expect[i], sizeof(float)), 0)
          << threads << " threads, value " << i;
    }
  }
}

TEST(ThreadPool, AdamWGivesTheSameBitsForAnyNumber) {
  const GptConfig config{2, 2, 40, 8, 3000};
  const GptLayout layout(config);
  const auto run = [&](ThreadPool* pool) {
    AdamW adamw(AdamWConfig(), layout);
    std::vector<float> weights = Uniform(layout.size, 5);
    double norm = 0;
    for (const uint64_t step : {1, 2, 3}) {
      const std::vector<float> gradients = Uniform(layout.size, 5 + step);
      norm += adamw.Step(absl::MakeSpan(weights), gradients, 0.01f, pool);
    }
    weights.push_back(static_cast<float>(norm));
    return weights;
  };
  const std::vector<float> expect = run(nullptr);
  for (const int threads : {1, 2, 3, 5}) {
    ThreadPool pool;
    pool.Resize(threads);
    EXPECT_EQ(run(&pool), expect) << threads << " threads";
  }
}

}  // namespace
}  // namespace rollcall
