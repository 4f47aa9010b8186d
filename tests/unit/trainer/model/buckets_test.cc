#include "trainer/model/buckets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "trainer/model/backend.h"
#include "trainer/model/random.h"

namespace rollcall {
namespace {

struct Row {
  const char* what;
  GptConfig config;
  size_t extras;
  size_t bucket_bytes;
  std::vector<int> blocks;  // The block that each bucket waits for.
};

// At width 8, a block has 872 values (3,488 bytes), and the tables have 2,048 +
// 8 x context.
const Row kRows[] = {
    {"a bucket a block", {3, 1, 8, 4, 256}, 2, 1, {2, 1, 0, -1}},
    {"just a block's size", {3, 1, 8, 4, 256}, 0, 3488, {2, 1, 0, -1}},
    // Only the last block reaches that size, together with the final norm and
    // the extras.
    {"a block and a bit", {3, 1, 8, 4, 256}, 2, 3489, {2, 0, -1}},
    {"two blocks", {4, 1, 8, 4, 256}, 2, 2 * 3488, {2, 0, -1}},
    {"two, one is left", {3, 1, 8, 4, 256}, 2, 2 * 3488, {1, -1}},
    {"one block", {1, 1, 8, 4, 256}, 2, 1, {0, -1}},
    {"one block, all in one", {1, 1, 8, 4, 256}, 2, 1 << 20, {-1}},
    {"a large vocabulary", {2, 1, 8, 4, 50257}, 2, 4000, {0, -1}},
    {"no extras", {2, 1, 8, 4, 256}, 0, 1, {1, 0, -1}},
};

TEST(Buckets, AreCutAsInTheTable) {
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.what);
    const GptLayout layout(row.config);
    const std::vector<Bucket> buckets =
        CutBuckets(layout, row.extras, row.bucket_bytes);
    std::vector<int> blocks;
    size_t end = layout.size + row.extras;
    for (const Bucket& bucket : buckets) {
      blocks.push_back(bucket.block);
      EXPECT_EQ(bucket.end, end) << "a gap, or an overlap";
      EXPECT_LT(bucket.begin, bucket.end);
      const bool last = bucket.block == Bucket::kTables;
      EXPECT_EQ(bucket.begin,
                last ? 0 : layout.blocks[bucket.block].norm1_gain);
      if (!last) {
        EXPECT_GE((bucket.end - bucket.begin) * sizeof(float),
                  row.bucket_bytes);
      }
      end = bucket.begin;
    }
    EXPECT_EQ(end, 0u);
    EXPECT_EQ(absl::StrJoin(blocks, " "), absl::StrJoin(row.blocks, " "));
  }
}

TEST(Buckets, OfPublishedSizesHaveMegabytes) {
  // The 124M model has one bucket per block (28 MB), and then the tables.
  const GptLayout layout(GptConfig{12, 12, 768, 1024, 50257});
  EXPECT_EQ(CutBuckets(layout, kExtras).size(), 13u);
  // gpt2-nano is smaller than one bucket.
  EXPECT_EQ(CutBuckets(GptLayout(GptConfig()), kExtras).size(), 1u);
}

// A bucket that was reported as finished must not change: a collective that
// reduces it would lose a later addition. The model is wide, so that there is
// more than one bucket.
TEST(Buckets, DoNotChangeOnceFinished) {
  const GptConfig config{3, 4, 320, 6, 256};
  absl::StatusOr<std::unique_ptr<Backend>> made =
      MakeCpuBackend(config, AdamWConfig());
  ASSERT_TRUE(made.ok()) << made.status();
  Backend& backend = **made;
  ASSERT_TRUE(backend.Reserve(2).ok());
  ASSERT_TRUE(backend.Reset(7).ok());
  ASSERT_EQ(backend.buckets().size(), 4u);
  Random random(3);
  for (const size_t sequences : {0, 1, 2}) {
    SCOPED_TRACE(absl::StrCat(sequences, " sequences"));
    std::vector<Token> tokens, targets;
    for (size_t i = 0; i < sequences * config.context; ++i) {
      tokens.push_back(random.Next() % 256);
      targets.push_back(random.Next() % 256);
    }
    std::vector<Bucket> seen;
    std::vector<std::vector<float>> copies;
    const absl::Status status = backend.LossAndGradients(
        tokens, targets, 0.1f, true, [&](const Bucket& bucket) {
          seen.push_back(bucket);
          const auto values = backend.gradients().subspan(
              bucket.begin, bucket.end - bucket.begin);
          copies.emplace_back(values.begin(), values.end());
          return absl::OkStatus();
        });
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_EQ(seen.size(), backend.buckets().size());
    for (size_t i = 0; i < seen.size(); ++i) {
      EXPECT_EQ(seen[i].begin, backend.buckets()[i].begin);
      EXPECT_EQ(seen[i].end, backend.buckets()[i].end);
      const auto now = backend.gradients().subspan(seen[i].begin,
                                                   seen[i].end - seen[i].begin);
      EXPECT_EQ(
          std::memcmp(now.data(), copies[i].data(), now.size() * sizeof(float)),
          0)
          << "bucket " << i << " was written after it had been finished";
      const bool zero = std::all_of(copies[i].begin(), copies[i].end() - 2,
                                    [](float g) { return g == 0; });
      EXPECT_EQ(zero, sequences == 0);
    }
    EXPECT_EQ(backend.ReadExtras()->stops, 1);
  }
}

TEST(Buckets, AnErrorOfTheReceiverEndsTheCall) {
  const GptConfig config{3, 4, 320, 6, 256};
  std::unique_ptr<Backend> backend = *MakeCpuBackend(config, AdamWConfig());
  ASSERT_TRUE(backend->Reserve(1).ok());
  ASSERT_TRUE(backend->Reset(7).ok());
  const std::vector<Token> tokens(config.context, 1);
  int calls = 0;
  const absl::Status status = backend->LossAndGradients(
      tokens, tokens, 0.1f, false, [&](const Bucket&) {
        return ++calls == 2 ? absl::AbortedError("over") : absl::OkStatus();
      });
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace rollcall
