// rollcall-train: attaches to its agent, if an agent started it, and then
// trains, or checks the ranks' network.
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "client/rank/rank.h"
#include "trainer/check_worlds.h"
#include "trainer/leave_signals.h"
#include "trainer/model/openblas.h"
#include "trainer/options.h"
#include "trainer/training.h"

namespace rollcall {
namespace {

// Returns null if no agent started this process.
absl::StatusOr<std::unique_ptr<Rank>> AttendIfStartedByAgent() {
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
  return Rank::Attend(*place, options);
}

absl::StatusOr<int> Run(const TrainOptions& options) {
  // Installed before this rank attaches to its agent: a signal must not end it
  // after its peers have started to wait for it. A check has no steps, so it
  // keeps the default handlers.
  std::optional<LeaveSignals> signals;
  if (!options.check.enabled) signals.emplace();
  absl::StatusOr<std::unique_ptr<Rank>> rank = AttendIfStartedByAgent();
  if (!rank.ok()) return rank.status();
  if (!signals.has_value()) return CheckInWorlds(options, rank->get());
  return Train(options, rank->get(), *signals);
}

}  // namespace
}  // namespace rollcall

int main(int argc, char** argv) {
  // Gloo writes to connections that may be broken.
  std::signal(SIGPIPE, SIG_IGN);
  rollcall::ChooseOpenBlasKernels(argv);
  rollcall::TrainOptions options;
  if (std::optional<int> code = rollcall::ParseOptions(argc, argv, &options)) {
    return *code;
  }
  const absl::StatusOr<int> code = rollcall::Run(options);
  if (code.ok()) return *code;
  std::fprintf(stderr, "rollcall-train: %s\n",
               code.status().ToString().c_str());
  return 1;
}
