#include "trainer/options.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "absl/strings/str_format.h"

namespace rollcall {
namespace {

constexpr int kUsage = 2;
constexpr char kAbout[] =
    "Trains a byte-level GPT on text files, data-parallel over all ranks of\n"
    "the world that a rollcall agent started it in; alone without an agent.";

// From `least` to `most`; unlike CLI::Range, no "nan" passes.
CLI::Validator Within(double least, double most) {
  return CLI::Validator(
      [least, most](std::string& text) {
        double value = 0;
        if (CLI::detail::lexical_cast(text, value) && value >= least &&
            value <= most) {
          return std::string();
        }
        return absl::StrFormat("got %s, expected %g to %g", text, least, most);
      },
      "");
}

void AddOptions(CLI::App& app, TrainOptions* o, double* timeout_s) {
  constexpr double kStepsMost = 1e9;
  app.set_version_flag("--version", ROLLCALL_VERSION);
  app.option_defaults()->always_capture_default();
  app.add_option("--data", o->data, "Text files, read as bytes")
      ->required()
      ->type_name("FILE...");
  app.add_option("--steps", o->steps, "Steps to train")
      ->type_name("N")
      ->check(Within(1, kStepsMost));
  app.add_option("--batch", o->batch, "Samples a step, split over all ranks")
      ->type_name("N")
      ->check(Within(1, TrainOptions::kBatchMost));
  app.add_option("--context", o->model.context, "Bytes a sample")
      ->type_name("N");
  app.add_option("--layers", o->model.layers, "Blocks of the model")
      ->type_name("N");
  app.add_option("--heads", o->model.heads, "Attention heads a block")
      ->type_name("N");
  app.add_option("--width", o->model.width, "Values a position")
      ->type_name("N");
  app.add_option("--lr", o->learning_rate, "Learning rate at its peak")
      ->type_name("N")
      ->check(Within(1e-9, 10));
  app.add_option("--warmup", o->warmup, "Steps until that peak")
      ->type_name("N")
      ->check(Within(0, kStepsMost));
  app.add_option("--seed", o->seed, "Of first weights and order of samples")
      ->type_name("N")
      ->check(Within(0, 0x1p63));
  app.add_option("--log-every", o->log_every, "Steps between two lines")
      ->type_name("N")
      ->check(Within(1, kStepsMost));
  app.add_option("--collective-timeout", *timeout_s,
                 "Seconds that a peer may stay silent")
      ->type_name("N")
      ->check(Within(0.001, 86400));
}

}  // namespace

std::optional<int> ParseOptions(int argc, const char* const* argv,
                                TrainOptions* options) {
  CLI::App app(kAbout, "rollcall-train");
  double timeout_s = absl::ToDoubleSeconds(options->collective_timeout);
  AddOptions(app, options, &timeout_s);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;
  }
  options->collective_timeout = absl::Seconds(timeout_s);
  if (absl::Status s = options->model.Validate(); !s.ok()) {
    std::fprintf(stderr, "rollcall-train: %s\n",
                 std::string(s.message()).c_str());
    return kUsage;
  }
  return std::nullopt;
}

}  // namespace rollcall
