#include "trainer/training.h"

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "daemon/base/counted.h"
#include "trainer/checkpointing.h"
#include "trainer/init_from.h"
#include "trainer/model/cpu/openblas.h"
#include "trainer/model/model_flops.h"
#include "trainer/rank/connect.h"
#include "trainer/rank/rank_device.h"
#include "trainer/rank/world_end.h"
#include "trainer/steps/progress_report.h"
#include "trainer/train_loop.h"

namespace rollcall {
namespace {

using ULL = unsigned long long;

// How long to wait for another rank's save. By default an agent waits 15 s
// (stop_grace) before it kills the rank.
constexpr absl::Duration kOtherSaveTimeout = absl::Seconds(10);

ReportOptions ReportOf(const TrainOptions& options, int which) {
  ReportOptions report;
  report.style = options.log_json ? ReportStyle::kJson : StyleFor(stdout);
  report.every = options.log_every;
  // With --log-json, programs that read every step need no other flag.
  if (options.log_json && report.every == 0) report.every = 1;
  report.silent = which != 0 && !options.all_ranks_log;
  return report;
}

std::optional<TrainSource> SourceOf(const Rank* rank) {
  if (rank == nullptr || !rank->world().world_commit().has_state_source())
    return {};
  const v1::StateSource& source = rank->world().world_commit().state_source();
  return TrainSource{static_cast<int>(source.rank()),
                     static_cast<int64_t>(source.step())};
}

absl::Status WorldIsAlive(const Rank* rank) {
  if (rank == nullptr) return absl::OkStatus();
  if (rank->aborted()) return absl::AbortedError("the world has ended");
  if (rank->lost()) {
    return absl::UnavailableError(absl::StrCat(
        "the agent of this node is gone: ", rank->lost_reason().message()));
  }
  return absl::OkStatus();
}

RankStep Published(const Progress& progress) {
  RankStep done;
  done.step = progress.step;
  done.steps = progress.steps;
  done.loss = progress.loss;
  done.tokens_per_second = progress.tokens_per_second;
  done.gradient_norm = progress.gradient_norm;
  done.flops_utilization = progress.flops_utilization;
  done.validation_loss = progress.validation_loss;
  done.memory_bytes = progress.memory_bytes;
  return done;
}

// While this object lives, the rank can answer its agent which collective it
// has entered and left last.
class Located {
 public:
  Located(Rank* rank, const Collective& collective) : rank_(rank) {
    if (rank_ == nullptr) return;
    rank_->WhenAsked([&collective] {
      const CollectiveSeen seen = collective.seen();
      return RankCollectives{seen.entered, seen.left};
    });
  }
  ~Located() {
    if (rank_ != nullptr) rank_->WhenAsked(nullptr);
  }
  Located(const Located&) = delete;
  Located& operator=(const Located&) = delete;

 private:
  Rank* const rank_;
};

class Training {
 public:
  Training(const TrainOptions& options, Rank* rank, LeaveSignals& signals)
      : options_(options), rank_(rank), signals_(signals) {}

  RankEnd Run();

 private:
  absl::StatusOr<int> TrainInWorlds();
  absl::Status Prepare();
  absl::Status MakeLoop();
  absl::Status TrainInWorld();
  absl::Status Enter(Collective& collective);
  absl::Status EnterFrom(const std::optional<TrainSource>& source,
                         Collective& collective);
  void TellOfValidation(const Validation& validation) const;
  absl::Status RunSteps(Collective& collective);
  absl::Status StopAtBoundary();
  absl::Status GoOnToNextWorld();
  void SaveState();
  bool noticed();
  bool Saves() const;
  Progress Known(const Collective& collective) const;

