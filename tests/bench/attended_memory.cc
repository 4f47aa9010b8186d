// What attended nodes cost the daemon: memory a node while it gathers, and the
// time until a world of all of them is committed, beside a bare gRPC server
// that welcomes and broadcasts and does nothing else.
//
//   attended_memory [NODES]
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "daemon/server/clock.h"
#include "tests/bench/crowd.h"

namespace rollcall::bench {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(5);

struct Figures {
  double kib_a_node = 0;
  double attended_s = 0;
  double committed_s = 0;
};

// KiB a node and the time until all are welcomed, in a job that wants one more.
bool Gather(const std::string& kind, int nodes, Figures* figures) {
  ServedDaemon daemon(kind, nodes + 1);
  Crowd crowd(daemon.port(), kJob, BenchToken());
  const int64_t before = daemon.resident_kib();
  const absl::Time begun = MonotonicNow();
  crowd.Attend(nodes);
  if (!crowd.AwaitWelcomes(kPatience)) return false;
  figures->attended_s =
      absl::ToDoubleSeconds(crowd.Seen().last_welcome - begun);
  figures->kib_a_node =
      static_cast<double>(daemon.resident_kib() - before) / nodes;
  return true;
}

bool Form(const std::string& kind, int nodes, Figures* figures) {
  ServedDaemon daemon(kind, nodes);
  Crowd crowd(daemon.port(), kJob, BenchToken());
  const absl::Time begun = MonotonicNow();
  crowd.Attend(nodes);
  if (!crowd.AwaitCommits(kPatience)) return false;
  figures->committed_s =
      absl::ToDoubleSeconds(crowd.Seen().last_commit - begun);
  return true;
}

int Run(int nodes) {
  RaiseFileLimit();
  std::printf("attended: %d nodes, daemon and nodes on this machine\n", nodes);
  std::printf("%-22s %12s %14s %14s\n", "", "KiB a node", "all welcome",
              "all committed");
  for (const char* kind : {"rollcall", "bare"}) {
    Figures figures;
    if (!Gather(kind, nodes, &figures) || !Form(kind, nodes, &figures)) {
      return 1;
    }
    std::printf("%-22s %12.1f %12.2f s %12.2f s\n",
                std::strcmp(kind, "bare") == 0 ? "bare gRPC streams" : kind,
                figures.kib_a_node, figures.attended_s, figures.committed_s);
  }
  std::printf("(wanted: at most 64 KiB a node)\n\n");
  return 0;
}

}  // namespace
}  // namespace rollcall::bench

int main(int argc, char** argv) {
  if (argc == 4 && std::strcmp(argv[1], "--serve") == 0) {
    return rollcall::bench::Serve(argv[2], std::atoi(argv[3]));
  }
  const int nodes = argc > 1 ? std::atoi(argv[1]) : 1000;
  if (nodes < 1 || nodes > 16000) {
    std::fprintf(stderr, "attended_memory [NODES], 1 to 16000\n");
    return 2;
  }
  return rollcall::bench::Run(nodes);
}
