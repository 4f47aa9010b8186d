// How long until everybody knows that a node is gone: from an agent's kill -9,
// or its last heartbeat, to the last survivor that has been told that the
// generation is over. Beside it, bare gRPC: one stream breaks, and all others
// are sent a message.
//
//   loss [NODES [ROUNDS]]     256 and 20
#include <signal.h>
#include <spawn.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/base/clock.h"
#include "daemon/base/hex.h"
#include "daemon/core/limits.h"
#include "tests/bench/crowd.h"
#include "tests/bench/served_daemon.h"

extern char** environ;

namespace rollcall::bench {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(1);
// After a lease: how long the survivors' heartbeats go on.
constexpr absl::Duration kBeyond = absl::Seconds(1);
constexpr char kVictim[] = "--victim";
constexpr char kNoPin[] = "plain";

// In milliseconds; nothing: it failed, and has said why.
using Figure = std::optional<double>;

// One node in a process of its own, that can be killed as an agent can.
class Victim {
 public:
  Victim(const ServedDaemon& daemon, int index) {
    const Trust& trust = daemon.trust();
    std::string words[] = {
        "bench", kVictim, absl::StrCat(daemon.port()),
        trust.insecure ? kNoPin : absl::BytesToHexString(trust.pin),
        absl::StrCat(index)};
    char* argv[std::size(words) + 1] = {};
    for (size_t i = 0; i < std::size(words); ++i) argv[i] = words[i].data();
    if (posix_spawn(&pid_, "/proc/self/exe", nullptr, nullptr, argv, environ) !=
        0) {
      std::fprintf(stderr, "bench: cannot start a node of its own\n");
      std::exit(1);
    }
  }
  ~Victim() {
    Kill();
    waitpid(pid_, nullptr, 0);
  }
  Victim(const Victim&) = delete;
  Victim& operator=(const Victim&) = delete;

  void Kill() { kill(pid_, SIGKILL); }

