#include "trainer/steps/validation.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "trainer/data/sampler.h"

namespace rollcall {
namespace {

// About how many tokens a chunk has: enough to keep a device busy, and few
// enough that every rank gets a chunk.
constexpr uint64_t kChunkTokens = 4096;

}  // namespace

absl::StatusOr<Validation> Validation::Open(
    const std::vector<std::string>& paths, const Dataset& training, int context,
    uint64_t samples_max) {
  absl::StatusOr<Dataset> dataset = Dataset::Open(paths, "--val-data");
  if (!dataset.ok()) return dataset.status();
  const uint64_t samples = Sampler::CountSamples(dataset->tokens(), context);
  if (samples == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--val-data holds ", dataset->tokens(), " ",
                     dataset->unit(), ": expected at least ", context + 1,
                     ", one sample of --context ", context, " plus one token"));
  }
  if (dataset->vocabulary() != training.vocabulary()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--val-data ", paths.front(), ": expected ", training.unit(),
        " as --data holds, found ", dataset->unit(),
        "; give both as text, or both as token shards"));
  }
  const absl::StatusOr<uint64_t> data = dataset->Fingerprint();
  if (!data.ok()) return data.status();
  std::optional<std::string> trained_on = dataset->FileIn(training);
  Validation validation(*std::move(dataset), *data, context,
                        std::min(samples, samples_max));
  validation.trained_on_ = std::move(trained_on);
  return validation;
}

Validation::Validation(Dataset dataset, uint64_t data, int context,
                       uint64_t samples)
    : dataset_(std::move(dataset)),
      data_(data),
      context_(context),
      samples_(samples),
      chunk_samples_((kChunkTokens + context - 1) / context) {}

absl::StatusOr<double> Validation::ChunkLoss(Backend& backend,
                                             uint64_t chunk) const {
  const uint64_t first = chunk * chunk_samples_;
  const uint64_t count = std::min(chunk_samples_, samples_ - first);
  std::vector<Token> text(count * context_ + 1);
  absl::Status status = dataset_.Read(first * context_, absl::MakeSpan(text));
  if (!status.ok()) return status;
  // Samples follow each other, so each token's target is the one after it.
  const absl::Span<const Token> tokens(text);
  return backend.Loss(tokens.first(count * context_), tokens.subspan(1));
}

absl::StatusOr<double> Validation::MeanLoss(Backend& backend,
                                            Collective& collective) const {
  const uint64_t chunks = (samples_ + chunk_samples_ - 1) / chunk_samples_;
  const uint64_t ranks = collective.size();
  // Rank r takes the chunks r, r + ranks, ...; all ranks send as many losses.
  const uint64_t each = (chunks + ranks - 1) / ranks;
  std::vector<double> mine(each), all(each * ranks);
  for (uint64_t i = 0; i < each; ++i) {
    const uint64_t chunk = i * ranks + collective.rank();
    if (chunk >= chunks) continue;
    const absl::StatusOr<double> loss = ChunkLoss(backend, chunk);
    if (!loss.ok()) return loss.status();
    mine[i] = *loss;
  }
  absl::Status status = collective.AllGather(BytesOf(absl::MakeSpan(mine)),
                                             BytesOf(absl::MakeSpan(all)));
  if (!status.ok()) return status;
  double sum = 0;
  for (uint64_t chunk = 0; chunk < chunks; ++chunk) {
    sum += all[chunk % ranks * each + chunk / ranks];
  }
  return sum / (double(samples_) * double(context_));
}

}  // namespace rollcall
