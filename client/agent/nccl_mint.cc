#include "client/agent/nccl_mint.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/server/clock.h"

namespace rollcall {
namespace {

// Of the answer: an error's text, or all ids of the largest world.
constexpr size_t kAnswerBytesMax = 4 << 20;

// Both ends of a pipe, closed unless taken.
struct Pipe {
  int ends[2] = {-1, -1};
  ~Pipe() {
    for (const int end : ends) {
      if (end >= 0) close(end);
    }
  }
  bool Open() { return pipe2(ends, O_CLOEXEC) == 0; }
  int Take(int i) {
    const int end = ends[i];
    ends[i] = -1;
    return end;
  }
};

// Stdin and stdout from the pipes, default signals, and a process group of its
// own, so that Ctrl-C on a terminal reaches the agent alone.
class SpawnSettings {
 public:
  SpawnSettings(int stdin_fd, int stdout_fd) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_adddup2(&actions_, stdin_fd, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, stdout_fd, STDOUT_FILENO);
    posix_spawnattr_init(&attributes_);
    sigset_t none;
    sigemptyset(&none);
    sigset_t all;
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK |
                                               POSIX_SPAWN_SETSIGDEF |
                                               POSIX_SPAWN_SETPGROUP);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  int Spawn(const std::string& path, const std::vector<std::string>& argv,
            const std::vector<std::string>& environment, pid_t& pid) {
    return posix_spawn(&pid, path.c_str(), &actions_, &attributes_,
                       Pointers(argv).data(), Pointers(environment).data());
  }

 private:
  static std::vector<char*> Pointers(const std::vector<std::string>& texts) {
    std::vector<char*> pointers;
    for (const std::string& text : texts) {
      pointers.push_back(const_cast<char*>(text.c_str()));
    }
    pointers.push_back(nullptr);
    return pointers;
  }

  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

bool IsWhole(const std::string& answer) {
  if (absl::StartsWith(answer, "error ")) return absl::EndsWith(answer, "\n");
  return absl::EndsWith(answer, "\nend\n");
}

}  // namespace

absl::StatusOr<std::unique_ptr<NcclMint>> NcclMint::Start(
    const Options& options) {
  Pipe in;
  Pipe out;
  if (!in.Open() || !out.Open()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("mint-nccl-id: no pipe: ", std::strerror(errno)));
  }
  const std::vector<std::string> argv = {
      "rollcall",   "mint-nccl-id", "--count", absl::StrCat(options.count),
      "--nccl-lib", options.library};
  std::vector<std::string> environment;
  for (const std::string& entry : options.environment) {
    if (!absl::StartsWith(entry, "NCCL_COMM_ID=") &&
        !absl::StartsWith(entry, "LD_PRELOAD=")) {
      environment.push_back(entry);
    }
  }
  pid_t pid = -1;
  SpawnSettings settings(in.ends[0], out.ends[1]);
  const int error = settings.Spawn(options.self, argv, environment, pid);
  if (error != 0) {
    const std::string text = absl::StrCat("mint-nccl-id: ", options.self, ": ",
                                          std::strerror(error));
    if (error == EAGAIN || error == ENOMEM) {
      return absl::ResourceExhaustedError(text);
    }
    return absl::FailedPreconditionError(text);
  }
  return std::unique_ptr<NcclMint>(
      new NcclMint(pid, in.Take(1), out.Take(0), options.count));
}

absl::StatusOr<NcclIds> NcclMint::Await(absl::Duration timeout, int cancel_fd) {
  const absl::Time until = MonotonicNow() + timeout;
  std::string answer;
  while (!IsWhole(answer)) {
    const absl::Duration left = until - MonotonicNow();
    if (left <= absl::ZeroDuration() || answer.size() > kAnswerBytesMax) {
      return absl::DeadlineExceededError(absl::StrCat(
          "mint-nccl-id: no answer within ", absl::FormatDuration(timeout)));
    }
    // A negative descriptor is passed over.
    pollfd ready[] = {{stdout_fd_, POLLIN, 0}, {cancel_fd, POLLIN, 0}};
    const int count =
        poll(ready, 2, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1);
    if (count < 0 && errno != EINTR) break;
    if (count <= 0) continue;
    if (ready[1].revents != 0) {
      return absl::CancelledError("mint-nccl-id: superseded");
    }
    char buffer[16 << 10];
    const ssize_t n = read(stdout_fd_, buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("mint-nccl-id ended ", HowItEnded()));
    }
    answer.append(buffer, static_cast<size_t>(n));
  }
  auto minted = ParseMintedIds(answer);
  if (minted.ok() && minted->ids.size() != count_) {
    return absl::InvalidArgumentError(absl::StrCat(
        "mint-nccl-id: expected ", count_, " ids, got ", minted->ids.size()));
  }
  return minted;
}

std::string NcclMint::HowItEnded() {
  int status = 0;
  // Its stdout is closed, so it is ending or up to no good.
  kill(pid_, SIGKILL);
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  if (WIFEXITED(status)) {
    return absl::StrCat("with code ", WEXITSTATUS(status));
  }
  return absl::StrCat("by signal ", WTERMSIG(status));
}

NcclMint::NcclMint(pid_t pid, int stdin_fd, int stdout_fd, uint32_t count)
    : pid_(pid), stdin_fd_(stdin_fd), stdout_fd_(stdout_fd), count_(count) {}

NcclMint::~NcclMint() {
  close(stdin_fd_);
  close(stdout_fd_);
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace rollcall
