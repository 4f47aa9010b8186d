// rollcall-train: attends its agent, and from world to world connects with its
// peers, trains, and says how it goes, one line every few steps.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/rank/rank.h"
#include "daemon/core/limits.h"
#include "daemon/server/clock.h"
#include "trainer/collective/gloo.h"
#include "trainer/collective/single.h"
#include "trainer/leave_signals.h"
#include "trainer/model/openblas.h"
#include "trainer/options.h"
#include "trainer/train_loop.h"

namespace rollcall {
namespace {

// Null: no agent started this process.
absl::StatusOr<std::unique_ptr<Rank>> AttendIfStartedByAgent() {
  const absl::StatusOr<RankPlace> place = RankPlace::FromEnvironment();
  if (absl::IsFailedPrecondition(place.status())) {
    std::fprintf(stderr,
                 "rollcall-train: ROLLCALL_SOCKET is not set; training as one "
                 "rank alone\n");
    return nullptr;
  }
  if (!place.ok()) return place.status();
  RankOptions options;
  options.elastic = true;
  return Rank::Attend(*place, options);
}

std::string NameOf(const v1::World& world, int which) {
  for (const v1::Member& member : world.members()) {
    const int first = member.first_rank();
    if (which >= first && which < first + static_cast<int>(member.ranks())) {
      return absl::StrCat("rank ", which, " on ", member.node());
    }
  }
  return absl::StrCat("rank ", which);
}

absl::StatusOr<std::unique_ptr<Collective>> Connect(const TrainOptions& options,
                                                    Rank* rank) {
  if (rank == nullptr || rank->world_size() == 1) {
    return std::make_unique<SingleCollective>();
  }
  GlooOptions gloo;
  gloo.rank = rank->rank();
  gloo.size = rank->world_size();
  gloo.address = rank->member().address();
  gloo.timeout = options.collective_timeout;
  // Not the collectives' timeout: a daemon may be away for a while, a slow
  // node may start late, and whatever ends the generation wakes who waits.
  gloo.exchange = [rank](const std::string& key, const std::string& value) {
    return rank->Exchange(key, value, Limits().daemon_grace);
  };
  gloo.name = [world = rank->world().world()](int which) {
    return NameOf(world, which);
  };
  gloo.interruption = std::make_shared<Interruption>();
  rank->WhenOver([interruption = gloo.interruption] { interruption->Raise(); });
  return ConnectGloo(std::move(gloo));
}

std::optional<TrainSource> SourceOf(const Rank* rank) {
  if (rank == nullptr || !rank->world().seal().has_state_source()) return {};
  const v1::StateSource& source = rank->world().seal().state_source();
  return TrainSource{static_cast<int>(source.rank()),
                     static_cast<int64_t>(source.step())};
}

absl::Status StillWanted(const Rank* rank) {
  if (rank == nullptr) return absl::OkStatus();
  if (rank->aborted()) return absl::AbortedError("the world has ended");
  if (rank->lost()) {
    return absl::UnavailableError("the agent of this node is gone");
  }
  return absl::OkStatus();
}

// Says how it goes: a line for a world's first step, the last one of all, and
// every few in between.
class Reporter {
 public:
  Reporter(const TrainOptions& options, const Collective& collective,
           Rank* rank, int64_t steps_done)
      : options_(options),
        collective_(collective),
        rank_(rank),
        first_(steps_done + 1),
        since_step_(steps_done) {}

  void Tell(const StepResult& result) {
    const absl::Time now = MonotonicNow();
    const double samples_per_second =
        double(result.step - since_step_) * options_.batch /
        std::max(1e-9, absl::ToDoubleSeconds(now - since_));
    if (rank_ != nullptr) {
      rank_->Progress(result.step, result.loss,
                      samples_per_second * options_.model.context);
    }
    if (result.step != first_ && result.step != options_.steps &&
        result.step % options_.log_every != 0) {
      return;
    }
    std::printf(
        "step %lld loss %.2f %.1f samples/s lr %.1e world %d generation %llu\n",
        static_cast<long long>(result.step), result.loss, samples_per_second,
        result.learning_rate, collective_.size(),
        rank_ == nullptr
            ? 0ULL
            : static_cast<unsigned long long>(rank_->generation()));
    std::fflush(stdout);
    since_ = now;
    since_step_ = result.step;
  }

