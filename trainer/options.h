// TrainOptions: what the command line of rollcall-train says.
#ifndef ROLLCALL_TRAINER_OPTIONS_H_
#define ROLLCALL_TRAINER_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "trainer/check/check_options.h"
#include "trainer/model/adamw.h"
#include "trainer/model/parameters.h"

namespace rollcall {

// Which ranks write checkpoints. One is enough where all nodes see one folder;
// with a folder a node, a node that comes back has one of its own.
enum class SavedBy { kRankZero, kEveryNode };

// Where models live. kAuto: on a GPU where there is one.
enum class DeviceKind { kAuto, kCpu, kCuda };

struct TrainOptions {
  std::vector<std::string> data;
  std::string size = "gpt2-nano";
  GptConfig model;
  AdamWConfig optimizer;
  int64_t steps = 200;
  int batch = 16;  // Of all ranks together.
  float learning_rate = 3e-3f;
  int64_t warmup = 20;
  uint64_t seed = 1;
  DeviceKind device = DeviceKind::kAuto;

  std::string checkpoints;  // A folder; empty: none are written or read.
  int64_t save_every = 100;
  int keep_last = 3;
  SavedBy saved_by = SavedBy::kRankZero;

  int64_t log_every = 1;
  bool log_json = false;
  bool all_ranks_log = false;
  // How long a peer may stay silent in a collective. Under an agent the job's
  // --hang-timeout finds who stalls, and this is for when nobody does.
  absl::Duration collective_timeout = absl::Minutes(30);

  CheckOptions check;

  static constexpr int kBatchMost = 65536;
};

// Reads the command line. Returns the exit code where nothing is to be trained:
// 0 after --help or --version, 2 after a message on stderr.
std::optional<int> ParseOptions(int argc, const char* const* argv,
                                TrainOptions* options);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_OPTIONS_H_
