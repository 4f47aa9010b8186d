// train_steps MODEL SEQUENCES STEPS: for each line on stdin, executes STEPS
// steps (gradients and update) on random bytes and prints the seconds that they
// took.
//
// OPENBLAS_NUM_THREADS sets the number of threads.
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "daemon/base/check.h"
#include "daemon/base/clock.h"
#include "trainer/model/backend.h"
#include "trainer/model/openblas.h"
#include "trainer/model/random.h"
#include "trainer/model/sizes.h"

namespace rollcall {
namespace {

int Run(const GptConfig& config, int sequences, int steps) {
  std::unique_ptr<Backend> backend = *MakeCpuBackend(config, AdamWConfig());
  CHECK(backend->Reserve(sequences).ok());
  CHECK(backend->Reset(1).ok());
  const size_t count = size_t(sequences) * config.context;
  std::vector<Token> tokens(count), targets(count);
  Random random(1);
  for (size_t i = 0; i < count; ++i) {
    tokens[i] = random.Next() % config.vocabulary;
    targets[i] = random.Next() % config.vocabulary;
  }
  for (std::string line; std::getline(std::cin, line);) {
    const absl::Time begun = MonotonicNow();
    for (int i = 0; i < steps; ++i) {
      CHECK(
          backend
              ->LossAndGradients(tokens, targets, 1.0f / count, false,
                                 [](const Bucket&) { return absl::OkStatus(); })
              .ok());
      CHECK(backend->Update(1e-4f).ok());
    }
    std::printf("%.6f\n", absl::ToDoubleSeconds(MonotonicNow() - begun));
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace rollcall

int main(int argc, char** argv) {
  rollcall::ChooseOpenBlasKernels(argv);
  int sequences = 0, steps = 0;
  if (argc == 4 && absl::SimpleAtoi(argv[2], &sequences) && sequences > 0 &&
      absl::SimpleAtoi(argv[3], &steps) && steps > 0) {
    const auto config = rollcall::ConfigOf(argv[1], rollcall::kByteVocabulary);
    if (config.ok()) return rollcall::Run(*config, sequences, steps);
  }
  std::fprintf(stderr, "train_steps MODEL SEQUENCES STEPS\n");
  return 2;
}
