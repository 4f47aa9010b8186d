// What the tests on a GPU share. Without a GPU each test is skipped and says
// why.
//
// Tolerances: activations are bf16 (8 bits), so a loss is off by about 0.1%,
// and a gradient by 3% of its length.
#ifndef ROLLCALL_TESTS_UNIT_TRAINER_CUDA_ON_GPU_H_
#define ROLLCALL_TESTS_UNIT_TRAINER_CUDA_ON_GPU_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <random>
#include <vector>

#include "trainer/cuda/cuda.h"

namespace rollcall {

inline constexpr double kLoss = 2e-3;

inline GptConfig Nano() { return GptConfig(); }

inline std::vector<Token> Draw(const GptConfig& config, int sequences,
                               int seed) {
  std::mt19937 random(seed);
  std::vector<Token> tokens(size_t(sequences) * config.context);
  for (Token& t : tokens) t = random() % config.vocabulary;
  return tokens;
}

#define SKIP_WITHOUT_GPU()                         \
  if (absl::Status s = CudaAvailable(); !s.ok()) { \
    GTEST_SKIP() << s.message();                   \
  }

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_TRAINER_CUDA_ON_GPU_H_
