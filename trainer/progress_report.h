// ProgressReport: says how a training goes: a bar with the time that is left on
// a terminal, otherwise a line a step, for a person or as JSON.
//
// The texts are pure functions of what they tell; ProgressReport adds the
// clock and the stream. It never blocks for longer than a write does.
//
// Thread rule: one thread.
#ifndef ROLLCALL_TRAINER_PROGRESS_REPORT_H_
#define ROLLCALL_TRAINER_PROGRESS_REPORT_H_

#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/time/time.h"
#include "trainer/step_result.h"

namespace rollcall {

struct Progress {
  int64_t step = 0;
  int64_t steps = 0;  // In all.
  double loss = 0;
  float learning_rate = 0;
  double samples_per_second = 0;  // Of the whole world.
  double tokens_per_second = 0;
  int world_size = 1;
  uint64_t generation = 0;                         // 0: without an agent.
  absl::Duration left = absl::InfiniteDuration();  // Infinite: not known yet.
};

// `step 12 loss 3.21 104.5 samples/s lr 3.0e-03 world 3 generation 1`.
std::string PlainLine(const Progress& progress);
// One object: step, steps, loss, learning_rate, samples_per_second,
// tokens_per_second, world_size, generation, eta_s (null: not known). What is
// no finite number is null.
std::string JsonLine(const Progress& progress);
// `[#####-----] 600/1200  50%  loss 3.21  1234 tokens/s  2 min left`, within
// `columns`.
std::string BarLine(const Progress& progress, int columns);

enum class ReportStyle { kPlain, kJson, kBar };

struct ReportOptions {
  ReportStyle style = ReportStyle::kPlain;
  int64_t every = 1;  // Steps between two lines; a bar moves in time instead.
  // Says nothing, and measures all the same.
  bool silent = false;
};

class ProgressReport {
 public:
  // `out` must outlive it.
  ProgressReport(const ReportOptions& options, std::FILE* out);
  // Ends the bar's line.
  ~ProgressReport();
  ProgressReport(const ProgressReport&) = delete;
  ProgressReport& operator=(const ProgressReport&) = delete;

  // What is known of the world and the run: all but what a step tells. The
  // clock starts here, after `steps_done`.
  void BeginWorld(const Progress& known, int64_t steps_done, int batch,
                  int context);
  // After each step; the world's first and the run's last one are always told.
  // Returns what is known now.
  const Progress& Tell(const StepResult& result);

 private:
  void Measure(int64_t step);
  void Draw(bool now);

  const ReportOptions options_;
  std::FILE* const out_;
  Progress now_;
  int batch_ = 1;
  int context_ = 1;
  int64_t first_ = 1;
  absl::Time since_;
  // Running mean of a step's time; 0: none yet.
  double step_s_ = 0;
  absl::Time drawn_ = absl::InfinitePast();
  bool line_open_ = false;
};

// A bar where `out` is a terminal, plain lines otherwise.
ReportStyle StyleFor(std::FILE* out);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_PROGRESS_REPORT_H_