 private:
  pid_t pid_ = -1;
};

// The victim's process: attends until it is killed.
std::optional<int> AttendIfAsked(int argc, char** argv) {
  if (argc != 5 || std::strcmp(argv[1], kVictim) != 0) return std::nullopt;
  CrowdOptions options;
  options.trust.insecure = std::strcmp(argv[3], kNoPin) == 0;
  if (!options.trust.insecure) {
    options.trust.pin = FromHex(argv[3]);
  }
  if (!absl::SimpleAtoi(argv[2], &options.port) ||
      !absl::SimpleAtoi(argv[4], &options.first)) {
    return 2;
  }
  Crowd crowd(options);
  crowd.Attend(1);
  while (true) pause();
}

// From the kill; reconnect_grace, in which it could have come back, not
// counted.
Figure Killed(Serving serving, int nodes) {
  serving.nodes = nodes;
  serving.answer_bytes = 1;
  serving.tells_loss = true;
  const ServedDaemon daemon(serving);
  Crowd survivors({daemon.port(), daemon.trust()});
  survivors.Attend(nodes - 1);
  Victim victim(daemon, nodes);
  if (!survivors.AwaitCommits(kPatience)) return std::nullopt;
  const absl::Time begun = MonotonicNow();
  victim.Kill();
  if (!survivors.AwaitAborts(kPatience)) return std::nullopt;
  const absl::Duration grace =
      serving.bare ? absl::ZeroDuration() : Limits().reconnect_grace;
  return absl::ToDoubleMilliseconds(survivors.Seen().last_abort - begun -
                                    grace);
}

// From the last heartbeat; the lease not counted. The connection stays.
Figure Silent(Serving serving, int nodes) {
  const absl::Duration lease = Limits().lease;
  serving.nodes = nodes;
  serving.lease_ms = static_cast<int>(absl::ToInt64Milliseconds(lease));
  const ServedDaemon daemon(serving);
  Crowd survivors({daemon.port(), daemon.trust()});
  survivors.Attend(nodes - 1);
  CrowdOptions one{daemon.port(), daemon.trust()};
  one.first = nodes;
  Crowd silent(one);
  silent.Attend(1);
  if (!survivors.AwaitCommits(kPatience) || !silent.AwaitCommits(kPatience)) {
    return std::nullopt;
  }
  const absl::Time begun = MonotonicNow();
  if (!silent.Beat(lease, absl::Nanoseconds(1)) ||
      !survivors.Beat(lease / 3, lease + kBeyond) ||
      !survivors.AwaitAborts(kPatience)) {
    return std::nullopt;
  }
  return absl::ToDoubleMilliseconds(survivors.Seen().last_abort - begun -
                                    lease);
}

std::string Summary(std::vector<double> figures) {
  std::sort(figures.begin(), figures.end());
  return absl::StrFormat("%6.1f %6.1f %6.1f", figures.front(),
                         figures[figures.size() / 2], figures.back());
}

// One row each for rollcall and bare gRPC, which take turns.
bool RowsOfKilled(bool tls, int nodes, int rounds) {
  std::vector<double> figures[2];
  for (int round = 0; round < rounds; ++round) {
    for (const bool bare : {false, true}) {
      Serving serving;
      serving.tls = tls;
      serving.bare = bare;
      const Figure figure = Killed(serving, nodes);
      if (!figure.has_value()) return false;
      figures[bare].push_back(*figure);
    }
  }
  for (const bool bare : {false, true}) {
    std::printf("%-44s %s\n",
                absl::StrCat("kill -9, ", tls ? "TLS, " : "plain, ",
                             bare ? "bare gRPC" : "beyond reconnect_grace")
                    .c_str(),
                Summary(figures[bare]).c_str());
  }
  std::fflush(stdout);
  return true;
}

bool RowOfSilent(int nodes, int rounds) {
  std::vector<double> figures;
  for (int round = 0; round < rounds; ++round) {
    const Figure figure = Silent(Serving{}, nodes);
    if (!figure.has_value()) return false;
    figures.push_back(*figure);
  }
  std::printf("%-44s %s\n", "silence, TLS, beyond the lease",
              Summary(std::move(figures)).c_str());
  return true;
}

int Run(int nodes, int rounds) {
  double load = 0;
  getloadavg(&load, 1);
  std::printf(
      "loss: one of %d nodes goes, ms until the last of the others is told; "
      "all on this machine, %d processors, load %.1f before; %d rounds\n",
      nodes, get_nprocs(), load, rounds);
  std::printf("%-44s %6s %6s %6s\n", "", "least", "median", "most");
  // A lease takes its time: fewer rounds.
  if (!RowsOfKilled(false, nodes, rounds) ||
      !RowsOfKilled(true, nodes, rounds) ||
      !RowOfSilent(nodes, std::max(1, rounds / 4))) {
    return 1;
  }
  std::printf(
      "(wanted of 256: the median of kill -9 at most 50 ms, silence at most "
      "100 ms)\n\n");
  return 0;
}

}  // namespace
}  // namespace rollcall::bench

int main(int argc, char** argv) {
  if (const auto served = rollcall::bench::ServeIfAsked(argc, argv)) {
    return *served;
  }
  if (const auto ended = rollcall::bench::AttendIfAsked(argc, argv)) {
    return *ended;
  }
  int nodes = 256, rounds = 20;
  const auto number = [&](int at, int least, int& value) {
    return argc <= at ||
           (absl::SimpleAtoi(argv[at], &value) && value >= least &&
            value < static_cast<int>(rollcall::Limits::nodes_max));
  };
  if (argc > 3 || !number(1, 2, nodes) || !number(2, 1, rounds)) {
    std::fprintf(stderr, "loss [NODES [ROUNDS]], 2 to %u, and 1 or more\n",
                 rollcall::Limits::nodes_max - 1);
    return 2;
  }
  return rollcall::bench::Run(nodes, rounds);
}
