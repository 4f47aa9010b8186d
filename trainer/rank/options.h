// TrainOptions: the command line of rollcall-train, parsed.
#ifndef ROLLCALL_TRAINER_RANK_OPTIONS_H_
#define ROLLCALL_TRAINER_RANK_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "trainer/check/check_options.h"
#include "trainer/model/adamw.h"
#include "trainer/model/parameters.h"
#include "trainer/model/schedule.h"

namespace rollcall {

// Which ranks write checkpoints. Rank 0 is enough if all nodes see the same
// folder. With one folder per node, a node that returns finds its own
// checkpoint.
enum class SavedBy { kRankZero, kEveryNode };

// The device of the model. kAuto: a GPU if there is one.
enum class DeviceKind { kAuto, kCpu, kCuda };

struct TrainOptions {
  std::vector<std::string> data;
  std::vector<std::string> validation_data;  // Empty: no validation.
  int64_t validate_every = 250;              // Steps.
  int64_t validation_batches = 20;           // How much of the data; see batch.
  std::string size = "gpt2-nano";
  GptConfig model;
  AdamWConfig optimizer;
  int64_t steps = 200;
  int batch = 16;       // Samples per step, of all ranks together.
  int micro_batch = 0;  // Samples per micro-batch of a rank; 0: as many as fit.
  double memory_max = 0;  // Bytes that a rank may use, for tests; 0: no limit.
  float learning_rate = 3e-3f;              // At its peak.
  std::optional<float> last_learning_rate;  // Default: a tenth of the peak.
  Schedule schedule = Schedule::kCosine;
  int64_t warmup = 20;
  uint64_t seed = 1;
  // A step is skipped if its gradients' norm is above so many times the median
  // of those before, or its loss is not finite; 0: none is skipped.
  double skip_spikes = 0;
  DeviceKind device = DeviceKind::kAuto;

  // A folder with a GPT-2 whose weights the training begins with; empty: first
  // weights from the seed. `model` then has the folder's vocabulary.
  std::string init_from;
  // Text with which the model begins to generate; empty: train.
  std::string sample;
  int64_t sample_tokens = 256;
  double temperature = 1;
  std::string checkpoints;  // A folder; empty: no checkpoints.
  int64_t save_every = 100;
  int keep_last = 3;
  SavedBy saved_by = SavedBy::kRankZero;
  // A checkpoint that was trained on other data may be resumed from; it begins
  // with the first sample of the new data.
  bool new_data = false;

  // Steps between two lines; 0: one line a second at most, and in JSON one for
  // each step.
  int64_t log_every = 0;
  bool log_json = false;
  bool all_ranks_log = false;
  // For how long a peer may stay silent in a collective. Under an agent the
  // job's --hang-timeout finds the stalled rank; this is the fallback.
  absl::Duration collective_timeout = absl::Minutes(30);

  CheckOptions check;
  // The agent's paired check; see check_group.h.
  bool check_group = false;

  static constexpr int kBatchMax = 65536;

  LearningRates learning_rates() const {
    return {learning_rate, last_learning_rate.value_or(learning_rate / 10),
            warmup, steps, schedule};
  }
};

// Parses the command line. Returns the exit code if the process has to exit
// now: 0 after --help or --version, 2 after a message on stderr, which `error`
// receives too.
std::optional<int> ParseOptions(int argc, const char* const* argv,
                                TrainOptions* options,
                                std::string* error = nullptr);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_RANK_OPTIONS_H_
