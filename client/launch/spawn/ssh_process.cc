#include "client/launch/spawn/ssh_process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/launch/spawn/spawn.h"

extern char** environ;

namespace rollcall {
namespace {

struct Pipe {
  Fd read;
  Fd write;
};

absl::StatusOr<Pipe> MakePipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot make a pipe: ", strerror(errno)));
  }
  return Pipe{Fd(fds[0]), Fd(fds[1])};
}

void SetNonBlocking(const Fd& fd) {
  fcntl(fd.get(), F_SETFL, fcntl(fd.get(), F_GETFL) | O_NONBLOCK);
}

}  // namespace

absl::StatusOr<SshProcess> SshProcess::Start(
    const std::vector<std::string>& ssh, const std::string& target,
    const std::string& command) {
  auto in = MakePipe();
  auto out = MakePipe();
  auto err = MakePipe();
  for (const auto* pipe : {&in, &out, &err}) {
    if (!pipe->ok()) return pipe->status();
  }
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, in->read.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, out->write.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, err->write.get(), STDERR_FILENO);
  std::vector<std::string> words = ssh;
  words.push_back(target);
  words.push_back(command);
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    environment.push_back(*entry);
  }
  pid_t pid = -1;
  const int failed = SpawnInSession(words[0], words, environment, files, pid);
  posix_spawn_file_actions_destroy(&files);
  if (failed != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot start ", words[0], ": ", strerror(failed),
                     "; check that it is installed and in PATH"));
  }
  for (const Fd* fd : {&in->write, &out->read, &err->read}) {
    SetNonBlocking(*fd);
  }
  return SshProcess(pid, std::move(in->write), std::move(out->read),
                    std::move(err->read));
}

SshProcess::SshProcess(pid_t pid, Fd in, Fd out, Fd err)
    : pid_(pid),
      in_(std::move(in)),
      out_(std::move(out)),
      err_(std::move(err)) {}

SshProcess::SshProcess(SshProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      in_(std::move(other.in_)),
      out_(std::move(other.out_)),
      err_(std::move(other.err_)) {}

SshProcess::~SshProcess() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  Wait();
}

int SshProcess::Wait() {
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return status;
}

std::vector<std::string> SshWords(absl::string_view flag) {
  std::vector<std::string> words = absl::StrSplit(flag, ' ', absl::SkipEmpty());
  // ssh must not ask questions: a user could not answer one for each of many
  // hosts.
  words.insert(words.end(), {"-T", "-o", "BatchMode=yes"});
  return words;
}

bool SetsConnectTimeout(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (absl::StrContains(absl::AsciiStrToLower(word), "connecttimeout")) {
      return true;
    }
  }
  return false;
}

bool ConfiguresConnectTimeout(absl::string_view printed) {
  for (absl::string_view line : absl::StrSplit(printed, '\n')) {
    if (!absl::ConsumePrefix(&line, "connecttimeout ")) continue;
    // The values by which OpenSSH's releases print that there is no limit.
    return line != "none" && line != "-1" && line != "0";
  }
  return false;
}

std::string ShellWord(absl::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

}  // namespace rollcall
