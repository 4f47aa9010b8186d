// rollcall-train: attends its agent, connects with its peers, trains, and says
// how it goes, one line every few steps.
#include <algorithm>
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
  return Rank::Attend(*place);
}

std::string NameOf(const Rank& rank, int which) {
  for (const v1::Member& member : rank.world().world().members()) {
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
  gloo.name = [rank](int which) { return NameOf(*rank, which); };
  return ConnectGloo(std::move(gloo));
}

absl::Status StillWanted(const Rank* rank) {
  if (rank == nullptr) return absl::OkStatus();
  if (rank->aborted()) {
    const auto abort = rank->abort();
    return absl::AbortedError(
        absl::StrCat("generation ", rank->generation(),
                     " has ended: ", abort.has_value() ? abort->reason() : ""));
  }
  if (rank->lost()) {
    return absl::UnavailableError("the agent of this node is gone");
  }
  return absl::OkStatus();
}

absl::Status RunSteps(const TrainOptions& options, TrainLoop& loop,
                      const Collective& collective, Rank* rank) {
  const unsigned long long generation =
      rank == nullptr ? 0 : rank->generation();
  absl::Time since = MonotonicNow();
  int64_t since_step = 0;
  for (int64_t step = 1; step <= options.steps; ++step) {
    if (absl::Status s = StillWanted(rank); !s.ok()) return s;
    absl::StatusOr<StepResult> result = loop.Step();
    if (!result.ok()) return result.status();
    const absl::Time now = MonotonicNow();
    const double samples_per_second =
        double(step - since_step) * options.batch /
        std::max(1e-9, absl::ToDoubleSeconds(now - since));
    if (rank != nullptr) {
      rank->Progress(step, result->loss,
                     samples_per_second * options.model.context);
    }
    if (step != 1 && step != options.steps && step % options.log_every != 0) {
      continue;
    }
    std::printf(
        "step %lld loss %.2f %.1f samples/s lr %.1e world %d generation %llu\n",
        static_cast<long long>(step), result->loss, samples_per_second,
        result->learning_rate, collective.size(), generation);
    std::fflush(stdout);
    since = now;
    since_step = step;
  }
  return absl::OkStatus();
}

absl::Status Run(const TrainOptions& options) {
  absl::StatusOr<std::unique_ptr<Rank>> rank = AttendIfStartedByAgent();
  if (!rank.ok()) return rank.status();
  if (*rank != nullptr) ShareCores((*rank)->ranks_here());
  absl::StatusOr<std::unique_ptr<Collective>> collective =
      Connect(options, rank->get());
  if (!collective.ok()) return collective.status();
  absl::StatusOr<std::unique_ptr<TrainLoop>> loop =
      TrainLoop::Create(options, **collective);
  if (!loop.ok()) return loop.status();
  if ((*collective)->rank() == 0) {
    std::fprintf(stderr,
                 "rollcall-train: %zu parameters, %llu samples of %d bytes, "
                 "%d a step over %d ranks\n",
                 (*loop)->parameters(),
                 static_cast<unsigned long long>((*loop)->samples()),
                 options.model.context, options.batch, (*collective)->size());
  }
  absl::Status status = RunSteps(options, **loop, **collective, rank->get());
  if (!status.ok()) return status;
  return (*collective)->Finish();
}

}  // namespace
}  // namespace rollcall

int main(int argc, char** argv) {
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
