// Measures the time from the proposal of a world until every node has the NCCL
// ids: a real agent makes them as node rank 0, and three nodes in this process
// wait for them.
//
//   nccl_id [RUNS]     expects `rollcall` in the folder of this binary
//
// The first run warms up the library; the others count.
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/security/join_string.h"
#include "tests/bench/daemon/crowd.h"
#include "tests/bench/daemon/hello.h"
#include "tests/bench/daemon/served_daemon.h"

extern char** environ;

namespace rollcall::bench {
namespace {

constexpr int kNodes = 4;
constexpr absl::Duration kPatience = absl::Seconds(60);

std::string RollcallBeside() {
  char path[PATH_MAX];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof(path) - 1);
  std::string self(path, std::max<ssize_t>(size, 0));
  return self.substr(0, self.rfind('/')) + "/rollcall";
}

// Starts the launcher's own agent, which takes seat 0 and makes the ids.
pid_t StartAgent(const std::string& rollcall, const ServedDaemon& daemon) {
  v1::JoinString join;
  join.add_endpoints(absl::StrCat("127.0.0.1:", daemon.port()));
  join.set_job(kJob);
  join.set_ca_pin(daemon.trust().pin);
  *join.mutable_token() = BenchToken();
  setenv("ROLLCALL_JOIN", EncodeJoinString(join).c_str(), 1);
  std::vector<std::string> arguments = {
      rollcall,     "agent",      "--name",           "minter",
      "--launcher", "--no-hosts", "--nproc-per-node", "8",
      "--",         "true"};
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_t pid = -1;
  const int failed = posix_spawn(&pid, rollcall.c_str(), nullptr, nullptr,
                                 argv.data(), environ);
  return failed == 0 ? pid : -1;
}

// Returns milliseconds. Negative: it failed and printed the reason.
double Measure(const std::string& rollcall, bool* ids) {
  Serving serving;
  serving.nodes = kNodes;
  const ServedDaemon daemon(serving);
  Crowd crowd({daemon.port(), daemon.trust(), /*exits=*/true});
  const pid_t agent = StartAgent(rollcall, daemon);
  if (agent < 0) return -1;
  crowd.Attend(kNodes - 1);
  const bool done = crowd.AwaitCommits(kPatience);
  if (!done) kill(agent, SIGKILL);
  waitpid(agent, nullptr, 0);
  if (!done) return -1;
  const CrowdSeen seen = crowd.Seen();
  *ids = seen.ids;
  return absl::ToDoubleMilliseconds(seen.last_commit - seen.first_proposal);
}

int Run(int runs) {
  const std::string rollcall = RollcallBeside();
  std::vector<double> times;
  double first = 0;
  for (int run = 0; run <= runs; ++run) {
    bool ids = false;
    const double ms = Measure(rollcall, &ids);
    if (ms < 0) return 1;
    if (!ids) {
      std::printf(
          "nccl_id: no libnccl is found here, so no ids are minted; "
          "a world without them took %.1f ms\n\n",
          ms);
      return 0;
    }
    if (run == 0) {
      first = ms;
    } else {
      times.push_back(ms);
    }
  }
  std::sort(times.begin(), times.end());
  std::printf(
      "nccl_id: proposal to the id on every one of %d nodes: median %.1f ms, "
      "worst of %zu %.1f ms, library cold %.1f ms\n"
      "(wanted: at most 50 ms; ncclGetUniqueId alone takes about 4 ms)\n\n",
      kNodes, times[times.size() / 2], times.size(), times.back(), first);
  return 0;
}

}  // namespace
}  // namespace rollcall::bench

int main(int argc, char** argv) {
  if (const auto served = rollcall::bench::ServeIfAsked(argc, argv)) {
    return *served;
  }
  const int runs = argc > 1 ? std::atoi(argv[1]) : 9;
  if (runs < 1 || runs > 1000) {
    std::fprintf(stderr, "nccl_id [RUNS], 1 to 1000\n");
    return 2;
  }
  return rollcall::bench::Run(runs);
}
