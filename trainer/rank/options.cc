#include "trainer/rank/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "trainer/checkpoint/pretrained.h"
#include "trainer/model/sizes.h"

namespace rollcall {
namespace {

constexpr int kUsage = 2;
constexpr double kStepsMax = 1e9;
// The betas are floats, and 1 would divide by zero.
constexpr double kBetaMax = 0.999999;
constexpr char kAbout[] =
    "Trains GPT-2 on text files or token shards, data-parallel over all ranks\n"
    "of the world that a rollcall agent started it in; alone without an agent.";

// Accepts `min` to `max`. Unlike CLI::Range, it rejects "nan".
CLI::Validator Within(double min, double max) {
  return CLI::Validator(
      [min, max](std::string& text) {
        double value = 0;
        if (CLI::detail::lexical_cast(text, value) && value >= min &&
            value <= max) {
          return std::string();
        }
        return absl::StrFormat("got %s, expected %g to %g", text, min, max);
      },
      "");
}

// A flag whose values have names; the first one is the default.
template <typename T>
void AddChoice(CLI::App& app, const std::string& flag, T* to,
               const std::string& about,
               const std::vector<std::pair<std::string, T>>& choices) {
  std::vector<std::string> names;
  for (const auto& choice : choices) names.push_back(choice.first);
  const std::string expected = absl::StrJoin(names, ", ");
  app.add_option_function<std::string>(
         flag,
         [to, choices](const std::string& text) {
           for (const auto& [name, value] : choices) {
             if (name == text) *to = value;
           }
         },
         about)
      ->type_name(absl::StrJoin(names, "|"))
      ->default_str(names.front())
      ->check(CLI::Validator(
          [names, expected](std::string& text) {
            return std::count(names.begin(), names.end(), text) > 0
                       ? std::string()
                       : absl::StrCat("got ", text, ", expected ", expected);
          },
          ""));
}

// Refuses `--flag ""`, which a variable that is not set becomes: the flag would
// count as not given.
absl::Status RefuseEmpty(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& value : option->results()) {
      if (!value.empty()) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(option->get_name(),
                       ": got an empty value; give a value, or leave the flag "
                       "out"));
    }
  }
  return absl::OkStatus();
}

// Refuses flags that --check would ignore: those of the training.
absl::Status RefuseBesideCheck(const CLI::App& app) {
  std::vector<std::string> ignored;
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() > 0 && !CheckFlags::Takes(*option)) {
      ignored.push_back(option->get_name());
    }
  }
  if (ignored.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--check: got ", absl::StrJoin(ignored, ", "),
      ", expected only --device, --collective-timeout and the flags under "
      "\"Check\" in --help; leave ",
      ignored.size() == 1 ? "it" : "them",
      " out, or leave out --check to train"));
}

void AddModel(CLI::App& app, TrainOptions* o) {
  app.add_option("--model", o->size,
                 "Size of the model: " + SizeNames() +
                     "; the next four flags override it")
      ->type_name("NAME");
  app.add_option("--layers", o->model.layers, "Blocks of the model")
      ->type_name("N");
  app.add_option("--heads", o->model.heads, "Attention heads a block")
      ->type_name("N");
  app.add_option("--width", o->model.width, "Values a position")
      ->type_name("N");
  app.add_option("--context", o->model.context, "Tokens a sample")
      ->type_name("N");
}

void AddInitFrom(CLI::App& app, TrainOptions* o) {
  app.add_option("--init-from", o->init_from,
                 "Begin with the weights of a GPT-2 in Hugging Face's form "
                 "(config.json, model.safetensors), and its shape")
      ->type_name("DIR");
}

void AddSample(CLI::App& app, TrainOptions* o) {
  CLI::Option* const sample =
      app.add_option("--sample", o->sample,
                     "Print TEXT and what the model of --init-from, or of the "
                     "newest checkpoint, generates after it, and exit")
          ->type_name("TEXT");
  app.add_option("--sample-tokens", o->sample_tokens, "Tokens to generate")
      ->type_name("N")
      ->needs(sample)
      ->check(Within(1, 1e9));
  app.add_option("--temperature", o->temperature,
                 "Sampling temperature; 0: always the most probable token")
      ->type_name("N")
      ->needs(sample)
      ->check(Within(0, 100));
}