  const TrainOptions& options_;
  Rank* const rank_;
  LeaveSignals& signals_;
  std::unique_ptr<RankDevice> device_;
  std::unique_ptr<TrainLoop> loop_;  // Null before MakeLoop.
  std::unique_ptr<Checkpointing> checkpointing_;
  bool told_ = false;  // The agent knows of a signal.
  bool stopped_ = false;
  // The last world ended by an error that another try would give again.
  bool permanent_ = false;
  std::optional<double> validation_loss_;  // Of the latest validation.
  absl::Duration held_up_;  // The time that checkpoints took, in this world.
};

RankEnd Training::Run() {
  RankEnd end{TrainInWorlds(), ""};
  if (permanent_ && !end.code.ok()) {
    end.permanent = std::string(end.code.status().message());
  }
  return end;
}

absl::StatusOr<int> Training::TrainInWorlds() {
  if (absl::Status s = Prepare(); !s.ok()) return s;
  for (;;) {
    const absl::Status status = TrainInWorld();
    if (status.ok()) return stopped_ ? kExitAskedToStop : 0;
    if (rank_ == nullptr || !MayBeWorldEnd(status, rank_->aborted())) {
      return status;
    }
    permanent_ = false;
    if (!rank_->aborted()) {
      // The wait may be long, because the agent may learn of the failure late
      // or never.
      std::fprintf(stderr,
                   "rollcall-train: %s; waiting for the end of generation "
                   "%llu\n",
                   status.ToString().c_str(),
                   static_cast<ULL>(rank_->generation()));
    }
    if (!rank_->AwaitAbort(options_.collective_timeout).ok()) return status;
    if (absl::Status next = GoOnToNextWorld(); !next.ok()) return next;
  }
}

absl::Status Training::Prepare() {
  absl::StatusOr<std::unique_ptr<RankDevice>> device =
      RankDevice::Find(options_.device, rank_);
  if (!device.ok()) return device.status();
  device_ = *std::move(device);
  if (options_.checkpoints.empty()) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<Checkpointing>> checkpointing =
      Checkpointing::Open(options_);
  if (!checkpointing.ok()) return checkpointing.status();
  checkpointing_ = *std::move(checkpointing);
  if (rank_ != nullptr) {
    checkpointing_->WhenSaved(
        [this](int64_t step) { rank_->Saved(static_cast<uint64_t>(step)); });
  }
  // Check this now, not when the first checkpoint is due.
  return Saves() ? checkpointing_->Writable() : absl::OkStatus();
}

// Called in the first world in which the ranks have agreed on their devices.
absl::Status Training::MakeLoop() {
  absl::StatusOr<std::unique_ptr<TrainLoop>> loop = TrainLoop::Create(
      options_, [this](const GptConfig& model, const AdamWConfig& optimizer) {
        return device_->MakeBackend(model, optimizer);
      });
  if (!loop.ok()) return loop.status();
  loop_ = *std::move(loop);
  if (absl::Status s = BeginWithGiven(options_, *loop_); !s.ok()) return s;
  loop_->WhenPlanned([](const MemoryPlan& plan) {
    std::fprintf(stderr, "rollcall-train: %s\n", plan.ToString().c_str());
  });
  return absl::OkStatus();
}

absl::Status Training::TrainInWorld() {
  if (rank_ != nullptr) ShareCores(rank_->ranks_here());
  if (absl::Status s = AgreeOnDevice(rank_, *device_); !s.ok()) return s;
  if (loop_ == nullptr) {
    if (absl::Status s = MakeLoop(); !s.ok()) return s;
  }
  if (rank_ != nullptr) loop_->set_ranks_here(rank_->ranks_here());
  absl::StatusOr<std::unique_ptr<Collective>> collective =
      Connect(options_, rank_, *device_);
  if (!collective.ok()) return collective.status();
  const Located located(rank_, **collective);
  if (absl::Status s = Enter(**collective); !s.ok()) return s;
  if (absl::Status s = RunSteps(**collective); !s.ok()) return s;
  return (*collective)->Finish();
}

absl::Status Training::Enter(Collective& collective) {
  const std::optional<TrainSource> source = SourceOf(rank_);
  const absl::Status status = EnterFrom(source, collective);
  // Flags, data or a checkpoint do not fit together. In a later generation, a
  // newcomer may be the only one that does not fit.
  permanent_ = rank_ != nullptr && rank_->generation() == 1 &&
               absl::IsFailedPrecondition(status);
  return status;
}

absl::Status Training::EnterFrom(const std::optional<TrainSource>& source,
                                 Collective& collective) {
  std::optional<StoredState> stored;
  if (!source.has_value() && checkpointing_ != nullptr) {
    absl::StatusOr<std::optional<StoredState>> newest =
        checkpointing_->Newest(loop_->backend().config(), loop_->data());
    if (!newest.ok()) return newest.status();
    stored = *std::move(newest);
  }
  const absl::Status status = loop_->Enter(collective, source, &stored);
  if (status.ok() && checkpointing_ != nullptr) {
    const int64_t step = loop_->steps_done();
    checkpointing_->GoesOnAfter(
        step, stored.has_value() && stored->state.step == step);
  }
  if (!status.ok() || collective.rank() != 0) return status;
  if (!source.has_value()) TellOfGiven(options_, loop_->steps_done());
  const std::string changed =
      stored.has_value() && stored->state.step == loop_->steps_done()
          ? ChangedOptions(stored->state, options_)
          : "";
  if (!changed.empty()) {
    std::fprintf(stderr, "rollcall-train: resumed with other options: %s\n",
                 changed.c_str());
  }
  std::fprintf(
      stderr,
      "rollcall-train: %zu parameters on %s, %s of %d tokens, %d a step over "
      "%s, after step %lld\n",
      loop_->parameters(), device_->description().c_str(),
      Counted(loop_->samples(), "sample").c_str(), options_.model.context,
      options_.batch, Counted(collective.size(), "rank").c_str(),
      static_cast<long long>(loop_->steps_done()));
  if (loop_->validation() != nullptr) TellOfValidation(*loop_->validation());
  return status;
}

void Training::TellOfValidation(const Validation& validation) const {
  const std::string every =
      options_.validate_every == 1
          ? "step"
          : Counted(static_cast<uint64_t>(options_.validate_every), "step");
  std::fprintf(stderr,
               "rollcall-train: validation on %s of --val-data every %s\n",
               Counted(validation.samples(), "sample").c_str(), every.c_str());
  if (validation.trained_on().has_value()) {
    std::fprintf(
        stderr,
        "rollcall-train: warning: %s is in --val-data and in --data, "
        "so the validation loss is not that of held-out data; leave it "
        "out of one of the two\n",
        validation.trained_on()->c_str());
  }
}

absl::Status Training::RunSteps(Collective& collective) {
  ProgressReport report(ReportOf(options_, collective.rank()), stdout);
  report.BeginWorld(Known(collective), loop_->steps_done(), options_.batch,
                    options_.model.context);
  const absl::Time begun = MonotonicNow();
  held_up_ = absl::ZeroDuration();
  while (loop_->steps_done() < options_.steps) {
    if (absl::Status s = WorldIsAlive(rank_); !s.ok()) return s;
    absl::StatusOr<StepResult> result = loop_->Step(noticed());
    if (!result.ok()) {
      permanent_ = absl::IsFailedPrecondition(result.status());
      return result.status();
    }
    if (!result->skipped.empty() &&
        (collective.rank() == 0 || options_.all_ranks_log)) {
      std::fprintf(stderr,
                   "rollcall-train: step %lld skipped, it changes no weights: "
                   "%s; %lld skipped so far\n",
                   static_cast<long long>(result->step),
                   result->skipped.c_str(),
                   static_cast<long long>(result->skipped_steps));
    }
    const bool stops = result->boundary && result->step < options_.steps;
    // All ranks stop at the same steps. A stop may have a deadline, before
    // which the state has to be saved.
    if (loop_->ValidationDue() && !stops) {
      const absl::Time before = MonotonicNow();
      const absl::StatusOr<double> loss = loop_->Validate();
      if (!loss.ok()) return loss.status();
      result->validation_loss = validation_loss_ = *loss;
      result->validation_took = MonotonicNow() - before;
    }
    const Progress& progress = report.Tell(*result);
    if (rank_ != nullptr) {
      rank_->Progress(Published(progress));
    }
    // While steps are skipped, a checkpoint would only take the place of an
    // older one, which the weights may be better in.
    if (Saves() && !loop_->skipping()) {
      held_up_ += checkpointing_->AfterStep(*loop_);
    }
    if (stops) return StopAtBoundary();
  }
  if (!Saves()) return absl::OkStatus();
  const absl::Duration took = MonotonicNow() - begun;
  std::fprintf(stderr,
               "rollcall-train: checkpoints blocked its steps for %.3f s of "
               "%.1f s (%.2f%%)\n",
               absl::ToDoubleSeconds(held_up_), absl::ToDoubleSeconds(took),
               100 * absl::FDivDuration(held_up_, took));
  // Save the last step, if no periodic save did.
  return checkpointing_->SaveNow(*loop_, absl::InfiniteFuture());
}

// Whether this rank was asked to stop at a step boundary.
bool Training::noticed() {
  if (rank_ == nullptr) return signals_.asked();
  const bool noticed = rank_->noticed();
  if (signals_.asked() && !std::exchange(told_, true) && !noticed) {
    rank_->AskToLeave();
  }
  return noticed;
}

bool Training::Saves() const {
  if (checkpointing_ == nullptr) return false;
  if (rank_ == nullptr) return true;
  return options_.saved_by == SavedBy::kEveryNode ? rank_->local_rank() == 0
                                                  : rank_->rank() == 0;
}

// Called when all ranks have stopped after this step.
absl::Status Training::StopAtBoundary() {
  absl::Time deadline = absl::InfiniteFuture();
  if (rank_ != nullptr) {
    // The flag that the ranks sum may arrive before the agent's own notice.
    if (absl::Status s = rank_->AwaitNotice(); !s.ok()) return s;
    const std::optional<v1::RankNotice> notice = rank_->notice();
    // With GROW, no node leaves, so no state can be lost.
    if (notice.has_value() && notice->kind() == v1::NOTICE_KIND_GROW) {
      return WaitAtBoundary(*rank_, loop_->steps_done());
    }
    if (notice.has_value() && notice->has_deadline()) {
      deadline = MonotonicNow() + absl::Seconds(notice->deadline().seconds());
    }
  }
  if (Saves()) {
    // A save that failed was reported, and does not keep the rank here.
    (void)checkpointing_->SaveNow(*loop_, deadline);
  }
  std::fprintf(stderr, "rollcall-train: stopped after step %lld\n",
               static_cast<long long>(loop_->steps_done()));
  if (rank_ != nullptr) return WaitAtBoundary(*rank_, loop_->steps_done());
  stopped_ = true;
  return absl::OkStatus();
}

absl::Status Training::GoOnToNextWorld() {
  const int64_t step = loop_ == nullptr ? 0 : loop_->steps_done();
  std::fprintf(stderr,
               "rollcall-train: generation %llu has ended after step %lld: "
               "%s\n",
               static_cast<ULL>(rank_->generation()),
               static_cast<long long>(step),
               rank_->abort().value_or(v1::RankAbort()).reason().c_str());
  rank_->Stopped(step, loop_ != nullptr && loop_->whole());
  // During this wait there are no steps at which the signal could be read.
  signals_.BeginWait([this] { rank_->CancelNextWorld(); });
  const absl::Status next = rank_->NextWorld();
  signals_.EndWait();
  if (absl::IsCancelled(next)) {
    SaveState();
    signals_.Release();
  }
  told_ = false;
  return next;
}

// A rank that is stopped between two worlds reaches no boundary any more. So it
// saves its state now, unless another rank has saved it, or the world may have
// ended because a peer reached the limit of skipped steps in a row. The process
// ends after this, so a save in progress is awaited in any case.
void Training::SaveState() {
  if (checkpointing_ == nullptr) return;
  (void)checkpointing_->Finish();
  if (loop_ == nullptr || !loop_->whole() || loop_->next_skip_ends()) return;
  if (options_.saved_by == SavedBy::kEveryNode && rank_->local_rank() != 0) {
    return;
  }
  (void)checkpointing_->SaveUnlessStored(*loop_,
                                         MonotonicNow() + kOtherSaveTimeout);
}

Progress Training::Known(const Collective& collective) const {
  Progress known;
  known.steps = options_.steps;
  known.world_size = collective.size();
  known.generation = rank_ == nullptr ? 0 : rank_->generation();
  if (const std::optional<double> peak = device_->peak_flops()) {
    known.tokens_per_second_peak =
        *peak * collective.size() / FlopsPerToken(loop_->backend().config());
  }
  known.validation_loss = validation_loss_;
  return known;
}

}  // namespace

RankEnd Train(const TrainOptions& options, Rank* rank, LeaveSignals& signals) {
  return Training(options, rank, signals).Run();
}

}  // namespace rollcall
