#include "trainer/checkpointing.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/clock.h"

namespace rollcall {
namespace {

// Another process (an earlier rank 0) may be saving. This process gets no event
// when that save ends, so it tries again after this time.
constexpr absl::Duration kBetweenTries = absl::Milliseconds(100);

void Report(const std::string& text) {
  std::fprintf(stderr, "rollcall-train: %s\n", text.c_str());
}

// Whether --min-lr counts: it was given now, or in the training before, and a
// schedule uses it.
bool UsesMinLr(const TrainState& before, const TrainOptions& options) {
  const bool default_before = absl::StrCat(before.fall->last) ==
                              absl::StrCat(before.learning_rate / 10);
  return (options.last_learning_rate.has_value() || !default_before) &&
         options.schedule != Schedule::kConstant &&
         before.fall->schedule != Schedule::kConstant;
}

}  // namespace

std::string ChangedOptions(const TrainState& before,
                           const TrainOptions& options) {
  std::vector<std::string> changes;
  // By their texts, because a tenth of --lr can differ in the last bit from the
  // same number given as --min-lr.
  const auto compare = [&](const char* flag, auto before, auto now) {
    const std::string was = absl::StrCat(before);
    const std::string is = absl::StrCat(now);
    if (was == is) return;
    changes.push_back(absl::StrCat(flag, " ", was, " before, ", is, " now"));
  };
  compare("--lr", before.learning_rate, options.learning_rate);
  if (before.fall.has_value()) {
    compare("--schedule", NameOf(before.fall->schedule),
            NameOf(options.schedule));
    if (UsesMinLr(before, options)) {
      compare("--min-lr", before.fall->last, options.learning_rates().last);
    }
  }
  compare("--warmup", before.warmup, options.warmup);
  compare("--steps", before.steps, options.steps);
  compare("--batch", before.batch, int64_t{options.batch});
  compare("--beta1", before.optimizer.beta1, options.optimizer.beta1);
  compare("--beta2", before.optimizer.beta2, options.optimizer.beta2);
  compare("--weight-decay", before.optimizer.weight_decay,
          options.optimizer.weight_decay);
  compare("--clip", before.optimizer.clip, options.optimizer.clip);
  return absl::StrJoin(changes, "; ");
}

absl::StatusOr<std::unique_ptr<Checkpointing>> Checkpointing::Open(
    const TrainOptions& options) {
  absl::StatusOr<std::unique_ptr<CheckpointStore>> store =
      CheckpointStore::Open(options.checkpoints, options.keep_last);
  if (!store.ok()) return store.status();
  return std::unique_ptr<Checkpointing>(
      new Checkpointing(options, *std::move(store)));
}

Checkpointing::Checkpointing(const TrainOptions& options,
                             std::unique_ptr<CheckpointStore> store)
    : options_(options), store_(std::move(store)), saver_(*store_) {}

absl::StatusOr<std::optional<StoredState>> Checkpointing::Newest(
    const GptConfig& model, uint64_t data) {
  // A save of the last world may still run, and the store has one user.
  (void)Finish();
  return NewestBefore(nullptr, model, data);
}

absl::StatusOr<std::optional<StoredState>> Checkpointing::NewestBefore(
    const FoundCheckpoint* older_than, const GptConfig& model, uint64_t data) {
  std::vector<std::string> skipped;
  absl::StatusOr<std::optional<FoundCheckpoint>> found =
      store_->Newest(model, &skipped, older_than);
  for (const std::string& why : skipped) Report("skipped: " + why);
  if (!found.ok()) return found.status();
  if (!found->has_value()) return std::nullopt;
  const TrainState& state = (*found)->state;
  if (state.seed != options_.seed) {
    return absl::FailedPreconditionError(absl::StrCat(
        (*found)->path, " was trained with --seed ", state.seed,
        ", this run has --seed ", options_.seed,
        ": give the same seed, or another folder as --checkpoints"));
  }
  if (state.data_fingerprint != data && !options_.new_data) {
    return absl::FailedPreconditionError(absl::StrCat(
        (*found)->path,
        " was trained on other data than this --data: give the "
        "same files in the same order, --new-data to go on with these from "
        "their first sample, or another folder as --checkpoints"));
  }
  StoredState stored;
  stored.state = state;
  stored.copy = (*found)->copy;
  stored.load = [found = **found](StateTensors* tensors) {
    const absl::Status status = LoadCheckpoint(found, tensors);
    if (!status.ok() && !absl::IsResourceExhausted(status)) {
      Report(absl::StrCat("skipped: ", status.message()));
    }
    return status;
  };
  stored.find_older = [this, found = **found, model,
                       data](std::optional<StoredState>* stored) {
    absl::StatusOr<std::optional<StoredState>> older =
        NewestBefore(&found, model, data);
    if (!older.ok()) return older.status();
    *stored = *std::move(older);
    return absl::OkStatus();
  };
  return stored;
}

absl::Status Checkpointing::Writable() const {
  if (access(store_->folder().c_str(), W_OK | X_OK) == 0) {
    return absl::OkStatus();
  }
  return absl::ErrnoToStatus(
      errno, absl::StrCat("--checkpoints ", store_->folder(),
                          ": expected a folder that this rank may write to; "
                          "fix that or give another folder"));
}

void Checkpointing::GoesOnAfter(int64_t step, bool stored) {
  if (stored) saved_ = step;
  // Steps that are repeated are saved again.
  if (step >= std::max(begun_, saved_)) return;
  (void)Finish();
  begun_ = saved_ = -1;
}

absl::Status Checkpointing::Begin(TrainLoop& loop) {
  const auto begun = saver_.Begin(loop.state(), [&](StateTensors& tensors) {
    return loop.CopyOut(&tensors);
  });
  if (!begun.ok()) return begun.status();
  const int64_t last = std::exchange(begun_, loop.steps_done());
  if (begun->before.has_value()) (void)Tell(*begun->before, last);
  return absl::OkStatus();
}

absl::Status Checkpointing::Tell(const CheckpointSaver::Outcome& outcome,
                                 int64_t step) {
  if (!outcome.ok()) {
    Report(
        absl::StrCat("checkpoint not written: ", outcome.status().message()));
    return outcome.status();
  }
  saved_ = std::max(saved_, step);
  if (when_saved_) when_saved_(step);
  Report(absl::StrCat("checkpoint ", outcome->path, ", ", outcome->bytes,
                      " bytes"));
  for (const std::string& warning : outcome->warnings) Report(warning);
  return absl::OkStatus();
}

absl::Duration Checkpointing::AfterStep(TrainLoop& loop) {
  const absl::Time before = MonotonicNow();
  if (auto ended = saver_.Ended()) (void)Tell(*ended, begun_);
  const int64_t step = loop.steps_done();
  if (step % options_.save_every != 0 || step == begun_) {
    return absl::ZeroDuration();
  }
  if (absl::Status s = Begin(loop); !s.ok()) {
    Report(absl::StrCat("checkpoint not written: ", s.message()));
  }
  return MonotonicNow() - before;
}

absl::Status Checkpointing::SaveNow(TrainLoop& loop, absl::Time deadline) {
  return SaveUnless(loop, deadline,
                    [&] { return saved_ == loop.steps_done(); });
}

absl::Status Checkpointing::SaveUnlessStored(TrainLoop& loop,
                                             absl::Time deadline) {
  return SaveUnless(loop, deadline,
                    [&] { return store_->HighestStep() >= loop.steps_done(); });
}

absl::Status Checkpointing::SaveUnless(TrainLoop& loop, absl::Time deadline,
                                       const std::function<bool()>& kept) {
  absl::Status status = Finish();
  while (!kept()) {
    status = Begin(loop);
    if (!status.ok()) return status;
    status = Finish();
    if (!absl::IsUnavailable(status)) return status;
    if (MonotonicNow() + kBetweenTries >= deadline) return status;
    absl::SleepFor(kBetweenTries);
  }
  return absl::OkStatus();
}

absl::Status Checkpointing::Finish() {
  if (auto ended = saver_.Wait()) return Tell(*ended, begun_);
  return absl::OkStatus();
}

}  // namespace rollcall
