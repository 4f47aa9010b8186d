#include "tests/bench/daemon/served_daemon.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "daemon/base/text/hex.h"
#include "daemon/server/server.h"
#include "tests/bench/daemon/bare_server.h"
#include "tests/bench/daemon/hello.h"

extern char** environ;

namespace rollcall::bench {
namespace {

constexpr char kServe[] = "--serve";
constexpr char kNoPin[] = "plain";

// Prints the ports and the pin, then waits until the parent closes stdin.
void ServeOn(int port, int http_port, const std::string& pin) {
  std::printf("%d %d %s\n", port, http_port,
              pin.empty() ? kNoPin : absl::BytesToHexString(pin).c_str());
  std::fflush(stdout);
  char byte;
  while (read(0, &byte, 1) > 0) {
  }
}

// The folder of the journal, since real runs have one.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string path =
        std::filesystem::temp_directory_path() / "rollcall-bench-XXXXXX";
    if (mkdtemp(path.data()) != nullptr) path_ = path;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

int ServeRollcall(const Serving& serving) {
  const TemporaryFolder state;
  ServerOptions options;
  options.listen = "127.0.0.1:0";
  options.state_dir = state.path();
  options.tokens = {{BenchToken(), v1::ROLE_WORKER, "of a benchmark"}};
  options.insecure = !serving.tls;
  if (serving.http) options.http = "127.0.0.1:0";
  options.job = kJob;
  options.settings.set_nodes_min(serving.nodes);
  options.settings.set_nodes_max(serving.nodes);
  options.limits.lease = serving.lease_ms == 0
                             ? absl::Minutes(10)
                             : absl::Milliseconds(serving.lease_ms);
  options.limits.prepare_timeout = absl::Minutes(10);
  // The crowd sends no heartbeats while the world is formed, and a process with
  // thousands of nodes answers pings late.
  options.keepalive_time = absl::Minutes(10);
  ConnectionLimits& connections = options.limits.connections;
  // Real nodes have one address each. Here all nodes have the same address, so
  // more of them connect than one address may have.
  if (static_cast<size_t>(serving.nodes) >
      connections.waiting_per_address_max + 1) {
    connections.waiting_per_address_max = connections.waiting_max - 1;
    connections.handshakes_per_address_burst = connections.handshakes_burst;
    connections.unauthenticated_per_network_max =
        connections.unauthenticated_max;
  }
  auto server = Server::Start(std::move(options));
  if (!server.ok()) {
    std::fprintf(stderr, "bench: %s\n", server.status().ToString().c_str());
    return 1;
  }
  ServeOn((*server)->port(), serving.http ? (*server)->http_port() : 0,
          (*server)->pin());
  return 0;
}

int ServeBare(const Serving& serving) {
  const BareServer server(serving.tls, serving.nodes, serving.answer_bytes,
                          serving.tells_loss);
  ServeOn(server.port(), /*http_port=*/0, server.pin());
  return 0;
}

void RaiseFileLimit() {
  rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

std::optional<int> ServeIfAsked(int argc, char** argv) {
  RaiseFileLimit();
  // gRPC would log each connection that it gives up.
  setenv("GRPC_VERBOSITY", "none", /*overwrite=*/0);
  // The daemon sets this, too (see Server::Start). The crowd and the bare
  // server need it for the same reason.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  if (argc != 9 || std::strcmp(argv[1], kServe) != 0) return std::nullopt;
  Serving serving;
  serving.bare = std::strcmp(argv[2], "bare") == 0;
  serving.tls = std::strcmp(argv[3], "tls") == 0;
  if (!absl::SimpleAtoi(argv[4], &serving.nodes) ||
      !absl::SimpleAtoi(argv[5], &serving.answer_bytes) ||
      !absl::SimpleAtob(argv[6], &serving.tells_loss) ||
      !absl::SimpleAtoi(argv[7], &serving.lease_ms) ||
      !absl::SimpleAtob(argv[8], &serving.http)) {
    return 2;
  }
  return serving.bare ? ServeBare(serving) : ServeRollcall(serving);
}

bool ReadCount(int argc, char** argv, int at, int most, int& value) {
  return argc <= at ||
         (absl::SimpleAtoi(argv[at], &value) && value > 0 && value <= most);
}

ServedDaemon::ServedDaemon(const Serving& serving) {
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) std::exit(1);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], 0);
  posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  // The daemon's log, with a line for each node that attends, is dropped.
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  std::string words[] = {"bench",
                         kServe,
                         serving.bare ? "bare" : "rollcall",
                         serving.tls ? "tls" : "plain",
                         absl::StrCat(serving.nodes),
                         absl::StrCat(serving.answer_bytes),
                         absl::StrCat(serving.tells_loss),
                         absl::StrCat(serving.lease_ms),
                         absl::StrCat(serving.http)};
  char* argv[std::size(words) + 1] = {};
  for (size_t i = 0; i < std::size(words); ++i) argv[i] = words[i].data();
  const int failed =
      posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(in[0]);
  close(out[1]);
  lifeline_ = in[1];
  FILE* said = fdopen(out[0], "r");
  char pin[65] = {};
  if (failed != 0 ||
      std::fscanf(said, "%d %d %64s", &port_, &http_port_, pin) != 3) {
    std::fprintf(stderr, "bench: the %s daemon did not come up\n",
                 words[2].c_str());
    std::exit(1);
  }
  std::fclose(said);
  trust_.insecure = std::strcmp(pin, kNoPin) == 0;
  if (!trust_.insecure) trust_.pin = FromHex(pin);
}

ServedDaemon::~ServedDaemon() {
  close(lifeline_);
  waitpid(pid_, nullptr, 0);
}

int64_t ServedDaemon::resident_kib() const {
  std::ifstream status(absl::StrCat("/proc/", pid_, "/status"));
  for (std::string word; status >> word;) {
    int64_t kib;
    if (word == "VmRSS:" && status >> kib) return kib;
  }
  return 0;
}

absl::Duration ServedDaemon::processor_time() const {
  clockid_t clock;
  timespec used;
  if (clock_getcpuclockid(pid_, &clock) != 0 ||
      clock_gettime(clock, &used) != 0) {
    return absl::ZeroDuration();
  }
  return absl::DurationFromTimespec(used);
}

}  // namespace rollcall::bench
