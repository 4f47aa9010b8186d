#include "client/agent/node_trials.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/agent/processes/process_tree/exit_watch.h"
#include "daemon/base/clock.h"
#include "daemon/base/files/await_ready.h"
#include "daemon/base/files/fd.h"

namespace rollcall {
namespace {

constexpr absl::Duration kProcessPatience = absl::Seconds(10);
constexpr uint64_t kSpaceBytes = 16 << 20;

// Returns why no process can be started; empty: one can.
std::string CannotStart() {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  for (const int fd : {0, 1, 2}) {
    posix_spawn_file_actions_addopen(&files, fd, "/dev/null", O_RDWR, 0);
  }
  char name[] = "true";
  char* const argv[] = {name, nullptr};
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, name, &files, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&files);
  // If the image has no `true`, the trial shows nothing about the node.
  if (error == ENOENT) return "";
  if (error != 0) {
    return absl::StrCat("no process can be started: `true`: ", strerror(error));
  }
  const ExitWatch watch(pid);
  const bool ended =
      AwaitReady(watch.fd(), POLLIN, MonotonicNow() + kProcessPatience);
  if (!ended) kill(pid, SIGKILL);
  const ExitStatus status = PeekExit(pid);
  Reap(pid);
  if (!ended) return "`true` did not end within 10 s";
  if (status.code == 0 && status.signal == 0) return "";
  return absl::StrCat("`true` ended with ", status.code, ", signal ",
                      status.signal);
}

// Makes the folder and its parents, as LogFolder does. Returns the folders that
// were missing, outermost first.
std::vector<std::string> Make(const std::string& folder) {
  std::vector<std::string> made;
  for (size_t end = folder.find('/', 1);; end = folder.find('/', end + 1)) {
    const std::string path = folder.substr(0, end);
    if (mkdir(path.c_str(), 0700) == 0) made.push_back(path);
    if (end == std::string::npos) return made;
  }
}

// Returns why the folder cannot be written; empty: it can.
std::string CannotWrite(const std::string& folder) {
  struct statvfs space;
  if (statvfs(folder.c_str(), &space) != 0) {
    return absl::StrCat(folder, ": ", strerror(errno));
  }
  const uint64_t free = uint64_t{space.f_bavail} * space.f_frsize;
  if (free < kSpaceBytes) {
    return absl::StrCat(folder, " has ", free >> 10, " KiB left, expected ",
                        kSpaceBytes >> 10);
  }
  // The file is new and has a random name, because ranks can write to these
  // folders: opening a fixed name could block on a pipe that a rank put there.
  std::string path = absl::StrCat(folder, "/.check-XXXXXX");
  const Fd file(mkostemp(path.data(), O_CLOEXEC));
  if (!file.open()) return absl::StrCat(path, ": ", strerror(errno));
  const char word[] = "rollcall";
  std::string wrong;
  if (write(file.get(), word, sizeof(word)) !=
          static_cast<ssize_t>(sizeof(word)) ||
      fsync(file.get()) != 0) {
    wrong = absl::StrCat(path, ": ", strerror(errno));
  }
  unlink(path.c_str());
  return wrong;
}

}  // namespace

Trial TryProcess() {
  Trial trial;
  trial.check = "process";
  trial.subject = "node";
  trial.error = CannotStart();
  trial.expected = "`true` runs";
  trial.why = "No rank can be started here.";
  trial.mend =
      "Check the limits on processes (`ulimit -u`, pids.max of the cgroup) "
      "and at free memory.";
  return trial;
}

Trial FolderTrial(const std::string& check, const std::string& folder,
                  Severity severity) {
  Trial trial;
  trial.check = check;
  trial.subject = folder;
  trial.severity = severity;
  trial.expected = "a folder that can be written";
  trial.why = "The run writes there.";
  trial.mend = "Check free space and permissions, or name another folder.";
  return trial;
}

Trial TryFolder(const std::string& check, const std::string& folder,
                Severity severity) {
  Trial trial = FolderTrial(check, folder, severity);
  std::vector<std::string> fresh = Make(folder);
  trial.error = CannotWrite(folder);
  for (; !fresh.empty(); fresh.pop_back()) {
    rmdir(fresh.back().c_str());
  }
  return trial;
}

}  // namespace rollcall