 private:
  const TrainOptions& options_;
  const Collective& collective_;
  Rank* const rank_;
  const int64_t first_;
  absl::Time since_ = MonotonicNow();
  int64_t since_step_;
};

// All ranks have stopped after this step; what comes next is the daemon's.
absl::Status StandAtBoundary(Rank& rank, int64_t step) {
  // Known by the others' word, perhaps, before the agent's own.
  if (absl::Status s = rank.AwaitNotice(); !s.ok()) return s;
  rank.NoticeSeen(step);
  if (absl::Status s = rank.AwaitAbort(); !s.ok()) return s;
  return absl::AbortedError("the world has ended at a boundary");
}

absl::Status RunSteps(const TrainOptions& options, TrainLoop& loop,
                      const Collective& collective, Rank* rank,
                      const LeaveSignals* signals) {
  Reporter reporter(options, collective, rank, loop.steps_done());
  bool told = false;
  while (loop.steps_done() < options.steps) {
    if (absl::Status s = StillWanted(rank); !s.ok()) return s;
    const bool noticed = rank != nullptr && rank->noticed();
    if (signals != nullptr && signals->asked() && !std::exchange(told, true) &&
        !noticed) {
      rank->AskToLeave();
    }
    absl::StatusOr<StepResult> result = loop.Step(noticed);
    if (!result.ok()) return result.status();
    reporter.Tell(*result);
    if (result->boundary && rank != nullptr && result->step < options.steps) {
      return StandAtBoundary(*rank, result->step);
    }
  }
  return absl::OkStatus();
}

absl::Status TrainInWorld(const TrainOptions& options, TrainLoop& loop,
                          Rank* rank, const LeaveSignals* signals) {
  if (rank != nullptr) ShareCores(rank->ranks_here());
  absl::StatusOr<std::unique_ptr<Collective>> collective =
      Connect(options, rank);
  if (!collective.ok()) return collective.status();
  absl::Status status = loop.Enter(**collective, SourceOf(rank));
  if (!status.ok()) return status;
  if ((*collective)->rank() == 0) {
    std::fprintf(stderr,
                 "rollcall-train: %zu parameters, %llu samples of %d bytes, "
                 "%d a step over %d ranks, after step %lld\n",
                 loop.parameters(),
                 static_cast<unsigned long long>(loop.samples()),
                 options.model.context, options.batch, (*collective)->size(),
                 static_cast<long long>(loop.steps_done()));
  }
  status = RunSteps(options, loop, **collective, rank, signals);
  if (!status.ok()) return status;
  return (*collective)->Finish();
}

// Whether a failure in a world may be no more than its end. A peer that goes
// takes its connections along before the agent has heard of it.
bool MayBeItsEnd(const absl::Status& status, const Rank& rank) {
  return rank.aborted() || absl::IsAborted(status) ||
         absl::IsUnavailable(status);
}

absl::Status Run(const TrainOptions& options) {
  absl::StatusOr<std::unique_ptr<Rank>> attended = AttendIfStartedByAgent();
  if (!attended.ok()) return attended.status();
  Rank* const rank = attended->get();
  // Until here they end this process, and from here on they take its node
  // along.
  std::optional<LeaveSignals> signals;
  if (rank != nullptr) signals.emplace();
  absl::StatusOr<std::unique_ptr<TrainLoop>> loop = TrainLoop::Create(options);
  if (!loop.ok()) return loop.status();
  for (;;) {
    const absl::Status status = TrainInWorld(
        options, **loop, rank, signals.has_value() ? &*signals : nullptr);
    if (status.ok() || rank == nullptr || !MayBeItsEnd(status, *rank) ||
        !rank->AwaitAbort(options.collective_timeout).ok()) {
      return status;
    }
    std::fprintf(stderr,
                 "rollcall-train: generation %llu has ended after step %lld: "
                 "%s\n",
                 static_cast<unsigned long long>(rank->generation()),
                 static_cast<long long>((*loop)->steps_done()),
                 rank->abort().value_or(v1::RankAbort()).reason().c_str());
    signals->Release();
    rank->Stopped((*loop)->steps_done(), (*loop)->whole());
    if (absl::Status next = rank->NextWorld(); !next.ok()) return next;
    signals->Take();
  }
}

}  // namespace
}  // namespace rollcall

int main(int argc, char** argv) {
  // Gloo writes to connections that may have broken.
  std::signal(SIGPIPE, SIG_IGN);
  rollcall::ChooseOpenBlasKernels(argv);
  rollcall::TrainOptions options;
  if (std::optional<int> code = rollcall::ParseOptions(argc, argv, &options)) {
    return *code;
  }
  const absl::Status status = rollcall::Run(options);
  if (status.ok()) return 0;
  std::fprintf(stderr, "rollcall-train: %s\n", status.ToString().c_str());
  return 1;
}
