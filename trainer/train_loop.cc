#include "trainer/train_loop.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "trainer/data/random.h"

namespace rollcall {
namespace {

uint64_t HashBytes(const void* bytes, size_t size) {
  const auto* at = static_cast<const unsigned char*>(bytes);
  uint64_t hash = size;
  for (; size >= 8; size -= 8, at += 8) {
    uint64_t word;
    std::memcpy(&word, at, sizeof(word));
    hash = Mix(hash + word);
  }
  for (; size > 0; --size, ++at) hash = Mix(hash + *at);
  return hash;
}

// All that must be equal on every rank; not which files are called what.
std::string Settings(const TrainOptions& o) {
  return absl::StrFormat(
      "%d %d %d %d %d %d %a %d %d %a %a %a %a %a", o.model.layers,
      o.model.heads, o.model.width, o.model.context, o.steps, o.batch,
      o.learning_rate, o.warmup, o.seed, o.optimizer.beta1, o.optimizer.beta2,
      o.optimizer.epsilon, o.optimizer.weight_decay, o.optimizer.clip);
}

template <typename T>
absl::Span<char> Bytes(T* values, size_t count) {
  return {reinterpret_cast<char*>(values), count * sizeof(T)};
}

}  // namespace

absl::StatusOr<std::unique_ptr<TrainLoop>> TrainLoop::Create(
    const TrainOptions& options) {
  absl::StatusOr<Corpus> corpus = Corpus::Open(options.data);
  if (!corpus.ok()) return corpus.status();
  if (Sampler::CountSamples(corpus->size(), options.model.context) == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--data holds ", corpus->size(), " bytes, expected at least ",
        options.model.context + 1, ": one sample of --context ",
        options.model.context, " and the byte that follows"));
  }
  absl::StatusOr<std::unique_ptr<Backend>> backend =
      MakeCpuBackend(options.model, options.optimizer);
  if (!backend.ok()) return backend.status();
  // A share of one sample is the least that any world will ask for.
  if (absl::Status s = (*backend)->Reserve(1); !s.ok()) return s;
  absl::StatusOr<uint64_t> data = corpus->Fingerprint();
  if (!data.ok()) return data.status();
  return std::unique_ptr<TrainLoop>(
      new TrainLoop(options, *std::move(corpus), *data, *std::move(backend)));
}

TrainLoop::TrainLoop(const TrainOptions& options, Corpus corpus, uint64_t data,
                     std::unique_ptr<Backend> backend)
    : options_(options),
      corpus_(std::move(corpus)),
      data_(data),
      samples_(Sampler::CountSamples(corpus_.size(), options.model.context)),
      sampler_(options.seed, samples_, options.batch),
      backend_(std::move(backend)) {}

// --- Into a world ------------------------------------------------------------

absl::Status TrainLoop::Enter(Collective& collective,
                              const std::optional<TrainSource>& source) {
  collective_ = &collective;
  // Memory goes with the share of the batch, and that with the number of ranks.
  const uint64_t share =
      Sampler::ShareSizeMost(options_.batch, collective.size());
  if (absl::Status s = backend_->Reserve(static_cast<int>(share)); !s.ok()) {
    return s;
  }
  const std::string settings = Settings(options_);
  absl::Status status =
      Agree({{"the flags differ; give every node the same",
              HashBytes(settings.data(), settings.size())},
             {"the files of --data differ; give every node the same", data_}});
  if (!status.ok()) return status;
  if (source.has_value()) {
    status = TakeOver(*source);
  } else if (!whole_ || steps_done_ != 0) {
    status = Reset();
  }
  if (!status.ok()) return status;
  const absl::StatusOr<uint64_t> weights = WeightsFingerprint();
  if (!weights.ok()) return weights.status();
  return Agree(
      {{"they are at different steps", static_cast<uint64_t>(steps_done_)},
       {"the weights differ; run the same rollcall-train on every node",
        *weights}});
}

absl::StatusOr<uint64_t> TrainLoop::WeightsFingerprint() {
  std::vector<float> weights(parameters());
  absl::Status status =
      backend_->CopyOut(StatePart::kWeights, absl::MakeSpan(weights));
  if (!status.ok()) return status;
  return HashBytes(weights.data(), weights.size() * sizeof(float));
}

absl::Status TrainLoop::Reset() {
  whole_ = false;
  if (absl::Status s = backend_->Reset(options_.seed); !s.ok()) return s;
  steps_done_ = 0;
  whole_ = true;
  return absl::OkStatus();
}

