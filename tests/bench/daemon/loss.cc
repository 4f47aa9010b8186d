// Measures how long it takes until all nodes know that a node is lost: the time
// from an agent's kill -9, or from its last heartbeat, until the last survivor
// is told that the generation is over. For comparison, bare gRPC is measured:
// one stream breaks, and all others are sent a message.
//
//   loss [NODES [ROUNDS]]     default: 256 and 20
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/base/clock.h"
#include "daemon/core/limits.h"
#include "tests/bench/daemon/crowd.h"
#include "tests/bench/daemon/served_daemon.h"

namespace rollcall::bench {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(1);
// The survivors' heartbeats go on for this time after the lease.
constexpr absl::Duration kBeyond = absl::Seconds(1);

// Milliseconds. Empty: the measurement failed and printed the reason.
using Figure = std::optional<double>;

// A process that relays one node's connection to the daemon. A kill closes the
// connection as an agent's kill does. The node itself runs in this process,
// because the nodes of a crowd answer each other's probes within one process.
class Relay {
 public:
  explicit Relay(int daemon_port) {
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = LoopbackAt(0);
    socklen_t size = sizeof(address);
    const auto name = reinterpret_cast<sockaddr*>(&address);
    if (listener < 0 || bind(listener, name, size) != 0 ||
        listen(listener, 1) != 0 || getsockname(listener, name, &size) != 0) {
      std::perror("bench: cannot listen for the relay");
      std::exit(1);
    }
    port_ = ntohs(address.sin_port);
    pid_ = fork();
    if (pid_ < 0) {
      std::perror("bench: cannot start the relay");
      std::exit(1);
    }
    if (pid_ == 0) Run(listener, daemon_port);
    close(listener);
  }
  ~Relay() {
    Kill();
    waitpid(pid_, nullptr, 0);
  }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  int port() const { return port_; }
  void Kill() { kill(pid_, SIGKILL); }

 private:
  static sockaddr_in LoopbackAt(int port) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }

  // Runs in the forked child of a process with threads: system calls only.
  [[noreturn]] static void Run(int listener, int daemon_port) {
    // Closes gRPC's sockets, which this process would otherwise keep open.
    dup2(listener, 3);
    close_range(4, ~0U, 0);
    const int ends[2] = {accept(3, nullptr, nullptr),
                         socket(AF_INET, SOCK_STREAM, 0)};
    const sockaddr_in address = LoopbackAt(daemon_port);
    bool open = ends[0] >= 0 &&
                connect(ends[1], reinterpret_cast<const sockaddr*>(&address),
                        sizeof(address)) == 0;
    const int on = 1;
    for (const int end : ends) {
      setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    }
    pollfd ready[2] = {{ends[0], POLLIN, 0}, {ends[1], POLLIN, 0}};
    while (open && poll(ready, 2, -1) > 0) {
      for (int i = 0; i < 2 && open; ++i) {
        if (ready[i].revents != 0) open = Copy(ends[i], ends[1 - i]);
      }
    }
    _exit(0);
  }

  // Copies what can be read at once. Returns false if the connection is over.
  static bool Copy(int from, int to) {
    char buffer[4096];
    const ssize_t got = read(from, buffer, sizeof(buffer));
    for (ssize_t done = 0; done < got;) {
      const ssize_t put = write(to, buffer + done, got - done);
      if (put <= 0) return false;
      done += put;
    }
    return got > 0;
  }

  pid_t pid_ = -1;
  int port_ = 0;
};

// The time from the kill, without reconnect_grace, in which the node could have
// come back.
Figure Killed(Serving serving, int nodes) {
  serving.nodes = nodes;
  serving.answer_bytes = 1;
  serving.tells_loss = true;
  const ServedDaemon daemon(serving);
  Crowd survivors({daemon.port(), daemon.trust()});
  survivors.Attend(nodes - 1);
  Relay relay(daemon.port());
  Crowd victim({.port = relay.port(), .trust = daemon.trust(), .first = nodes});
  victim.Attend(1);
  if (!survivors.AwaitCommits(kPatience) || !victim.AwaitCommits(kPatience)) {
    return std::nullopt;
  }
  const absl::Time begun = MonotonicNow();
  relay.Kill();
  if (!survivors.AwaitAborts(kPatience)) return std::nullopt;
  const absl::Duration grace =
      serving.bare ? absl::ZeroDuration() : Limits().reconnect_grace;
  return absl::ToDoubleMilliseconds(survivors.Seen().last_abort - begun -
                                    grace);
}

// The time from the last heartbeat, without the lease. No connection closes.
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

// Prints one row each for rollcall and bare gRPC, which are measured in turn.
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
  // There are fewer rounds of this row, since each takes a whole lease.
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
