// train_steps MODEL SEQUENCES[/MICRO_BATCH] STEPS [cuda]: for each line on
// stdin, executes STEPS steps (gradients and update) and prints the seconds
// that they took. MICRO_BATCH is the number of sequences at once (default: all
// of them). On the CPU it uses random bytes, and OPENBLAS_NUM_THREADS sets the
// number of threads; with `cuda` it uses the first GPU and random tokens of
// GPT-2.
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "daemon/base/check.h"
#include "daemon/base/clock.h"
#include "trainer/cuda/cuda.h"
#include "trainer/model/backend.h"
#include "trainer/model/cpu/openblas.h"
#include "trainer/model/random.h"
#include "trainer/model/sizes.h"

namespace rollcall {
namespace {

int Run(Backend* backend, int sequences, int micro_batch, int steps) {
  const GptConfig& config = backend->config();
  if (absl::Status s = backend->Reserve(micro_batch); !s.ok()) {
    std::fprintf(stderr, "train_steps: %s\n", s.ToString().c_str());
    return 1;
  }
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
      CHECK(backend->Update(1e-4f, kAnyNorm).ok());
    }
    CHECK(backend->ReadExtras().ok());  // Waits until a GPU has finished.
    std::printf("%.6f\n", absl::ToDoubleSeconds(MonotonicNow() - begun));
    std::fflush(stdout);
  }
  return 0;
}

int RunOnGpu(const GptConfig& config, int sequences, int micro_batch,
             int steps) {
  const auto device = CudaDevice::Choose(0);
  absl::Status status = device.status();
  if (status.ok()) {
    const auto backend = MakeCudaBackend(config, AdamWConfig(), **device);
    if (backend.ok()) {
      std::fprintf(stderr, "train_steps: %s\n",
                   (*device)->description().c_str());
      return Run(backend->get(), sequences, micro_batch, steps);
    }
    status = backend.status();
  }
  std::fprintf(stderr, "train_steps: %s\n", status.ToString().c_str());
  return 1;
}

}  // namespace
}  // namespace rollcall

int main(int argc, char** argv) {
  rollcall::ChooseOpenBlasKernels(argv);
  int sequences = 0, micro_batch = 0, steps = 0;
  const bool cuda = argc == 5 && argv[4] == std::string("cuda");
  const std::pair<std::string, std::string> sizes =
      absl::StrSplit(argc > 2 ? argv[2] : "", absl::MaxSplits('/', 1));
  if ((argc == 4 || cuda) && absl::SimpleAtoi(sizes.first, &sequences) &&
      sequences > 0 &&
      absl::SimpleAtoi(sizes.second.empty() ? sizes.first : sizes.second,
                       &micro_batch) &&
      micro_batch > 0 && absl::SimpleAtoi(argv[3], &steps) && steps > 0) {
    const auto config = rollcall::ConfigOf(
        argv[1], cuda ? rollcall::kGpt2Vocabulary : rollcall::kByteVocabulary);
    if (config.ok() && cuda) {
      return rollcall::RunOnGpu(*config, sequences, micro_batch, steps);
    }
    if (config.ok()) {
      return rollcall::Run(
          rollcall::MakeCpuBackend(*config, rollcall::AdamWConfig())->get(),
          sequences, micro_batch, steps);
    }
  }
  std::fprintf(stderr,
               "train_steps MODEL SEQUENCES[/MICRO_BATCH] STEPS [cuda]\n");
  return 2;
}
