#include "trainer/steps/progress_report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <string>

#include "nlohmann/json.hpp"

namespace rollcall {
namespace {

Progress Halfway() {
  Progress progress;
  progress.step = 600;
  progress.steps = 1200;
  progress.loss = 3.21;
  progress.learning_rate = 3e-3f;
  progress.gradient_norm = 0.5;
  progress.samples_per_second = 104.5;
  progress.tokens_per_second = 6688;
  progress.world_size = 3;
  progress.generation = 2;
  progress.memory_bytes = 3 << 28;
  progress.left = absl::Seconds(250);
  return progress;
}

TEST(ProgressText, Plain) {
  EXPECT_EQ(PlainLine(Halfway()),
            "step 600 loss 3.2100 104.5 samples/s lr 3.0e-03 norm 0.5 world 3 "
            "generation 2");
  Progress progress = Halfway();
  progress.flops_utilization = 0.4123;
  EXPECT_EQ(PlainLine(progress),
            "step 600 loss 3.2100 104.5 samples/s lr 3.0e-03 norm 0.5 mfu "
            "41.2% world 3 generation 2");
}

TEST(ProgressText, PlainWithAValidation) {
  Progress progress = Halfway();
  progress.validation_loss = 3.456;
  EXPECT_EQ(PlainLine(progress), PlainLine(Halfway()));
  progress.validated = true;
  EXPECT_EQ(PlainLine(progress),
            PlainLine(Halfway()) + " validation loss 3.4560");
}

TEST(ProgressText, Json) {
  const auto json = nlohmann::json::parse(JsonLine(Halfway()));
  EXPECT_EQ(json["step"], 600);
  EXPECT_EQ(json["steps"], 1200);
  EXPECT_EQ(json["loss"], 3.21);
  EXPECT_EQ(json["gradient_norm"], 0.5);
  EXPECT_EQ(json["samples_per_second"], 104.5);
  EXPECT_EQ(json["tokens_per_second"], 6688);
  EXPECT_EQ(json["world_size"], 3);
  EXPECT_EQ(json["generation"], 2);
  EXPECT_EQ(json["eta_s"], 250);
  EXPECT_TRUE(json["validation_loss"].is_null());
  EXPECT_TRUE(json["flops_utilization"].is_null());
  EXPECT_EQ(json["memory_bytes"], 3 << 28);
  Progress progress = Halfway();
  progress.flops_utilization = 0.25;
  EXPECT_EQ(nlohmann::json::parse(JsonLine(progress))["flops_utilization"],
            0.25);
}

TEST(ProgressText, JsonHasTheValidationOfItsStepOnly) {
  Progress progress = Halfway();
  progress.validation_loss = 3.5;
  EXPECT_TRUE(
      nlohmann::json::parse(JsonLine(progress))["validation_loss"].is_null());
  progress.validated = true;
  EXPECT_EQ(nlohmann::json::parse(JsonLine(progress))["validation_loss"], 3.5);
}

TEST(ProgressText, JsonHasNullForANonFiniteNumber) {
  Progress progress = Halfway();
  progress.loss = std::nan("");
  progress.left = absl::InfiniteDuration();
  const auto json = nlohmann::json::parse(JsonLine(progress));
  EXPECT_TRUE(json["loss"].is_null());
  EXPECT_TRUE(json["eta_s"].is_null());
}

struct BarRow {
  int64_t step;
  int columns;
  const char* line;
};

TEST(ProgressText, Bar) {
  const BarRow rows[] = {
      {600, 120,
       "[###################-------------------]  600/1200  50%  loss 3.2100  "
       "norm 0.5  6688 tokens/s  3 ranks  4 min 10 s left"},
      // Beside the norm there would be no room for a bar.
      {600, 90,
       "[#########---------]  600/1200  50%  loss 3.2100  6688 tokens/s  3 "
       "ranks  "
       "4 min 10 s left"},
      // The terminal is too narrow for a bar, so only the text is printed.
      {600, 60, "600/1200  50%  loss 3.2100  6688 tokens/s  3 ranks  4 min 1"},
      // The bar is never full before the last step.
      {1199, 120,
       "[####################################-]  1199/1200  99%  loss "
       "3.2100  norm 0.5  6688 tokens/s  3 ranks  4 min 10 s left"},
  };
  for (const BarRow& row : rows) {
    Progress progress = Halfway();
    progress.step = row.step;
    const std::string line = BarLine(progress, row.columns);
    EXPECT_EQ(line, row.line);
    EXPECT_LT(static_cast<int>(line.size()), row.columns);
  }
}

TEST(ProgressText, BarOfOneRank) {
  Progress progress = Halfway();
  progress.world_size = 1;
  progress.left = absl::Hours(3) + absl::Minutes(5);
  EXPECT_EQ(
      BarLine(progress, 80),
      "[#########---------]  600/1200  50%  loss 3.2100  6688 tokens/s  3 h 5 "
      "min left");
}

TEST(ProgressText, BarWithAValidation) {
  Progress progress = Halfway();
  progress.validation_loss = 3.5;
  EXPECT_EQ(BarLine(progress, 109),
            "[#########---------]  600/1200  50%  loss 3.2100  validation "
            "3.5000  6688 tokens/s  3 ranks  4 min 10 s left");
}

// Returns the output when steps `first` + 1 to `last` are reported.
std::string Told(const ReportOptions& options, int64_t first, int64_t last,
                 int64_t steps) {
  std::FILE* out = std::tmpfile();
  {
    ProgressReport report(options, out);
    Progress known;
    known.steps = steps;
    report.BeginWorld(known, first, 16, 64);
    for (int64_t step = first + 1; step <= last; ++step) {
      StepResult result;
      result.step = step;
      result.loss = 2;
      report.Tell(result);
    }
  }
  std::rewind(out);
  std::string text(1 << 16, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), out));
  std::fclose(out);
  return text;
}

