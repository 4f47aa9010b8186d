// rollcall-train: attaches to its agent, if there is one. Then trains, or
// checks the ranks' network, or prints text of a trained model. With
// --check-group, an agent's paired check.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/rank/rank.h"
#include "trainer/check_group.h"
#include "trainer/check_worlds.h"
#include "trainer/model/cpu/openblas.h"
#include "trainer/rank/leave_signals.h"
#include "trainer/rank/options.h"
#include "trainer/rank/rank_end.h"
#include "trainer/sample.h"
#include "trainer/training.h"

namespace rollcall {
namespace {

constexpr int kExitFailed = 1;

// Returns null if there is no agent.
absl::StatusOr<std::unique_ptr<Rank>> AttendIfThereIsAnAgent(
    const std::optional<LeaveSignals>& signals) {
  const absl::StatusOr<RankLocation> place = RankLocation::FromEnvironment();
  if (absl::IsFailedPrecondition(place.status())) {
    std::fprintf(stderr,
                 "rollcall-train: ROLLCALL_SOCKET is not set; running as one "
                 "rank alone\n");
    return nullptr;
  }
  if (!place.ok()) return place.status();
  RankOptions options;
  options.elastic = true;
  // Under `join --attach` the process may start long before the other nodes, so
  // a signal may end the wait. Peers of a world wait for this rank: a signal
  // then counts at its first step.
  if (place->generation == 0) {
    options.timeout = absl::InfiniteDuration();
    if (signals.has_value()) options.cancel_fd = signals->fd();
  }
  return Rank::Attend(*place, options);
}

// NCCL and Gloo read these variables only once, so the values of the first
// world count. A value that the user has set is kept.
void SetNetwork(const v1::RankWorld& world) {
  for (const v1::RankVariable& variable : world.network()) {
    setenv(variable.name().c_str(), variable.value().c_str(), 0);
  }
}

// Tells an agent that started this process why it must not be started again. If
// the file cannot be written, the reason is still on stderr, but the job
// restarts without need.
void WriteErrorFile(const std::string& reason) {
  const char* path = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (path == nullptr || *path == '\0') return;
  const nlohmann::json said = {{"message", reason}, {"permanent", true}};
  std::ofstream(path) << said.dump(-1, ' ', false,
                                   nlohmann::json::error_handler_t::replace);
}

absl::StatusOr<int> Run(const TrainOptions& options) {
  // Installed before this rank attaches to its agent: a signal must not end it
  // after its peers have started to wait for it. A check has no steps, so it
  // keeps the default handlers.
  std::optional<LeaveSignals> signals;
  if (!options.check.enabled) signals.emplace();
  absl::StatusOr<std::unique_ptr<Rank>> rank = AttendIfThereIsAnAgent(signals);
  if (absl::IsCancelled(rank.status())) {
    std::fprintf(stderr,
                 "rollcall-train: stopped by a signal before there was a "
                 "world\n");
    return kExitAskedToStop;
  }
  if (!rank.ok()) return rank.status();
  if (*rank != nullptr) SetNetwork((*rank)->world());
  const RankEnd end = signals.has_value()
                          ? Train(options, rank->get(), *signals)
                          : CheckInWorlds(options, rank->get());
  const bool permanent = !end.permanent.empty();
  if (permanent) WriteErrorFile(end.permanent);
  if (*rank != nullptr) {
    (*rank)->Finished(end.code.ok() ? *end.code : kExitFailed,
                      permanent ? end.permanent : end.code.status().ToString(),
                      permanent);
  }
  return end.code;
}

absl::StatusOr<int> ExitCodeOf(const absl::Status& status) {
  if (!status.ok()) return status;
  return 0;
}

}  // namespace
}  // namespace rollcall

int main(int argc, char** argv) {
  // Gloo writes to connections that may be broken, so ignore SIGPIPE.
  std::signal(SIGPIPE, SIG_IGN);
  rollcall::ChooseOpenBlasKernels(argv);
  rollcall::TrainOptions options;
  std::string error;
  if (std::optional<int> code =
          rollcall::ParseOptions(argc, argv, &options, &error)) {
    if (!error.empty()) rollcall::WriteErrorFile(error);
    return *code;
  }
  if (options.check_group) return rollcall::CheckGroup();
  const absl::StatusOr<int> code =
      options.sample.empty() ? rollcall::Run(options)
                             : rollcall::ExitCodeOf(rollcall::Sample(options));
  if (code.ok()) return *code;
  std::fprintf(stderr, "rollcall-train: %s\n",
               code.status().ToString().c_str());
  return rollcall::kExitFailed;
}
