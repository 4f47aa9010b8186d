// ProgressReport: prints the progress of a training: a progress bar with the
// remaining time on a terminal, otherwise lines, as text or as JSON.
//
// The texts are pure functions of their arguments; ProgressReport adds the
// clock and the stream. It never blocks for longer than one write.
//
// Thread rule: one thread.
#ifndef ROLLCALL_TRAINER_STEPS_PROGRESS_REPORT_H_
#define ROLLCALL_TRAINER_STEPS_PROGRESS_REPORT_H_

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "trainer/steps/step_result.h"

namespace rollcall {

struct Progress {
  int64_t step = 0;
  int64_t steps = 0;  // Total.
  double loss = 0;
  float learning_rate = 0;
  double gradient_norm = 0;
  std::optional<double> validation_loss;  // Of the latest validation.
  bool validated = false;                 // It was after this step.
  double samples_per_second = 0;          // Of all ranks together.
  double tokens_per_second = 0;
  // At this speed the devices of all ranks would do only the operations of the
  // model, at their peak.
  std::optional<double> tokens_per_second_peak;
  std::optional<double> flops_utilization;  // The ratio of the two (MFU).
  uint64_t memory_bytes = 0;                // See StepResult.
  int64_t skipped_steps = 0;                // The same.
  int world_size = 1;
  uint64_t generation = 0;                         // 0: no agent.
  absl::Duration left = absl::InfiniteDuration();  // Infinite: unknown.
};

// `step 12 loss 3.21 104.5 samples/s lr 3.0e-03 norm 0.52 mfu 41.2% world 3
// generation 1`, without the mfu if it is unknown, and after a validation
// followed by ` validation loss 3.30`.
std::string PlainLine(const Progress& progress);
// One JSON object: step, steps, loss, learning_rate, gradient_norm,
// samples_per_second, tokens_per_second, world_size, generation, eta_s,
// flops_utilization, memory_bytes, skipped_steps, validation_loss (only after a
// validation). A number that is unknown or not finite is null.
std::string JsonLine(const Progress& progress);
// `[#####-----] 600/1200  50%  loss 3.21  1234 tokens/s  2 min left`, at most
// `columns` wide; with the latest validation's loss, if there was one.
std::string BarLine(const Progress& progress, int columns);

// Whether a step gets a line. `first`: the first step of its world. That step,
// the last one of a run and one with a validation always get one. `since`: the
// time since the last line.
bool GetsLine(const Progress& progress, int64_t first, int64_t every,
              absl::Duration since);

enum class ReportStyle { kPlain, kJson, kBar };

struct ReportOptions {
  ReportStyle style = ReportStyle::kPlain;
  // Steps between two lines; 0: at most one line a second. A bar is redrawn at
  // time intervals.
  int64_t every = 1;
  // Prints nothing, but still measures.
  bool silent = false;
};

class ProgressReport {
 public:
  // `out` must outlive this object.
  ProgressReport(const ReportOptions& options, std::FILE* out);
  // Ends the bar's line.
  ~ProgressReport();
  ProgressReport(const ProgressReport&) = delete;
  ProgressReport& operator=(const ProgressReport&) = delete;

  // Sets what is known of the world and the run, and starts the clock after
  // step `steps_done`. Tell adds each step's values.
  void BeginWorld(const Progress& known, int64_t steps_done, int batch,
                  int context);
  // To be called after each step. The first step of a world and the last step
  // of a run are always printed. Returns the current values.
  const Progress& Tell(const StepResult& result);

 private:
  void Measure(const StepResult& result);
  void Draw(bool now);

  const ReportOptions options_;
  std::FILE* const out_;
  Progress now_;
  int batch_ = 1;
  int context_ = 1;
  int64_t first_ = 1;
  absl::Time since_;
  // Running mean of the seconds per step; 0: none yet.
  double step_s_ = 0;
  absl::Time drawn_ = absl::InfinitePast();
  bool line_open_ = false;
};

// A bar if `out` is a terminal, plain lines otherwise.
ReportStyle StyleFor(std::FILE* out);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_STEPS_PROGRESS_REPORT_H_