std::string StepsIn(const std::string& text) {
  std::string steps;
  for (size_t at = text.find("step "); at != std::string::npos;
       at = text.find("step ", at + 1)) {
    steps += text.substr(at + 5, text.find(' ', at + 5) - at - 5) + " ";
  }
  return steps;
}

TEST(ProgressReport, PrintsTheFirstTheLastAndEveryNth) {
  ReportOptions options;
  options.every = 10;
  EXPECT_EQ(StepsIn(Told(options, 0, 25, 25)), "1 10 20 25 ");
  EXPECT_EQ(StepsIn(Told(options, 12, 21, 100)), "13 20 ");
  options.every = 1;
  EXPECT_EQ(StepsIn(Told(options, 2, 5, 9)), "3 4 5 ");
  options.silent = true;
  EXPECT_EQ(Told(options, 0, 25, 25), "");
}

TEST(ProgressReport, WhichStepsGetALine) {
  struct {
    const char* what;
    int64_t step;
    int64_t every;
    double since_s;
    bool line;
    bool validated = false;
  } const kRows[] = {
      {"too soon", 20, 0, 0.99, false},
      {"a second later", 20, 0, 1, true},
      {"the first of its world", 13, 0, 0.01, true},
      {"the last of the run", 100, 0, 0.01, true},
      {"every tenth, however soon", 20, 10, 0.01, true},
      {"every tenth, however late", 21, 10, 60, false},
      {"the first of its world, not a tenth", 13, 10, 0.01, true},
      {"a validation, however soon", 20, 0, 0.01, true, true},
      {"a validation, not a tenth", 21, 10, 0.01, true, true},
  };
  for (const auto& row : kRows) {
    Progress progress;
    progress.step = row.step;
    progress.steps = 100;
    progress.validated = row.validated;
    EXPECT_EQ(GetsLine(progress, 13, row.every, absl::Seconds(row.since_s)),
              row.line)
        << row.what;
  }
}

// The time of a validation is no part of its step, and its loss is that of the
// steps after it.
TEST(ProgressReport, AValidationIsNotPartOfTheSpeed) {
  std::FILE* out = std::tmpfile();
  ReportOptions options;
  options.silent = true;
  ProgressReport report(options, out);
  Progress known;
  known.steps = 9;
  report.BeginWorld(known, 0, 16, 64);
  StepResult result;
  result.step = 1;
  result.validation_loss = 3.5;
  // More than all that passes here, so that no time is left for the step.
  result.validation_took = absl::Hours(1);
  const Progress first = report.Tell(result);
  EXPECT_GT(first.samples_per_second, 1e9);
  EXPECT_TRUE(first.validated);
  result = StepResult();
  result.step = 2;
  const Progress second = report.Tell(result);
  EXPECT_FALSE(second.validated);
  EXPECT_EQ(second.validation_loss, 3.5);
  std::fclose(out);
}

TEST(ProgressReport, UtilizationIsTheSpeedOfThatAtThePeak) {
  std::FILE* out = std::tmpfile();
  ReportOptions options;
  options.silent = true;
  ProgressReport report(options, out);
  Progress known;
  StepResult result;
  result.step = 1;
  result.memory_bytes = 5;
  report.BeginWorld(known, 0, 16, 64);
  EXPECT_EQ(report.Tell(result).flops_utilization, std::nullopt);
  known.tokens_per_second_peak = 1e15;
  report.BeginWorld(known, 0, 16, 64);
  const Progress told = report.Tell(result);
  EXPECT_EQ(told.flops_utilization, told.tokens_per_second / 1e15);
  EXPECT_EQ(told.memory_bytes, 5u);
  std::fclose(out);
}

TEST(ProgressReport, EndsTheBarsLine) {
  ReportOptions options;
  options.style = ReportStyle::kBar;
  const std::string broken_off = Told(options, 0, 3, 10);
  EXPECT_EQ(broken_off.back(), '\n');
  EXPECT_NE(broken_off.find("1/10"), std::string::npos);
  const std::string whole = Told(options, 0, 10, 10);
  EXPECT_NE(whole.find("10/10  100%"), std::string::npos);
  EXPECT_EQ(whole.back(), '\n');
  EXPECT_EQ(whole[whole.size() - 2] == '\n', false);
}

}  // namespace
}  // namespace rollcall