absl::Status TrainLoop::TakeOver(const TrainSource& source) {
  const bool mine = collective_->rank() == source.rank;
  if (mine && (!whole_ || steps_done_ != source.step)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "this rank was to give all others its state of step ", source.step,
        " and has ", whole_ ? "" : "half of ", "one of step ", steps_done_));
  }
  int64_t step = steps_done_;
  whole_ = mine;
  absl::Status status = collective_->Broadcast(Bytes(&step, 1), source.rank);
  if (!status.ok()) return status;
  status = collective_->Broadcast(Bytes(&backend_->powers(), 1), source.rank);
  if (!status.ok()) return status;
  for (const StatePart part : kStateParts) {
    const absl::Span<float> values = backend_->state(part);
    status = collective_->Broadcast(Bytes(values.data(), values.size()),
                                    source.rank);
    if (!status.ok()) return status;
  }
  if (status = backend_->WeightsChanged(); !status.ok()) return status;
  steps_done_ = step;
  whole_ = true;
  return absl::OkStatus();
}

// Each rank gives its fingerprints, in pieces that a float holds exactly, and
// their negatives: where the largest and the smallest differ, so do the ranks.
absl::Status TrainLoop::Agree(const std::vector<Fingerprint>& fingerprints) {
  constexpr int kPieces = 4;
  std::vector<float> pieces;
  for (const Fingerprint& f : fingerprints) {
    for (int i = 0; i < kPieces; ++i) {
      const float piece = (f.value >> (16 * i)) & 0xffff;
      pieces.insert(pieces.end(), {piece, -piece});
    }
  }
  absl::Status status =
      collective_->AllReduce(absl::MakeSpan(pieces), Reduction::kMax);
  if (!status.ok()) return status;
  for (size_t i = 0; i < pieces.size(); i += 2) {
    if (pieces[i] == -pieces[i + 1]) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "the ranks do not agree: ", fingerprints[i / (2 * kPieces)].otherwise));
  }
  return absl::OkStatus();
}

// --- A step ------------------------------------------------------------------

absl::Status TrainLoop::LoadShare(int64_t step) {
  const size_t context = options_.model.context;
  tokens_.clear();
  targets_.clear();
  std::vector<uint8_t> sample(context + 1);
  for (uint64_t i :
       sampler_.Share(step, collective_->rank(), collective_->size())) {
    absl::Status status = corpus_.Read(i * context, absl::MakeSpan(sample));
    if (!status.ok()) return status;
    tokens_.insert(tokens_.end(), sample.begin(), sample.end() - 1);
    targets_.insert(targets_.end(), sample.begin() + 1, sample.end());
  }
  return absl::OkStatus();
}

absl::StatusOr<StepResult> TrainLoop::Step(bool stop) {
  StepResult result;
  result.step = steps_done_ + 1;
  absl::Status status = LoadShare(result.step);
  if (!status.ok()) return status;

  // Of the mean over the whole batch, so that a plain sum over ranks is exact
  // even where shares differ in size.
  const double scale = 1.0 / (double(options_.batch) * options_.model.context);
  const absl::Span<float> gradients = backend_->gradients();
  status = backend_->LossAndGradients(
      tokens_, targets_, static_cast<float>(scale), stop,
      [&](const Bucket& bucket) {
        return collective_->BeginSum(
            gradients.subspan(bucket.begin, bucket.end - bucket.begin));
      });
  // Those that were begun end before anything else does.
  status.Update(collective_->Wait());
  if (!status.ok()) return status;
  const absl::StatusOr<Extras> extras = backend_->ReadExtras();
  if (!extras.ok()) return extras.status();

  result.loss = extras->loss;
  result.boundary = extras->stops > 0;
  result.learning_rate = LearningRate(options_.learning_rate, result.step,
                                      options_.warmup, options_.steps);
  const absl::StatusOr<double> updated = backend_->Update(result.learning_rate);
  if (!updated.ok()) return updated.status();
  const double norm = *updated;
  if (!std::isfinite(norm) || !std::isfinite(result.loss)) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "step %d: loss %g with a gradient of norm %g; try a lower --lr than %g "
        "or a longer --warmup than %d",
        result.step, result.loss, norm, options_.learning_rate,
        options_.warmup));
  }
  steps_done_ = result.step;
  return result;
}

}  // namespace rollcall
