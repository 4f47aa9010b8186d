#include "trainer/steps/progress_report.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/base/clock.h"
#include "nlohmann/json.hpp"

namespace rollcall {
namespace {

constexpr absl::Duration kBetweenBars = absl::Milliseconds(100);
constexpr absl::Duration kBetweenLines = absl::Seconds(1);
constexpr int kColumns = 80;
constexpr int kBarMin = 10;
constexpr int kBarMax = 40;
// The weight of the latest step in the running mean.
constexpr double kFresh = 0.1;

nlohmann::ordered_json Finite(double value) {
  if (!std::isfinite(value)) return nullptr;
  return value;
}

// Formats: `45 s`, `4 min 10 s`, `3 h 5 min`.
std::string LeftText(absl::Duration left) {
  const int64_t seconds = absl::ToInt64Seconds(left);
  if (seconds < 120) return absl::StrCat(seconds, " s");
  const int64_t minutes = seconds / 60;
  if (minutes < 120) return absl::StrCat(minutes, " min ", seconds % 60, " s");
  return absl::StrCat(minutes / 60, " h ", minutes % 60, " min");
}

int Columns(std::FILE* out) {
  winsize size = {};
  if (ioctl(fileno(out), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
    return kColumns;
  }
  return size.ws_col;
}

}  // namespace

std::string PlainLine(const Progress& p) {
  std::string line = absl::StrFormat(
      "step %d loss %.4f %.1f samples/s lr %.1e norm %.3g", p.step, p.loss,
      p.samples_per_second, p.learning_rate, p.gradient_norm);
  if (p.flops_utilization.has_value()) {
    absl::StrAppendFormat(&line, " mfu %.1f%%", 100 * *p.flops_utilization);
  }
  absl::StrAppendFormat(&line, " world %d generation %d", p.world_size,
                        p.generation);
  if (p.validated) {
    absl::StrAppendFormat(&line, " validation loss %.4f",
                          p.validation_loss.value_or(NAN));
  }
  return line;
}

std::string JsonLine(const Progress& p) {
  const nlohmann::ordered_json json = {
      {"step", p.step},
      {"steps", p.steps},
      {"loss", Finite(p.loss)},
      {"learning_rate", Finite(p.learning_rate)},
      {"gradient_norm", Finite(p.gradient_norm)},
      {"samples_per_second", Finite(p.samples_per_second)},
      {"tokens_per_second", Finite(p.tokens_per_second)},
      {"world_size", p.world_size},
      {"generation", p.generation},
      {"eta_s", Finite(absl::ToDoubleSeconds(p.left))},
      {"flops_utilization", Finite(p.flops_utilization.value_or(NAN))},
      {"memory_bytes", p.memory_bytes},
      {"skipped_steps", p.skipped_steps},
      {"validation_loss",
       Finite(p.validated ? p.validation_loss.value_or(NAN) : NAN)}};
  return json.dump();
}

std::string BarLine(const Progress& p, int columns) {
  const double done =
      std::min(1.0, double(p.step) / std::max<int64_t>(1, p.steps));
  std::string text = absl::StrFormat("  %d/%d  %.0f%%  loss %.4f", p.step,
                                     p.steps, std::floor(100 * done), p.loss);
  if (p.validation_loss.has_value()) {
    absl::StrAppendFormat(&text, "  validation %.4f", *p.validation_loss);
  }
  const size_t norm_at = text.size();
  absl::StrAppendFormat(&text, "  %.0f tokens/s", p.tokens_per_second);
  if (p.world_size > 1) absl::StrAppend(&text, "  ", p.world_size, " ranks");
  if (p.left != absl::InfiniteDuration()) {
    absl::StrAppend(&text, "  ", LeftText(p.left), " left");
  }
  // The last column stays empty: a terminal may wrap there.
  int room = columns - 3 - static_cast<int>(text.size());
  // The norm is shown only if the bar still fits.
  const std::string norm = absl::StrFormat("  norm %.3g", p.gradient_norm);
  if (room - static_cast<int>(norm.size()) >= kBarMin) {
    text.insert(norm_at, norm);
    room -= static_cast<int>(norm.size());
  }
  if (room < kBarMin) return text.substr(2, std::max(0, columns - 1));
  const int width = std::min(room, kBarMax);
  const int filled = static_cast<int>(width * done);
  return absl::StrCat("[", std::string(filled, '#'),
                      std::string(width - filled, '-'), "]", text);
}

bool GetsLine(const Progress& progress, int64_t first, int64_t every,
              absl::Duration since) {
  if (progress.step == first || progress.step == progress.steps ||
      progress.validated) {
    return true;
  }
  return every > 0 ? progress.step % every == 0 : since >= kBetweenLines;
}

ReportStyle StyleFor(std::FILE* out) {
  return isatty(fileno(out)) ? ReportStyle::kBar : ReportStyle::kPlain;
}

ProgressReport::ProgressReport(const ReportOptions& options, std::FILE* out)
    : options_(options), out_(out) {}

ProgressReport::~ProgressReport() {
  if (!line_open_) return;
  std::fputc('\n', out_);
  std::fflush(out_);
}

void ProgressReport::BeginWorld(const Progress& known, int64_t steps_done,
                                int batch, int context) {
  now_ = known;
  now_.step = steps_done;
  batch_ = batch;
  context_ = context;
  first_ = steps_done + 1;
  since_ = MonotonicNow();
  step_s_ = 0;
}

const Progress& ProgressReport::Tell(const StepResult& result) {
  Measure(result);
  now_.loss = result.loss;
  now_.learning_rate = result.learning_rate;
  now_.gradient_norm = result.gradient_norm;
  now_.memory_bytes = result.memory_bytes;
  now_.skipped_steps = result.skipped_steps;
  now_.validated = result.validation_loss.has_value();
  if (now_.validated) now_.validation_loss = result.validation_loss;
  if (options_.silent) return now_;
  if (options_.style == ReportStyle::kBar) {
    Draw(now_.step == now_.steps || now_.step == first_ || now_.validated);
  } else if (GetsLine(now_, first_, options_.every, since_ - drawn_)) {
    drawn_ = since_;
    const bool json = options_.style == ReportStyle::kJson;
    const std::string line = json ? JsonLine(now_) : PlainLine(now_);
    std::fprintf(out_, "%s\n", line.c_str());
    std::fflush(out_);
  }
  return now_;
}

void ProgressReport::Measure(const StepResult& result) {
  const absl::Time now = MonotonicNow();
  const double took =
      absl::ToDoubleSeconds(now - since_ - result.validation_took);
  since_ = now;
  step_s_ = step_s_ == 0 ? took : (1 - kFresh) * step_s_ + kFresh * took;
  now_.step = result.step;
  now_.samples_per_second = batch_ / std::max(1e-9, step_s_);
  now_.tokens_per_second = now_.samples_per_second * context_;
  if (now_.tokens_per_second_peak.has_value()) {
    now_.flops_utilization =
        now_.tokens_per_second / *now_.tokens_per_second_peak;
  }
  now_.left = absl::Seconds(step_s_ * double(now_.steps - result.step));
}

void ProgressReport::Draw(bool at_once) {
  const absl::Time now = MonotonicNow();
  if (!at_once && now < drawn_ + kBetweenBars) return;
  drawn_ = now;
  // Return to the start of the line, write the text, erase the rest.
  std::fprintf(out_, "\r%s\x1b[K", BarLine(now_, Columns(out_)).c_str());
  line_open_ = now_.step != now_.steps;
  if (!line_open_) std::fputc('\n', out_);
  std::fflush(out_);
}

}  // namespace rollcall
