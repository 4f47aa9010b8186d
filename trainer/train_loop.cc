#include "trainer/train_loop.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/base/check.h"
#include "daemon/base/counted.h"
#include "trainer/rank/agreement.h"

namespace rollcall {
namespace {

// What a rank with a state tells the others about it, besides its tensors.
struct StateSummary {
  int64_t step;
  DataPosition position;
  double loss;
  AdamWPowers powers;
  SpikeGuard::State spikes;
};
std::optional<int> RankOf(const std::optional<TrainSource>& source) {
  if (!source.has_value()) return std::nullopt;
  return source->rank;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TrainLoop>> TrainLoop::Create(
    TrainOptions options, const MakeBackend& make) {
  absl::StatusOr<Dataset> dataset = Dataset::Open(options.data);
  if (!dataset.ok()) return dataset.status();
  const uint64_t samples =
      Sampler::CountSamples(dataset->tokens(), options.model.context);
  if (samples < static_cast<uint64_t>(options.batch)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--data holds ", dataset->tokens(), " ", dataset->unit(), ", or ",
        Counted(samples, "sample"), " of --context ", options.model.context,
        " plus one token: expected at least the ", options.batch,
        " of --batch, which one step takes"));
  }
  std::optional<Validation> validation;
  if (!options.validation_data.empty()) {
    absl::StatusOr<Validation> opened = Validation::Open(
        options.validation_data, *dataset, options.model.context,
        uint64_t(options.batch) * options.validation_batches);
    if (!opened.ok()) return opened.status();
    validation.emplace(*std::move(opened));
  }
  options.model.vocabulary = dataset->vocabulary();
  absl::StatusOr<std::unique_ptr<Backend>> backend =
      make(options.model, options.optimizer);
  if (!backend.ok()) return backend.status();
  // Reserves for one sample, the smallest share that any world can require.
  if (absl::Status s = (*backend)->Reserve(1); !s.ok()) return s;
  absl::StatusOr<uint64_t> data = dataset->Fingerprint();
  if (!data.ok()) return data.status();
  return std::unique_ptr<TrainLoop>(new TrainLoop(options, *std::move(dataset),
                                                  *data, std::move(validation),
                                                  *std::move(backend)));
}

TrainLoop::TrainLoop(const TrainOptions& options, Dataset dataset,
                     uint64_t data, std::optional<Validation> validation,
                     std::unique_ptr<Backend> backend)
    : options_(options),
      dataset_(std::move(dataset)),
      data_(data),
      validation_(std::move(validation)),
      samples_(Sampler::CountSamples(dataset_.tokens(), options.model.context)),
      sampler_(options.seed, samples_, options.batch),
      backend_(std::move(backend)),
      guard_(options.skip_spikes) {}

// --- Into a world ------------------------------------------------------------

absl::Status TrainLoop::Enter(Collective& collective,
                              const std::optional<TrainSource>& source,
                              std::optional<StoredState>* stored) {
  collective_ = &collective;
  world_size_ = collective.size();
  absl::Status status = AgreeOnSettings(
      collective, options_, data_,
      validation_.has_value() ? validation_->data() : 0, RankOf(source));
  if (status.ok()) status = WarmUp();
  if (status.ok()) status = ReserveMemory();
  if (!status.ok()) return status;
  std::optional<StoredState> none;
  const absl::StatusOr<uint64_t> fingerprint =
      source.has_value()
          ? TakeOver(*source)
          : TakeStoredOrBegin(stored != nullptr ? stored : &none);
  if (!fingerprint.ok()) return fingerprint.status();
  return Agree(collective,
               {{"they are at different steps", uint64_t(steps_done_)},
                {"their weights or moments differ; run the same rollcall-train "
                 "on every node",
                 *fingerprint}},
               RankOf(source));
}

// Sums before free memory is read, with a size that the steps also sum. The
// values in the gradients have no meaning here.
absl::Status TrainLoop::WarmUp() {
  if (world_size_ == 1 || !backend_->FirstSumTakesMemory()) {
    return absl::OkStatus();
  }
  const Bucket& bucket = backend_->buckets().front();
  absl::Status status = collective_->BeginSum(
      backend_->gradients().subspan(bucket.begin, bucket.end - bucket.begin));
  status.Update(collective_->Wait());
  return status;
}

// The memory depends on the rank's share of the batch, and so on the number of
// ranks.
absl::Status TrainLoop::ReserveMemory() {
  MemoryWishes wishes;
  wishes.share =
      static_cast<int>(Sampler::ShareSizeMax(options_.batch, world_size_));
  wishes.micro_batch = options_.micro_batch;
  wishes.most = options_.memory_max;
  const absl::StatusOr<double> room = backend_->RoomForActivations(ranks_here_);
  if (!room.ok()) return room.status();
  MemoryFacts facts;
  facts.state = backend_->StateBytes();
  facts.room = *room;
  facts.activations = [this](int sequences) {
    return backend_->ActivationBytes(sequences);
  };
  const absl::StatusOr<MemoryPlan> plan = PlanMemory(wishes, facts);
  if (!plan.ok()) return plan.status();
  if (tell_) tell_(*plan);
  return backend_->Reserve(plan->micro_batch);
}

// In a world of one rank there is nothing to compare.
absl::StatusOr<uint64_t> TrainLoop::Fingerprint() {
  if (world_size_ == 1) return 0;
  return backend_->Fingerprint();
}

// The state before step 1. First weights that were read are sent, because the
// other ranks need not have the file.
absl::StatusOr<uint64_t> TrainLoop::Begin() {
  const bool begun = whole_ && steps_done_ == 0;
  if (!begun) {
    if (absl::Status s = Reset(); !s.ok()) return s;
  }
  if (read_first_ == nullptr) return Fingerprint();
  const TrainSource first{0, 0};
  if (!begun) {
    whole_ = false;
    if (collective_->rank() == first.rank) {
      std::vector<float> weights(parameters());
      absl::Status status = read_first_(absl::MakeSpan(weights));
      if (!status.ok()) return status;
      status = backend_->CopyIn(StatePart::kWeights, weights);
      if (!status.ok()) return status;
      whole_ = true;
    }
  }
  return TakeOver(first);
}

absl::Status TrainLoop::Reset() {
  whole_ = false;
  if (absl::Status s = backend_->Reset(options_.seed); !s.ok()) return s;
  steps_done_ = 0;
  position_ = DataPosition();
  loss_ = 0;
  guard_.set_state({});
  whole_ = true;
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> TrainLoop::TakeOver(const TrainSource& source) {
  const bool mine = collective_->rank() == source.rank;
  if (mine && (!whole_ || steps_done_ != source.step)) {
    return absl::InternalError(absl::StrCat(
        "this rank was to send all others its state of step ", source.step,
        " and has ", whole_ ? "" : "half of ", "one of step ", steps_done_));
  }
  StateSummary summary{steps_done_, position_, loss_, backend_->powers(),
                       guard_.state()};
  absl::Status status =
      collective_->Broadcast(BytesOf(absl::MakeSpan(&summary, 1)), source.rank);
  if (!status.ok()) return status;
  const absl::StatusOr<uint64_t> fingerprint = SendTensors(source);
  if (!fingerprint.ok()) return fingerprint.status();
  backend_->powers() = summary.powers;
  steps_done_ = summary.step;
  position_ = summary.position;
  loss_ = summary.loss;
  guard_.set_state(summary.spikes);
  whole_ = true;
  return fingerprint;
}

// Most often all ranks that go on have done the same steps in the same world,
// and nothing has to be sent. Steps alone do not show that: two ranks may have
// done the same step in different worlds, which rounds differently.
absl::StatusOr<uint64_t> TrainLoop::SendTensors(const TrainSource& source) {
  struct Held {
    uint64_t whole, fingerprint;
    bool operator==(const Held&) const = default;
  };
  Held held{};
  if (whole_ && steps_done_ == source.step) {
    const absl::StatusOr<uint64_t> fingerprint = Fingerprint();
    if (!fingerprint.ok()) return fingerprint.status();
    held = {1, *fingerprint};
  }
  std::vector<Held> all(world_size_);
  absl::Status status = collective_->AllGather(
      BytesOf(absl::MakeSpan(&held, 1)), BytesOf(absl::MakeSpan(all)));
  if (!status.ok()) return status;
  const Held& right = all[source.rank];
  if (std::count(all.begin(), all.end(), right) == world_size_) {
    return held.fingerprint;
  }
  // A rank that has the state receives the bytes that it has already, and
  // passes them on. So its state stays whole even if this is interrupted.
  const bool lacks = held != right;
  if (lacks) whole_ = false;
  for (const StatePart part : kStateParts) {
    const absl::Span<float> values = backend_->state(part);
    status = collective_->Broadcast(BytesOf(values), source.rank);
    if (!status.ok()) return status;
  }
  if (!lacks) return held.fingerprint;
  if (status = backend_->WeightsChanged(); !status.ok()) return status;
  return Fingerprint();
}

// Finds the highest step that any rank has stored, and the lowest of the ranks
// that have it.
absl::StatusOr<std::optional<TrainSource>> TrainLoop::FindStored(
    const std::optional<StoredState>& stored) {
  int64_t mine = stored.has_value() ? stored->state.step : 0;
  std::vector<int64_t> steps(collective_->size());
  absl::Status status = collective_->AllGather(
      BytesOf(absl::MakeSpan(&mine, 1)), BytesOf(absl::MakeSpan(steps)));
  if (!status.ok()) return status;
  const auto best = std::max_element(steps.begin(), steps.end());
  if (*best <= 0) return std::nullopt;
  return TrainSource{static_cast<int>(best - steps.begin()), *best};
}

// Only one rank reads a stored state, however many have it: a checkpoint of
// hundreds of GB would otherwise be read by all ranks at once.
absl::StatusOr<uint64_t> TrainLoop::TakeStoredOrBegin(
    std::optional<StoredState>* stored) {
  for (;;) {
    const absl::StatusOr<std::optional<TrainSource>> found =
        FindStored(*stored);
    if (!found.ok()) return found.status();
    if (!found->has_value()) return Begin();
    const TrainSource& source = **found;
    const bool mine = collective_->rank() == source.rank;
    struct {
      uint64_t damaged = 0, copy = 0;
    } outcome;
    if (mine) {
      const absl::StatusOr<bool> intact = Load(**stored);
      if (!intact.ok()) return intact.status();
      outcome = {*intact ? 0u : 1u, (*stored)->copy};
    }
    absl::Status status = collective_->Broadcast(
        BytesOf(absl::MakeSpan(&outcome, 1)), source.rank);
    if (!status.ok()) return status;
    if (outcome.damaged == 0) return TakeOver(source);
    if (!stored->has_value() || (*stored)->state.step != source.step ||
        (*stored)->copy != outcome.copy) {
      continue;
    }
    const auto find_older = (*stored)->find_older;  // It replaces its owner.
    if (status = find_older(stored); !status.ok()) return status;
  }
}

// False: the state is damaged, and the rank's own state has not changed.
absl::StatusOr<bool> TrainLoop::Load(const StoredState& stored) {
  StateTensors tensors;
  if (absl::Status s = stored.load(&tensors); !s.ok()) {
    if (absl::IsResourceExhausted(s)) return s;
    return false;
  }
  whole_ = false;
  const std::vector<float>* const parts[] = {&tensors.weights, &tensors.first,
                                             &tensors.second};
  for (size_t i = 0; i < std::size(parts); ++i) {
    absl::Status status = backend_->CopyIn(kStateParts[i], *parts[i]);
    if (!status.ok()) return status;
  }
  backend_->powers() = stored.state.powers;
  steps_done_ = stored.state.step;
  loss_ = stored.state.loss;
  // A checkpoint has no norms, so the first steps after it are not judged.
  guard_.set_state({});
  // A position is valid only for the data that it was made with.
  position_ = stored.state.data_fingerprint == data_ ? stored.state.position
                                                     : DataPosition();
  whole_ = true;
  return true;
}

TrainState TrainLoop::state() const {
  TrainState state;
  state.step = steps_done_;
  state.loss = loss_;
  state.position = position_;
  state.powers = backend_->powers();
  state.model = backend_->config();
  state.optimizer = options_.optimizer;
  state.seed = options_.seed;
  state.batch = options_.batch;
  const LearningRates rates = options_.learning_rates();
  state.learning_rate = rates.peak;
  state.fall = RateFall{rates.last, rates.schedule};
  state.warmup = options_.warmup;
  state.steps = options_.steps;
  state.data_fingerprint = data_;
  state.world_size = world_size_;
  state.backend = std::string(backend_->name());
  return state;
}

absl::Status TrainLoop::CopyOut(StateTensors* tensors) {
  std::vector<float>* const parts[] = {&tensors->weights, &tensors->first,
                                       &tensors->second};
  if (tensors->weights.size() != parameters()) {
    if (absl::Status s = tensors->Resize(parameters()); !s.ok()) return s;
    for (std::vector<float>* part : parts) {
      tensors->pins.push_back(backend_->Pin(absl::MakeSpan(*part)));
    }
  }
  for (size_t i = 0; i < std::size(parts); ++i) {
    absl::Status status =
        backend_->CopyOut(kStateParts[i], absl::MakeSpan(*parts[i]));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// --- A step ------------------------------------------------------------------

absl::Status TrainLoop::LoadShare() {
  const size_t context = options_.model.context;
  tokens_.clear();
  targets_.clear();
  std::vector<Token> sample(context + 1);
  for (uint64_t i :
       sampler_.Share(position_, collective_->rank(), collective_->size())) {
    absl::Status status = dataset_.Read(i * context, absl::MakeSpan(sample));
    if (!status.ok()) return status;
    tokens_.insert(tokens_.end(), sample.begin(), sample.end() - 1);
    targets_.insert(targets_.end(), sample.begin() + 1, sample.end());
  }
  return absl::OkStatus();
}

// Asks for the samples of the step at `position`, so that its LoadShare finds
// them in memory.
void TrainLoop::PrefetchShare(const DataPosition& position) const {
  const size_t context = options_.model.context;
  for (uint64_t i :
       sampler_.Share(position, collective_->rank(), collective_->size())) {
    dataset_.Prefetch(i * context, context + 1);
  }
}

absl::StatusOr<StepResult> TrainLoop::Step(bool stop) {
  StepResult result;
  result.step = steps_done_ + 1;
  absl::Status status = LoadShare();
  if (!status.ok()) return status;
  if (result.step < options_.steps) PrefetchShare(sampler_.After(position_));

  // Gradients are those of the mean over the whole batch. So a plain sum over
  // the ranks is exact, also if the shares differ in size.
  const double scale = 1.0 / (double(options_.batch) * options_.model.context);
  const absl::Span<float> gradients = backend_->gradients();
  status = backend_->LossAndGradients(
      tokens_, targets_, static_cast<float>(scale), stop,
      [&](const Bucket& bucket) {
        return collective_->BeginSum(
            gradients.subspan(bucket.begin, bucket.end - bucket.begin));
      });
  // Wait for the sums in progress before any error is handled.
  status.Update(collective_->Wait());
  if (!status.ok()) return status;
  const absl::StatusOr<Extras> extras = backend_->ReadExtras();
  if (!extras.ok()) return extras.status();

  result.loss = extras->loss;
  result.boundary = extras->stops > 0;
  result.learning_rate = options_.learning_rates().At(result.step);
  status = Apply(&result);
  if (!status.ok()) return status;
  result.memory_bytes = static_cast<uint64_t>(backend_->PeakBytes());
  steps_done_ = result.step;
  position_ = sampler_.After(position_);
  return result;
}

// Updates the weights, or skips it. The loss and the gradients are sums over
// all ranks, equal to the bit on each of them, so all ranks do the same.
absl::Status TrainLoop::Apply(StepResult* result) {
  const double norm_max = guard_.norm_max();
  double norm = std::numeric_limits<double>::quiet_NaN();
  if (std::isfinite(result->loss)) {
    const absl::StatusOr<double> updated =
        backend_->Update(result->learning_rate, norm_max);
    if (!updated.ok()) return updated.status();
    norm = *updated;
  }
  result->gradient_norm = norm;
  if (norm <= norm_max && std::isfinite(norm)) {
    guard_.Took(norm);
    loss_ = result->loss;
    result->skipped_steps = guard_.state().skipped;
    return absl::OkStatus();
  }
  const std::string reason = guard_.Reason(result->loss, norm);
  if (!guard_.on()) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "step %d: %s; try a lower --lr than %g or a longer --warmup than %d",
        result->step, reason, options_.learning_rate, options_.warmup));
  }
  if (guard_.NextSkipEnds()) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "step %d: %s; --skip-spikes would skip %d steps in a row, so the run "
        "ends; resume from a checkpoint before the first of them with a lower "
        "--lr than %g, or give a higher --skip-spikes than %g",
        result->step, reason, SpikeGuard::kInARowMax, options_.learning_rate,
        options_.skip_spikes));
  }
  guard_.Skipped();
  result->skipped = reason;
  result->skipped_steps = guard_.state().skipped;
  return absl::OkStatus();
}

bool TrainLoop::ValidationDue() const {
  return validation_.has_value() &&
         (steps_done_ % options_.validate_every == 0 ||
          steps_done_ == options_.steps);
}

absl::StatusOr<double> TrainLoop::Validate() {
  CHECK(validation_.has_value());
  return validation_->MeanLoss(*backend_, *collective_);
}

}  // namespace rollcall
