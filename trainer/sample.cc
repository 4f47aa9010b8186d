#include "trainer/sample.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "trainer/checkpoint/checkpoint_names.h"
#include "trainer/checkpoint/checkpoint_store.h"
#include "trainer/checkpoint/pretrained.h"
#include "trainer/model/gpt.h"
#include "trainer/model/sizes.h"

namespace rollcall {
namespace {

// The folder of the model: a checkpoint is also a model that --init-from takes.
absl::StatusOr<std::string> ModelFolder(const TrainOptions& options) {
  if (!options.init_from.empty()) return options.init_from;
  const std::string& folder = options.checkpoints;
  std::error_code ignored;
  // The store would make a folder that is missing.
  if (!std::filesystem::is_directory(folder, ignored)) {
    return absl::NotFoundError(absl::StrCat(
        "--checkpoints ", folder, ": expected a folder with a checkpoint"));
  }
  const auto store = CheckpointStore::Open(folder);
  if (!store.ok()) return store.status();
  const int64_t step = (*store)->HighestStep();
  if (step == 0) {
    return absl::NotFoundError(absl::StrCat("--checkpoints ", folder,
                                            ": there is no checkpoint to "
                                            "sample from"));
  }
  const std::string path =
      absl::StrCat(folder, "/", FormatCheckpointName(step));
  const auto found = VerifyCheckpoint(path);
  if (found.ok()) return path;
  return absl::Status(
      found.status().code(),
      absl::StrCat(found.status().message(),
                   "; name an older checkpoint with --init-from"));
}

}  // namespace

Token DrawToken(absl::Span<const float> logits, double temperature,
                Random& random) {
  const auto best = std::max_element(logits.begin(), logits.end());
  if (temperature == 0) return static_cast<Token>(best - logits.begin());
  std::vector<double> sums;
  double sum = 0;
  for (const float logit : logits) {
    sum += std::exp((double{logit} - *best) / temperature);
    sums.push_back(sum);
  }
  const double at = sum * (static_cast<double>(random.Next() >> 11) * 0x1p-53);
  const auto drawn = std::upper_bound(sums.begin(), sums.end(), at);
  return static_cast<Token>(
      std::min<size_t>(drawn - sums.begin(), logits.size() - 1));
}

absl::Status Sample(const TrainOptions& options) {
  if (std::getenv("ROLLCALL_SOCKET") != nullptr) {
    return absl::FailedPreconditionError(
        "--sample runs alone, and a rollcall agent has started this process; "
        "run it without the launcher");
  }
  const absl::StatusOr<std::string> folder = ModelFolder(options);
  if (!folder.ok()) return folder.status();
  const absl::StatusOr<GptConfig> config = ReadGpt2Config(*folder);
  if (!config.ok()) return config.status();
  if (config->vocabulary != kByteVocabulary) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--sample: expected a model of bytes, with a vocabulary of ",
        kByteVocabulary, ", and ", *folder, " has ", config->vocabulary,
        "; sample from it with transformers"));
  }
  const auto model = std::make_unique<Gpt<float>>(*config, 1);
  absl::Status status = LoadPretrained(*folder, *config, model->weights());
  if (!status.ok()) return status;
  std::vector<Token> tokens;
  for (const char c : options.sample) {
    tokens.push_back(static_cast<unsigned char>(c));
  }
  std::fwrite(options.sample.data(), 1, options.sample.size(), stdout);
  Random random(options.seed);
  for (int64_t i = 0; i < options.sample_tokens; ++i) {
    const size_t seen = std::min<size_t>(tokens.size(), config->context);
    tokens.push_back(DrawToken(model->Next(absl::MakeSpan(tokens).last(seen)),
                               options.temperature, random));
    // A reader that has gone (`| head`) ends it.
    if (std::fputc(tokens.back(), stdout) == EOF || std::fflush(stdout) != 0) {
      break;
    }
  }
  std::fputc('\n', stdout);
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) {
    return absl::OkStatus();
  }
  return absl::DataLossError("--sample: the text could not be written");
}

}  // namespace rollcall
