#include "client/launch/spawn/submit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "client/launch/spawn/spawn.h"
#include "daemon/base/clock.h"
#include "daemon/base/files/whole_file.h"
#include "daemon/base/processes/signal_pipe.h"
#include "daemon/core/exit_codes.h"

extern char** environ;

namespace rollcall {
namespace {

// A command has this time to end after a signal. The time is shorter than what
// the launcher gives this process after a second Ctrl-C (kKillPatience in
// supervisor_end.cc).
constexpr absl::Duration kKillAfter = absl::Seconds(2);

int FailFor(uint32_t worker, const std::string& why, int code) {
  std::fprintf(stderr, "rollcall: worker %u is not submitted: %s\n", worker,
               why.c_str());
  return code;
}

// A file that only this user can read. The destructor removes it.
class SpecFile {
 public:
  explicit SpecFile(const std::string& text) {
    const char* folder = getenv("TMPDIR");
    path_ = absl::StrCat(folder == nullptr ? "/tmp" : folder,
                         "/rollcall-worker-XXXXXX.yaml");
    const int fd = mkostemps(path_.data(), 5, O_CLOEXEC);
    if (fd < 0) return;
    const ssize_t wrote = write(fd, text.data(), text.size());
    whole_ = close(fd) == 0 && wrote == static_cast<ssize_t>(text.size());
  }
  ~SpecFile() { unlink(path_.c_str()); }
  SpecFile(const SpecFile&) = delete;
  SpecFile& operator=(const SpecFile&) = delete;

  bool whole() const { return whole_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool whole_ = false;
};

// Runs the submit command in its own process group, so that a signal reaches
// all processes that it started.
class Commands {
 public:
  // Returns the wait status, or -1 and sets errno.
  int Run(std::vector<std::string> words) {
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    pid_t pid = -1;
    const int failed =
        posix_spawnp(&pid, argv[0], nullptr, &attributes, argv.data(), environ);
    posix_spawnattr_destroy(&attributes);
    errno = failed;
    if (failed != 0) return -1;
    int status = 0;
    pid_t ended;
    // Later signals do not put it off.
    absl::Time kill_at = KillAt();
    while ((ended = waitpid(pid, &status, WNOHANG)) != pid) {
      if (ended < 0 && errno != EINTR) return -1;
      pollfd signal{signals_.fd(), POLLIN, 0};
      poll(&signal, 1,
           kill_at == absl::InfiniteFuture()
               ? -1
               : static_cast<int>(std::max<int64_t>(
                     absl::ToInt64Milliseconds(kill_at - MonotonicNow()) + 1,
                     0)));
      const int got = signals_.Read();
      if (got != 0 && got != SIGCHLD) {
        signal_ = got;
        kill_at = std::min(kill_at, KillAt());
        kill(-pid, signal_);
      }
      if (MonotonicNow() >= kill_at) {
        kill(-pid, SIGKILL);
        kill_at = KillAt();
      }
    }
    return status;
  }

  // The signal that this process has received; 0: none.
  int signal() const { return signal_; }

 private:
  absl::Time KillAt() const {
    return signal_ == 0 ? absl::InfiniteFuture() : MonotonicNow() + kKillAfter;
  }

  SignalPipe signals_{{SIGTERM, SIGINT, SIGHUP, SIGCHLD}};
  int signal_ = 0;
};

// Returns 0, or the exit code of the failure.
int SubmitOne(const SubmitOptions& options, const std::string& text,
              uint32_t worker, Commands& commands) {
  TemplateValues values = options.values;
  values["NODE_RANK"] = absl::StrCat(worker);
  const auto spec = RenderTemplate(text, values);
  if (!spec.ok()) {
    return FailFor(worker, std::string(spec.status().message()),
                   kExitRendezvous);
  }
  const SpecFile file(*spec);
  if (!file.whole()) {
    return FailFor(
        worker,
        absl::StrCat("cannot write ", file.path(), ": ", strerror(errno)),
        kExitRendezvous);
  }
  std::vector<std::string> words =
      absl::StrSplit(options.command, ' ', absl::SkipEmpty());
  bool named = false;
  for (std::string& word : words) {
    named = absl::StrReplaceAll({{"{}", file.path()}}, &word) > 0 || named;
  }
  if (!named) words.push_back(file.path());
  const int status = commands.Run(words);
  if (commands.signal() != 0) return 128 + commands.signal();
  if (status < 0) {
    return FailFor(
        worker, absl::StrCat("cannot start ", words[0], ": ", strerror(errno)),
        kExitRendezvous);
  }
  if (status == 0) return 0;
  return FailFor(worker,
                 absl::StrCat("`", options.command, "` ", DescribeExit(status)),
                 ExitCodeOf(status));
}

}  // namespace

int RunSubmit(const SubmitOptions& options) {
  // The launcher has already checked this file.
  const auto text = ReadWholeFile(options.file, kTemplateBytesMax);
  if (!text.ok()) {
    return FailFor(1, std::string(text.status().message()), kExitRendezvous);
  }
  Commands commands;
  uint32_t failed = 0;
  for (uint32_t worker = 1; worker <= options.workers; ++worker) {
    const int code = SubmitOne(options, *text, worker, commands);
    if (code == 0) continue;
    if (commands.signal() != 0) return code;
    if (options.workers - ++failed < options.workers_min) return code;
  }
  return 0;
}

}  // namespace rollcall
