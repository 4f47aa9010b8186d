#include "daemon/base/processes/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rollcall {
namespace {

using Clock = std::chrono::steady_clock;

constexpr absl::Duration kKillPatience = absl::Seconds(1);
constexpr int kPollMs = 5;  // Between two looks at a child without a pidfd.

// Both ends of a pipe. The destructor closes those that were not taken.
struct Pipe {
  int ends[2] = {-1, -1};
  Pipe() = default;
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    for (const int end : ends) {
      if (end >= 0) close(end);
    }
  }
  bool Open() { return pipe2(ends, O_CLOEXEC) == 0; }
  int Take(int i) { return std::exchange(ends[i], -1); }
};

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) {
    pointers.push_back(const_cast<char*>(text.c_str()));
  }
  pointers.push_back(nullptr);
  return pointers;
}

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

  // Returns 0, or an errno.
  int Spawn(const std::string& path, const std::vector<std::string>& argv,
            const std::vector<std::string>& environment, pid_t& pid) {
    return posix_spawn(&pid, path.c_str(), &actions_, &attributes_,
                       Pointers(argv).data(), Pointers(environment).data());
  }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

absl::Status NoPipe() {
  return absl::ResourceExhaustedError(
      absl::StrCat("cannot make a pipe: ", std::strerror(errno)));
}

// Milliseconds for poll(2), rounded up; 0 if `until` has passed.
int PollTime(Clock::time_point until) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      until - Clock::now());
  if (until <= Clock::now()) return 0;
  return static_cast<int>(std::clamp<int64_t>(left.count() + 1, 1, 1 << 30));
}

}  // namespace

absl::StatusOr<ChildProcess> ChildProcess::Spawn(
    const std::string& path, const std::vector<std::string>& argv,
    const std::vector<std::string>& environment) {
  Pipe in;
  Pipe out;
  if (!in.Open() || !out.Open()) return NoPipe();
  pid_t pid = -1;
  SpawnSettings settings(in.ends[0], out.ends[1]);
  const int error = settings.Spawn(path, argv, environment, pid);
  if (error != 0) {
    const std::string text = absl::StrCat(path, ": ", std::strerror(error));
    if (error == EAGAIN || error == ENOMEM) {
      return absl::ResourceExhaustedError(text);
    }
    return absl::FailedPreconditionError(text);
  }
  return ChildProcess(pid, in.Take(1), out.Take(0), /*leads_group=*/true);
}

absl::StatusOr<ChildProcess> ChildProcess::Fork(
    const std::function<void(int out_fd)>& run) {
  Pipe out;
  if (!out.Open()) return NoPipe();
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot make a process: ", std::strerror(errno)));
  }
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);  // The parent ended before prctl.
    // A library that crashes leaves no core file.
    const rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);
    close(out.Take(0));
    run(out.ends[1]);
    _exit(0);
  }
  return ChildProcess(pid, -1, out.Take(0), /*leads_group=*/false);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      in_fd_(std::exchange(other.in_fd_, -1)),
      out_fd_(std::exchange(other.out_fd_, -1)),
      leads_group_(other.leads_group_) {}

ChildProcess::~ChildProcess() {
  End();
  if (in_fd_ >= 0) close(in_fd_);
  if (out_fd_ >= 0) close(out_fd_);
}

absl::Status ChildProcess::Read(
    absl::Duration timeout, size_t bytes_max,
    const std::function<bool(const std::string&)>& is_whole, int cancel_fd,
    std::string& answer) {
  const auto until = Clock::now() + absl::ToChronoNanoseconds(timeout);
  while (!is_whole || !is_whole(answer)) {
    if (answer.size() > bytes_max) {
      return absl::ResourceExhaustedError(
          absl::StrCat("an answer of more than ", bytes_max, " bytes"));
    }
    const int wait = PollTime(until);
    if (wait == 0) {
      return absl::DeadlineExceededError(
          absl::StrCat("no answer within ", absl::FormatDuration(timeout)));
    }
    // poll ignores a negative descriptor.
    pollfd ready[] = {{out_fd_, POLLIN, 0}, {cancel_fd, POLLIN, 0}};
    const int count = poll(ready, 2, wait);
    if (count < 0 && errno != EINTR) {
      return absl::AbortedError(std::strerror(errno));
    }
    if (count <= 0) continue;
    if (ready[1].revents != 0) return absl::CancelledError("superseded");
    char buffer[16 << 10];
    const ssize_t n = read(out_fd_, buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      return is_whole ? absl::AbortedError("the answer is not whole")
                      : absl::OkStatus();
    }
    answer.append(buffer, static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

bool ChildProcess::AwaitEnd(absl::Duration patience) const {
  const auto until = Clock::now() + absl::ToChronoNanoseconds(patience);
  // syscall(2): glibc has a wrapper since 2.36 only.
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  if (fd < 0) {
    // The kernel is older than 5.3, or no file descriptor is left. Nothing else
    // can be waited for with a limit, so ask again and again.
    while (true) {
      siginfo_t end = {};
      if (waitid(P_PID, static_cast<id_t>(pid_), &end,
                 WEXITED | WNOHANG | WNOWAIT) < 0 ||
          end.si_pid != 0) {
        return true;
      }
      const int left_ms = PollTime(until);
      if (left_ms == 0) return false;
      poll(nullptr, 0, std::min(left_ms, kPollMs));
    }
  }
  int count = 0;
  do {
    pollfd ended{fd, POLLIN, 0};
    count = poll(&ended, 1, PollTime(until));
  } while (count < 0 && errno == EINTR);
  close(fd);
  return count > 0;
}

ChildProcess::Ending ChildProcess::End(absl::Duration grace) {
  Ending ending;
  if (pid_ < 0) return ending;
  if (grace <= absl::ZeroDuration() || !AwaitEnd(grace)) {
    kill(leads_group_ ? -pid_ : pid_, SIGKILL);
    if (!AwaitEnd(kKillPatience)) {
      pid_ = -1;
      return ending;
    }
  }
  // Kill the processes that the child started too. This must come before
  // waitpid: after that the kernel may give the number to another process
  // group.
  if (leads_group_) kill(-pid_, SIGKILL);
  int status = 0;
  pid_t reaped = 0;
  do {
    reaped = waitpid(pid_, &status, 0);
  } while (reaped < 0 && errno == EINTR);
  pid_ = -1;
  ending.reaped = reaped > 0;
  if (ending.reaped && WIFEXITED(status)) ending.code = WEXITSTATUS(status);
  if (ending.reaped && WIFSIGNALED(status)) ending.signal = WTERMSIG(status);
  return ending;
}

std::string ChildProcess::Ending::Text() const {
  if (!reaped) {
    return absl::StrCat("not even by SIGKILL within ",
                        absl::FormatDuration(kKillPatience));
  }
  if (signal != 0) return absl::StrCat("by signal ", signal);
  return absl::StrCat("with code ", code);
}

}  // namespace rollcall
