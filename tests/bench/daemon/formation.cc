// Measures what many nodes cost: the time until a world of all of them is
// committed, and the daemon's memory and processor time once they attend. Each
// is measured without and with TLS, and for bare gRPC streams, in turn and in
// the same run.
//
//   formation [NODES [MANY]]     default: 1024 and 4096; MANY is formed once
#include <sys/sysinfo.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/base/clock.h"
#include "daemon/core/limits.h"
#include "tests/bench/daemon/crowd.h"
#include "tests/bench/daemon/served_daemon.h"

namespace rollcall::bench {
namespace {

// With many nodes, a busy machine needs minutes.
constexpr absl::Duration kPatience = absl::Minutes(15);
constexpr absl::Duration kBeating = absl::Seconds(10);
constexpr int kTimes = 5;

// Empty: the measurement failed and printed the reason.
struct Measured {
  double value = 0;
  int redials = 0;
};
using Figure = std::optional<Measured>;
// Measures one `Serving` whose `bare` and `tls` are set.
using Measure = std::function<Figure(Serving)>;

// The seconds from the first dial until the last node has the commit. The bare
// server answers with as many bytes as rollcall sent, which is measured first.
Figure Form(Serving serving, int nodes, size_t& world_bytes) {
  serving.nodes = nodes;
  serving.answer_bytes = world_bytes;
  const ServedDaemon daemon(serving);
  Crowd crowd({daemon.port(), daemon.trust()});
  const absl::Time begun = MonotonicNow();
  crowd.Attend(nodes);
  if (!crowd.AwaitCommits(kPatience)) return std::nullopt;
  const CrowdSeen seen = crowd.Seen();
  if (!serving.bare) world_bytes = seen.world_bytes;
  return Measured{absl::ToDoubleSeconds(seen.last_commit - begun),
                  seen.redials};
}

// The KiB of daemon memory per node, in a job that waits for one more.
Figure Gather(Serving serving, int nodes) {
  serving.nodes = serving.bare ? 1 : nodes + 1;
  const ServedDaemon daemon(serving);
  const int64_t before = daemon.resident_kib();
  Crowd crowd({daemon.port(), daemon.trust()});
  crowd.Attend(nodes);
  if (!crowd.AwaitWelcomes(kPatience)) return std::nullopt;
  return Measured{static_cast<double>(daemon.resident_kib() - before) / nodes,
                  crowd.Seen().redials};
}

// The percent of a processor that the daemon uses while a world runs.
Figure Beat(Serving serving, int nodes) {
  serving.nodes = nodes;
  serving.answer_bytes = 1;
  const ServedDaemon daemon(serving);
  Crowd crowd({daemon.port(), daemon.trust()});
  crowd.Attend(nodes);
  if (!crowd.AwaitCommits(kPatience)) return std::nullopt;
  const absl::Duration before = daemon.processor_time();
  const absl::Time begun = MonotonicNow();
  if (!crowd.Beat(Limits().heartbeat(), kBeating)) return std::nullopt;
  return Measured{100 * absl::FDivDuration(daemon.processor_time() - before,
                                           MonotonicNow() - begun),
                  crowd.Seen().redials};
}

double Median(std::vector<double> figures) {
  std::sort(figures.begin(), figures.end());
  return figures[figures.size() / 2];
}

// Prints one line of the table: the medians of `times` rounds, in each of which
// all four are measured in turn. A line below it has the number of redials in
// all rounds. Returns false if rollcall failed.
bool Row(const std::string& what, int times, int digits,
         const Measure& measure) {
  // Bare gRPC has no figures if it fails each time.
  std::vector<double> figures[2][2];
  int redials[2][2] = {};
  for (int round = 0; round < times; ++round) {
    for (const bool tls : {false, true}) {
      for (const bool bare : {false, true}) {
        Serving serving;
        serving.tls = tls;
        serving.bare = bare;
        const Figure figure = measure(serving);
        // If bare gRPC fails, the other measurements go on.
        if (!figure.has_value() && !bare) return false;
        if (!figure.has_value()) continue;
        figures[tls][bare].push_back(figure->value);
        redials[tls][bare] += figure->redials;
      }
    }
  }
  std::string line = absl::StrFormat("%-36s", what);
  for (const bool tls : {false, true}) {
    const double ours = Median(figures[tls][false]);
    absl::StrAppendFormat(&line, "  %8.*f", digits, ours);
    if (figures[tls][true].empty()) {
      absl::StrAppendFormat(&line, " %8s %6s", "never", "");
      continue;
    }
    const double bare = Median(figures[tls][true]);
    absl::StrAppendFormat(&line, " %8.*f %6.2f", digits, bare, ours / bare);
  }
  std::printf("%s\n%-36s", line.c_str(), "  redials");
  for (const auto& [ours, bare] : redials) {
    std::printf("  %8d %8d %6s", ours, bare, "");
  }
  std::printf("\n");
  std::fflush(stdout);
  return true;
}

int Run(int nodes, int many) {
  double load = 0;
  getloadavg(&load, 1);
  std::printf(
      "formation: all nodes dial at once; daemon and nodes on this machine, "
      "%d processors, load %.1f before\n",
      get_nprocs(), load);
  std::printf("%-36s  %24s  %24s\n", "", "---------- plain",
              "------------ TLS");
  std::printf("%-36s", "");
  for (int i = 0; i < 2; ++i) {
    std::printf("  %8s %8s %6s", "rollcall", "bare", "ratio");
  }
  std::printf("\n");
  std::fflush(stdout);
  size_t world_bytes = 0;
  const auto form = [&](Serving s) { return Form(s, nodes, world_bytes); };
  const auto form_many = [&](Serving s) { return Form(s, many, world_bytes); };
  const auto gather = [&](Serving s) { return Gather(s, nodes); };
  const auto beat = [&](Serving s) { return Beat(s, nodes); };
  // The first round warms up this process and does not count.
  if (!form(Serving{}).has_value()) return 1;
  if (!Row(absl::StrCat("s, form ", nodes, " nodes, median of ", kTimes),
           kTimes, 2, form) ||
      !Row(absl::StrCat("s, form ", many, " nodes, once"), 1, 2, form_many) ||
      !Row(absl::StrCat("KiB a node, ", nodes, " attending"), 1, 1, gather) ||
      !Row(absl::StrFormat("%% of a processor, heartbeats of %d", nodes), 1, 1,
           beat)) {
    return 1;
  }
  std::printf(
      "(wanted: with TLS, a world of 1024 in at most 1.5 times bare gRPC)\n\n");
  return 0;
}

}  // namespace
}  // namespace rollcall::bench

int main(int argc, char** argv) {
  using rollcall::Limits;
  using rollcall::bench::ReadCount;
  if (const auto served = rollcall::bench::ServeIfAsked(argc, argv)) {
    return *served;
  }
  int nodes = 1024, many = 4096;
  const int most = static_cast<int>(Limits::nodes_max) - 1;
  if (argc > 3 || !ReadCount(argc, argv, 1, most, nodes) ||
      !ReadCount(argc, argv, 2, most, many)) {
    std::fprintf(stderr, "formation [NODES [MANY]], 1 to %u\n",
                 Limits::nodes_max - 1);
    return 2;
  }
  return rollcall::bench::Run(nodes, many);
}
