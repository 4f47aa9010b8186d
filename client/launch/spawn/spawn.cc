#include "client/launch/spawn/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "daemon/base/files/write_error.h"
#include "daemon/security/crypto/undumpable.h"

namespace rollcall {
namespace {

// A join string and a shared secret are far smaller.
constexpr size_t kSecretBytesMax = 64 << 10;

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) {
    pointers.push_back(const_cast<char*>(text.c_str()));
  }
  pointers.push_back(nullptr);
  return pointers;
}

void SetFiles(const SpawnOptions& options, posix_spawn_file_actions_t& files) {
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY,
                                   0);
  if (!options.log_file.empty()) {
    posix_spawn_file_actions_addopen(
        &files, STDOUT_FILENO, options.log_file.c_str(),
        O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);
    posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  }
  for (const int fd : options.inherited_fds) {
    // adddup2 onto the same number clears close-on-exec, in the child only.
    posix_spawn_file_actions_adddup2(&files, fd, fd);
  }
}

}  // namespace

int SpawnInSession(const std::string& program,
                   const std::vector<std::string>& argv,
                   const std::vector<std::string>& environment,
                   const posix_spawn_file_actions_t& files, pid_t& pid) {
  sigset_t all, none;
  sigfillset(&all);
  sigemptyset(&none);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID |
                                            POSIX_SPAWN_SETSIGDEF |
                                            POSIX_SPAWN_SETSIGMASK);
  const int failed =
      posix_spawnp(&pid, program.c_str(), &files, &attributes,
                   Pointers(argv).data(), Pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
  return failed;
}

absl::StatusOr<pid_t> SpawnSelf(const SpawnOptions& options) {
  std::vector<std::string> arguments = options.arguments;
  arguments.insert(arguments.begin(), "rollcall");
  posix_spawn_file_actions_t files;
  SetFiles(options, files);
  pid_t pid = -1;
  // The launcher has lowered its own core limit; ranks get the original limit.
  const CoreLimitForChildren as_at_start;
  const int failed = SpawnInSession("/proc/self/exe", arguments,
                                    options.environment, files, pid);
  posix_spawn_file_actions_destroy(&files);
  if (failed != 0) {
    const bool no_proc =
        failed == ENOENT && access("/proc/self/exe", F_OK) != 0;
    return absl::UnavailableError(absl::StrCat(
        "cannot start `rollcall ",
        options.arguments.empty() ? "" : options.arguments.front(), "`: ",
        no_proc ? "/proc is not mounted, and rollcall starts itself through "
                  "/proc/self/exe; mount it (`mount -t proc proc /proc`)"
        : options.log_file.empty()
            ? strerror(failed)
            : absl::StrCat(WriteErrorText(failed, options.log_file),
                           "; its log is ", options.log_file)));
  }
  return pid;
}

absl::StatusOr<Fd> PassSecret(const std::string& secret,
                              SpawnOptions& options) {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot make a socket pair: ", strerror(errno)));
  }
  const Fd ours(fds[0]);
  Fd theirs(fds[1]);
  const ssize_t sent = send(ours.get(), secret.data(), secret.size(),
                            MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(secret.size())) {
    return absl::UnavailableError(
        absl::StrCat("cannot hand ", secret.size(), " bytes over to `rollcall ",
                     options.arguments.front(), "`: the socket takes no more"));
  }
  options.inherited_fds.push_back(theirs.get());
  options.arguments.insert(options.arguments.begin() + 1,
                           {"--secret-fd", absl::StrCat(theirs.get())});
  return theirs;
}

absl::StatusOr<std::string> TakePassedSecret(int secret_fd) {
  if (secret_fd < 0) return std::string();
  const Fd fd(secret_fd);
  std::string text(kSecretBytesMax, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = read(fd.get(), &text[size], text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return absl::UnavailableError(absl::StrCat(
          "cannot read the secret from --secret-fd: ", strerror(errno)));
    }
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  // Resized in place, so that no second copy of the secret stays in memory.
  text.resize(size);
  return text;
}

absl::Status StartGate::HoldBack(SpawnOptions& options) {
  if (!read_.open()) {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) {
      return absl::UnavailableError(
          absl::StrCat("cannot make a pipe: ", strerror(errno)));
    }
    read_ = Fd(fds[0]);
    write_ = Fd(fds[1]);
  }
  options.inherited_fds.push_back(read_.get());
  // Inserted right after the command's name.
  options.arguments.insert(options.arguments.begin() + 1,
                           {"--start-fd", absl::StrCat(read_.get())});
  ++held_;
  return absl::OkStatus();
}

void StartGate::Open() {
  if (held_ == 0) return;
  // One byte for each child. A pipe's capacity is larger, so this does not
  // block.
  const std::string go(held_, '+');
  [[maybe_unused]] ssize_t wrote = write(write_.get(), go.data(), go.size());
  read_.Close();
  write_.Close();
  held_ = 0;
}

bool AwaitStart(int start_fd) {
  if (start_fd < 0) return true;
  char go = 0;
  ssize_t got;
  while ((got = read(start_fd, &go, 1)) < 0 && errno == EINTR) {
  }
  close(start_fd);
  return got == 1;
}

std::string DescribeExit(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    return absl::StrCat("was killed by signal ", WTERMSIG(wait_status));
  }
  return absl::StrCat("exited with code ", WEXITSTATUS(wait_status));
}

int ExitCodeOf(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status)
                                  : WEXITSTATUS(wait_status);
}

}  // namespace rollcall
