#include "trainer/init_from.h"

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "trainer/checkpoint/pretrained.h"
#include "trainer/model/sizes.h"

namespace rollcall {

absl::Status BeginWithGiven(const TrainOptions& options, TrainLoop& loop) {
  if (options.init_from.empty()) return absl::OkStatus();
  const GptConfig model = loop.backend().config();
  if (model.vocabulary != options.model.vocabulary) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--init-from ", options.init_from, " has a vocabulary of ",
        options.model.vocabulary, ", and the tokens of --data one of ",
        model.vocabulary, "; give ",
        options.model.vocabulary == kGpt2Vocabulary
            ? "--data token shards of GPT-2"
            : "a model that was trained on such data"));
  }
  const std::string folder = options.init_from;
  loop.BeginsWith([folder, model](absl::Span<float> weights) {
    const absl::Status status = LoadPretrained(folder, model, weights);
    if (status.ok()) return status;
    return absl::Status(status.code(),
                        absl::StrCat("--init-from: ", status.message()));
  });
  return absl::OkStatus();
}

void TellOfGiven(const TrainOptions& options, int64_t step) {
  if (options.init_from.empty()) return;
  if (step == 0) {
    std::fprintf(stderr, "rollcall-train: begins with the weights of %s\n",
                 options.init_from.c_str());
    return;
  }
  std::fprintf(stderr,
               "rollcall-train: resumed from a checkpoint after step %lld, so "
               "--init-from %s is not used\n",
               static_cast<long long>(step), options.init_from.c_str());
}

}  // namespace rollcall
