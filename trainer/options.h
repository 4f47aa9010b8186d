// TrainOptions: what the command line of rollcall-train says.
#ifndef ROLLCALL_TRAINER_OPTIONS_H_
#define ROLLCALL_TRAINER_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "trainer/model/adamw.h"
#include "trainer/model/parameters.h"

namespace rollcall {

struct TrainOptions {
  std::vector<std::string> data;
  GptConfig model;
  AdamWConfig optimizer;
  int64_t steps = 200;
  int batch = 16;  // Of all ranks together.
  float learning_rate = 3e-3f;
  int64_t warmup = 20;
  uint64_t seed = 1;
  int64_t log_every = 10;
  absl::Duration collective_timeout = absl::Seconds(30);

  static constexpr int kBatchMost = 65536;
};

// Reads the command line. Returns the exit code where nothing is to be trained:
// 0 after --help or --version, 2 after a message on stderr.
std::optional<int> ParseOptions(int argc, const char* const* argv,
                                TrainOptions* options);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_OPTIONS_H_