void AddTraining(CLI::App& app, TrainOptions* o) {
  app.add_option("--data", o->data,
                 "Text files, read as bytes, or token shards of llm.c (.bin)")
      ->type_name("FILE...");
  app.add_option("--val-data", o->validation_data,
                 "Held-out files of the same kind, for a validation loss")
      ->type_name("FILE...");
  app.add_option("--val-every", o->validate_every,
                 "Steps between two validations; there is also one after the "
                 "last step")
      ->type_name("N")
      ->check(Within(1, kStepsMax));
  app.add_option(
         "--val-batches", o->validation_batches,
         "How much of --val-data a validation takes, from its start, in "
         "units of --batch")
      ->type_name("N")
      ->check(Within(1, kStepsMax));
  app.add_option("--steps", o->steps, "Steps to train, in all")
      ->type_name("N")
      ->check(Within(1, kStepsMax));
  app.add_option("--batch", o->batch, "Samples a step, split over all ranks")
      ->type_name("N")
      ->check(Within(1, TrainOptions::kBatchMax));
  app.add_option("--micro-batch", o->micro_batch,
                 "Samples that a rank computes at once; default: as many of "
                 "its share as fit in memory")
      ->type_name("N")
      ->default_str("")
      ->check(Within(1, TrainOptions::kBatchMax));
  app.add_option("--memory-max", o->memory_max, "")
      ->group("")
      ->check(Within(1, 1e18));
  app.add_option("--lr", o->learning_rate,
                 "Learning rate at its peak; default: one that suits --model")
      ->type_name("N")
      ->default_str("")
      ->check(Within(1e-9, 10));
  app.add_option("--min-lr", o->last_learning_rate,
                 "Learning rate of the last step; default: a tenth of --lr")
      ->type_name("N")
      ->check(Within(0, 10));
  AddChoice(app, "--schedule", &o->schedule,
            "How the learning rate falls from --lr to --min-lr",
            {{NameOf(Schedule::kCosine), Schedule::kCosine},
             {NameOf(Schedule::kLinear), Schedule::kLinear},
             {NameOf(Schedule::kConstant), Schedule::kConstant}});
  app.add_option("--warmup", o->warmup, "Steps until the peak")
      ->type_name("N")
      ->check(Within(0, kStepsMax));
  app.add_option("--seed", o->seed,
                 "Seed of the initial weights and of the order of samples")
      ->type_name("N")
      ->check(Within(0, 0x1p63));
}

void AddSpikes(CLI::App& app, TrainOptions* o) {
  app.add_option("--skip-spikes", o->skip_spikes,
                 "Skip the update of a step whose gradients' norm is above "
                 "FACTOR times the median of the last ones, or whose loss is "
                 "not finite; default: off")
      ->type_name("FACTOR")
      ->default_str("")
      ->check(Within(1, 1e6));
}

void AddOptimizer(CLI::App& app, AdamWConfig* o) {
  app.add_option("--beta1", o->beta1, "AdamW: decay of the mean of gradients")
      ->type_name("N")
      ->check(Within(0, kBetaMax));
  app.add_option("--beta2", o->beta2, "AdamW: decay of the mean of squares")
      ->type_name("N")
      ->check(Within(0, kBetaMax));
  app.add_option("--weight-decay", o->weight_decay,
                 "AdamW: weight decay, for matrices only")
      ->type_name("N")
      ->check(Within(0, 10));
  app.add_option("--clip", o->clip, "Largest norm of the gradients")
      ->type_name("N")
      ->check(Within(1e-6, 1e9));
}

void AddDevice(CLI::App& app, TrainOptions* o) {
  AddChoice(app, "--device", &o->device,
            "Where ranks compute: auto uses a GPU if there is one",
            {{"auto", DeviceKind::kAuto},
             {"cpu", DeviceKind::kCpu},
             {"cuda", DeviceKind::kCuda}});
}

void AddCheckpoints(CLI::App& app, TrainOptions* o) {
  app.add_option("--checkpoints", o->checkpoints,
                 "Folder for checkpoints; a run resumes from the newest one "
                 "there")
      ->type_name("DIR");
  app.add_option("--save-every", o->save_every, "Steps between two checkpoints")
      ->type_name("N")
      ->check(Within(1, kStepsMax));
  app.add_option("--keep-last", o->keep_last, "Checkpoints to keep")
      ->type_name("N")
      ->check(Within(1, 1e6));
  AddChoice(
      app, "--saved-by", &o->saved_by,
      "Which ranks write checkpoints: rank 0 (all nodes share DIR), or the "
      "first rank of every node (each node has its own DIR)",
      {{"rank0", SavedBy::kRankZero}, {"node", SavedBy::kEveryNode}});
  app.add_flag("--new-data", o->new_data,
               "Go on from a checkpoint that was trained on other data, with "
               "the first sample of --data");
}

void AddReport(CLI::App& app, TrainOptions* o, double* timeout_s) {
  app.add_option("--log-every", o->log_every,
                 "Steps between two lines; default: one line a second at most, "
                 "and with --log-json one for each step")
      ->type_name("N")
      ->default_str("")
      ->check(Within(1, kStepsMax));
  app.add_flag("--log-json", o->log_json, "Lines are JSON objects");
  app.add_flag("--log-all-ranks", o->all_ranks_log,
               "Every rank logs its steps, not only rank 0");
  app.add_option("--collective-timeout", *timeout_s,
                 "Seconds that a peer may stay silent")
      ->type_name("N")
      ->check(Within(0.001, 86400));
}

