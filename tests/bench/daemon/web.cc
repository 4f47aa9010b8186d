// Measures what the HTTP port costs: the time of `/metrics` and `/status.json`
// of a daemon with a world of many nodes that send heartbeats. For comparison,
// `/healthz` also passes through the HTTP thread and the loop, but its answer
// has no data. They are measured in turn and in the same run. If a node is lost
// meanwhile, the run fails.
//
//   web [NODES [CLIENTS]]     default: 1024 and 1
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "daemon/base/files/fd.h"
#include "daemon/base/mutex.h"
#include "daemon/core/limits.h"
#include "tests/bench/daemon/crowd.h"
#include "tests/bench/daemon/served_daemon.h"

namespace rollcall::bench {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(5);
constexpr absl::Duration kBeating = absl::Seconds(10);
constexpr const char* kPaths[] = {"/healthz", "/metrics", "/status.json"};

struct Times {
  std::vector<double> ms;
  size_t bytes = 0;  // The last answer's size with header.
};

// Returns the whole answer, or nothing if the status is not 200.
std::optional<std::string> Get(int port, const std::string& path) {
  const Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const std::string asks =
      absl::StrCat("GET ", path,
                   " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0 ||
      write(fd.get(), asks.data(), asks.size()) !=
          static_cast<ssize_t>(asks.size())) {
    return std::nullopt;
  }
  std::string answer;
  char chunk[64 << 10];
  ssize_t got;
  while ((got = read(fd.get(), chunk, sizeof(chunk))) > 0) {
    answer.append(chunk, static_cast<size_t>(got));
  }
  if (got < 0 || !absl::StartsWith(answer, "HTTP/1.1 200 ")) {
    return std::nullopt;
  }
  return answer;
}

int Run(int nodes, int clients) {
  Serving serving;
  serving.nodes = nodes;
  serving.http = true;
  serving.lease_ms =
      static_cast<int>(absl::ToInt64Milliseconds(Limits().lease));
  const ServedDaemon daemon(serving);
  Crowd crowd({daemon.port(), daemon.trust()});
  crowd.Attend(nodes);
  if (!crowd.AwaitCommits(kPatience)) return 1;

  std::map<std::string, Times> times;
  Mutex mutex;  // Guards `times`.
  std::atomic<bool> over = false;
  std::atomic<bool> failed = false;
  std::vector<std::thread> asking;
  for (int i = 0; i < clients; ++i) {
    asking.emplace_back([&] {
      while (!over && !failed) {
        for (const char* path : kPaths) {
          const absl::Time begun = MonotonicNow();
          const auto answer = Get(daemon.http_port(), path);
          const absl::Duration took = MonotonicNow() - begun;
          if (!answer.has_value()) {
            std::fprintf(stderr, "bench: %s was not answered\n", path);
            failed = true;
            break;
          }
          MutexLock lock(mutex);
          times[path].ms.push_back(absl::ToDoubleMilliseconds(took));
          times[path].bytes = answer->size();
        }
      }
    });
  }
  const bool beat = crowd.Beat(Limits().heartbeat(), kBeating);
  over = true;
  for (std::thread& one : asking) one.join();
  if (!beat || failed) return 1;

  std::printf(
      "web: a world of %d nodes, heartbeats of all, %d clients that ask all "
      "the "
      "time\n%-14s %8s %10s %10s %10s\n",
      nodes, clients, "", "asked", "median ms", "99% ms", "bytes");
  for (auto& [path, of] : times) {
    std::sort(of.ms.begin(), of.ms.end());
    std::printf("%-14s %8zu %10.2f %10.2f %10zu\n", path.c_str(), of.ms.size(),
                of.ms[of.ms.size() / 2], of.ms[of.ms.size() * 99 / 100],
                of.bytes);
  }
  const int lost = crowd.Seen().aborted;
  std::printf("nodes whose world has ended meanwhile: %d\n", lost);
  std::printf("(wanted: 20 ms at 1024 nodes, and none)\n\n");
  return lost == 0 ? 0 : 1;
}

}  // namespace
}  // namespace rollcall::bench

int main(int argc, char** argv) {
  using rollcall::Limits;
  using rollcall::bench::ReadCount;
  if (const auto served = rollcall::bench::ServeIfAsked(argc, argv)) {
    return *served;
  }
  int nodes = 1024, clients = 1;
  if (argc > 3 || !ReadCount(argc, argv, 1, Limits::nodes_max - 1, nodes) ||
      !ReadCount(argc, argv, 2, 64, clients)) {
    std::fprintf(stderr, "web [NODES [CLIENTS]], 1 to %u and 1 to 64\n",
                 Limits::nodes_max - 1);
    return 2;
  }
  return rollcall::bench::Run(nodes, clients);
}
