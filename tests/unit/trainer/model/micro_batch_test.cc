// A step in micro-batches gives the same bits as a step in one.
#include <cblas.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "trainer/model/backend.h"
#include "trainer/model/gpt.h"
#include "trainer/model/random.h"

namespace rollcall {
namespace {

struct Course {
  std::vector<float> losses, gradients, weights;
  double loss = 0;  // The loss without a backward pass.
};

// Does some steps of `sequences` each, with `at_once` in a micro-batch.
Course Train(const GptConfig& config, int sequences, int at_once) {
  Course course;
  std::unique_ptr<Backend> backend = *MakeCpuBackend(config, AdamWConfig());
  EXPECT_TRUE(backend->Reserve(at_once).ok());
  EXPECT_TRUE(backend->Reset(7).ok());
  Random random(3);
  std::vector<Token> tokens(sequences * config.context), targets(tokens.size());
  for (int step = 0; step < 2; ++step) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = random.Next() % config.vocabulary;
      targets[i] = random.Next() % config.vocabulary;
    }
    size_t end = backend->layout().size + kExtras;
    const absl::Status status =
        backend->LossAndGradients(tokens, targets, 1.0f / tokens.size(),
                                  step == 1, [&](const Bucket& bucket) {
                                    EXPECT_EQ(bucket.end, end);
                                    end = bucket.begin;
                                    return absl::OkStatus();
                                  });
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(end, 0u);
    EXPECT_EQ(backend->ReadExtras()->stops, step == 1 ? 1 : 0);
    course.losses.push_back(backend->ReadExtras()->loss);
    const auto gradients = backend->gradients();
    course.gradients.insert(course.gradients.end(), gradients.begin(),
                            gradients.end());
    EXPECT_TRUE(backend->Update(1e-2f, kAnyNorm).ok());
  }
  const auto weights = backend->state(StatePart::kWeights);
  course.weights.assign(weights.begin(), weights.end());
  course.loss = *backend->Loss(tokens, targets);
  return course;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

struct Sizes {
  const char* what;
  GptConfig config;  // Layers, heads, width, context, vocabulary.
  int sequences;
  int threads;
};
// Each share has more than one unit, and the last unit is smaller.
const Sizes kSizes[] = {
    {"a unit is eight sequences", {2, 2, 16, 128, 61}, 19, 2},
    {"a unit is two, of more positions", {1, 2, 16, 600, 50}, 5, 1},
    {"a unit is one", {1, 1, 16, 1030, 16}, 3, 1},
    {"more than one bucket", {1, 2, 320, 64, 64}, 17, 1},
};

TEST(MicroBatch, EverySizeGivesTheSameBits) {
  const int threads = openblas_get_num_threads();
  for (const Sizes& row : kSizes) {
    SCOPED_TRACE(row.what);
    openblas_set_num_threads(row.threads);
    ASSERT_GT(row.sequences, Gpt<float>::UnitSequences(row.config));
    const Course whole = Train(row.config, row.sequences, row.sequences);
    for (int at_once : {1, 3, row.sequences / 2}) {
      SCOPED_TRACE(at_once);
      const Course parts = Train(row.config, row.sequences, at_once);
      EXPECT_TRUE(SameBits(parts.losses, whole.losses));
      EXPECT_TRUE(SameBits(parts.gradients, whole.gradients));
      EXPECT_TRUE(SameBits(parts.weights, whole.weights));
      EXPECT_EQ(parts.loss, whole.loss);
    }
  }
  openblas_set_num_threads(threads);
}

TEST(MicroBatch, TakesLessMemory) {
  std::unique_ptr<Backend> backend =
      *MakeCpuBackend(GptConfig(), AdamWConfig());
  const int unit = Gpt<float>::UnitSequences(GptConfig());
  EXPECT_EQ(backend->ActivationBytes(1), backend->ActivationBytes(unit));
  EXPECT_LT(backend->ActivationBytes(unit), backend->ActivationBytes(unit + 1));
  EXPECT_EQ(backend->ActivationBytes(2 * unit),
            backend->ActivationBytes(unit + 1));
  ASSERT_TRUE(backend->Reserve(1).ok());
  EXPECT_GE(*backend->RoomForActivations(1), backend->ActivationBytes(1));
  // The memory that the backend already has counts as room, and is not shared
  // with other ranks.
  EXPECT_GE(*backend->RoomForActivations(1000000), backend->ActivationBytes(1));
}

}  // namespace
}  // namespace rollcall