// Applies the shape of --init-from's model. A flag that says otherwise is an
// error.
absl::Status ApplyInitFrom(const CLI::App& app, const GptConfig& size,
                           TrainOptions* o) {
  const absl::StatusOr<GptConfig> model = ReadGpt2Config(o->init_from);
  if (!model.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--init-from: ", model.status().message()));
  }
  const bool named = app.count("--model") > 0;
  const struct {
    const char* flag;
    int& to;
    int size, folder;
  } rows[] = {
      {"--layers", o->model.layers, size.layers, model->layers},
      {"--heads", o->model.heads, size.heads, model->heads},
      {"--width", o->model.width, size.width, model->width},
      {"--context", o->model.context, size.context, model->context},
  };
  for (const auto& row : rows) {
    const bool given = app.count(row.flag) > 0;
    if (!given && !named) row.to = row.folder;
    if (!given && named) row.to = row.size;
    if (row.to == row.folder) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        given ? "" : absl::StrCat("--model ", o->size, ": "), row.flag,
        ": got ", row.to, ", expected ", row.folder, " as --init-from ",
        o->init_from, " has; leave the flag out"));
  }
  o->model.vocabulary = model->vocabulary;
  if (!named) o->size = NearestSize(*model);
  return absl::OkStatus();
}

// Applies the size's values where no flag overrides them.
absl::Status ApplySize(const CLI::App& app, TrainOptions* o) {
  const absl::StatusOr<GptConfig> size = ConfigOf(o->size, kByteVocabulary);
  if (!size.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--model ", size.status().message()));
  }
  if (!o->init_from.empty()) {
    if (absl::Status s = ApplyInitFrom(app, *size, o); !s.ok()) return s;
  } else {
    if (app.count("--layers") == 0) o->model.layers = size->layers;
    if (app.count("--heads") == 0) o->model.heads = size->heads;
    if (app.count("--width") == 0) o->model.width = size->width;
    if (app.count("--context") == 0) o->model.context = size->context;
  }
  if (app.count("--lr") == 0) {
    o->learning_rate = LearningRateOf(o->size).value_or(o->learning_rate);
  }
  if (o->last_learning_rate.value_or(0) > o->learning_rate) {
    return absl::InvalidArgumentError(
        absl::StrCat("--min-lr: got ", *o->last_learning_rate,
                     ", expected at most --lr, ", o->learning_rate));
  }
  return o->model.Validate();
}

absl::Status CheckValidation(const CLI::App& app) {
  if (app.count("--val-data") > 0) return absl::OkStatus();
  for (const char* flag : {"--val-every", "--val-batches"}) {
    if (app.count(flag) > 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          flag, " needs --val-data FILE..., the files to validate on"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::optional<int> ParseOptions(int argc, const char* const* argv,
                                TrainOptions* options, std::string* error) {
  CLI::App app(kAbout, "rollcall-train");
  app.set_version_flag("--version", ROLLCALL_VERSION);
  app.option_defaults()->always_capture_default();
  double timeout_s = absl::ToDoubleSeconds(options->collective_timeout);
  AddTraining(app, options);
  AddOptimizer(app, &options->optimizer);
  AddSpikes(app, options);
  AddModel(app, options);
  AddInitFrom(app, options);
  AddSample(app, options);
  AddDevice(app, options);
  AddCheckpoints(app, options);
  AddReport(app, options, &timeout_s);
  CheckFlags check;
  check.AddTo(app, &options->check);
  app.add_flag("--check-group", options->check_group, "")->group("");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& thrown) {
    if (app.exit(thrown) == 0) return 0;
    if (error != nullptr) *error = thrown.what();
    return kUsage;
  }
  if (options->check_group) return std::nullopt;
  options->collective_timeout = absl::Seconds(timeout_s);
  absl::Status status = RefuseEmpty(app);
  if (status.ok() && options->check.enabled) status = RefuseBesideCheck(app);
  if (status.ok()) {
    status = options->check.enabled ? check.Apply(&options->check)
                                    : ApplySize(app, options);
  }
  if (status.ok()) status = CheckValidation(app);
  const bool sample = !options->sample.empty();
  if (status.ok() && sample && options->init_from.empty() &&
      options->checkpoints.empty()) {
    status = absl::InvalidArgumentError(
        "--sample needs a model: give --init-from or --checkpoints");
  }
  if (status.ok() && options->data.empty() && !options->check.enabled &&
      !sample) {
    status = absl::InvalidArgumentError(
        "--data is required, or --check or --sample; run with --help for more "
        "information");
  }
  if (!status.ok()) {
    const std::string message(status.message());
    std::fprintf(stderr, "rollcall-train: %s\n", message.c_str());
    if (error != nullptr) *error = message;
    return kUsage;
  }
  return std::nullopt;
}

}  // namespace rollcall
