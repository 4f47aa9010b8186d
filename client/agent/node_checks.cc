#include "client/agent/node_checks.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/agent/exit_watch.h"
#include "client/agent/fd.h"
#include "client/facts/facts.h"

namespace rollcall {
namespace {

constexpr int kProcessPatienceMs = 10'000;
constexpr uint64_t kSpaceBytes = 16 << 20;

v1::CheckFinding Finding(const std::string& check,
                         v1::CheckFinding::Severity severity,
                         const std::string& text) {
  v1::CheckFinding finding;
  finding.set_check(check);
  finding.set_severity(severity);
  finding.set_text(text);
  return finding;
}

v1::CheckFinding CheckProcess() {
  constexpr char kCheck[] = "process";
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
  if (error == ENOENT) {
    return Finding(kCheck, v1::CheckFinding::SEVERITY_OK,
                   "there is no command `true` here to try with");
  }
  if (error != 0) {
    return Finding(
        kCheck, v1::CheckFinding::SEVERITY_FATAL,
        absl::StrCat("no process can be started: `true`: ", strerror(error)));
  }
  const ExitWatch watch(pid);
  pollfd polled{watch.fd(), POLLIN, 0};
  int ready = 0;
  do {
    ready = poll(&polled, 1, kProcessPatienceMs);
  } while (ready < 0 && errno == EINTR);
  if (ready == 0) kill(pid, SIGKILL);
  const ExitStatus status = PeekExit(pid);
  Reap(pid);
  if (ready == 0 || status.code != 0 || status.signal != 0) {
    return Finding(kCheck, v1::CheckFinding::SEVERITY_FATAL,
                   ready == 0 ? "`true` did not end within 10 s"
                              : absl::StrCat("`true` ended with ", status.code,
                                             ", signal ", status.signal));
  }
  return Finding(kCheck, v1::CheckFinding::SEVERITY_OK, "");
}

// What is wrong with the folder; empty: nothing.
std::string CannotWrite(const std::string& folder) {
  // As OpenLogFile makes it.
  for (size_t end = folder.find('/', 1);; end = folder.find('/', end + 1)) {
    mkdir(folder.substr(0, end).c_str(), 0700);
    if (end == std::string::npos) break;
  }
  struct statvfs space;
  if (statvfs(folder.c_str(), &space) != 0) {
    return absl::StrCat(folder, ": ", strerror(errno));
  }
  const uint64_t free = uint64_t{space.f_bavail} * space.f_frsize;
  if (free < kSpaceBytes) {
    return absl::StrCat(folder, " has ", free >> 10, " KiB left, expected ",
                        kSpaceBytes >> 10);
  }
  // A new file of a random name: ranks can write to these folders, and a pipe
  // in the file's place would block.
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

v1::CheckFinding CheckFolder(const std::string& check,
                             const std::string& folder,
                             v1::CheckFinding::Severity severity) {
  const std::string wrong = CannotWrite(folder);
  return Finding(
      check, wrong.empty() ? v1::CheckFinding::SEVERITY_OK : severity, wrong);
}

v1::CheckFinding CheckGpus(uint32_t expected) {
  const v1::Facts facts = GatherFacts();
  const auto found =
      std::max(facts.gpu_count(), static_cast<uint32_t>(facts.gpus_size()));
  if (found >= expected) {
    return Finding("gpus", v1::CheckFinding::SEVERITY_OK, "");
  }
  return Finding("gpus", v1::CheckFinding::SEVERITY_FATAL,
                 absl::StrCat(found, " GPUs are left of ", expected,
                              "; look at dmesg for Xid errors"));
}

}  // namespace

std::vector<v1::CheckFinding> CheckNode(const NodeChecksOptions& options) {
  std::vector<v1::CheckFinding> findings = {
      CheckProcess(), CheckFolder("run-folder", options.run_folder,
                                  v1::CheckFinding::SEVERITY_FATAL)};
  if (!options.log_dir.empty()) {
    // Ranks run without their logs, too.
    findings.push_back(CheckFolder("log-folder", options.log_dir,
                                   v1::CheckFinding::SEVERITY_WARNING));
  }
  findings.push_back(CheckGpus(options.gpus));
  return findings;
}

NodeChecks::NodeChecks(NodeChecksOptions options, Done done)
    : options_(std::move(options)),
      done_(std::move(done)),
      thread_([this] { Loop(); }) {}

NodeChecks::~NodeChecks() {
  {
    MutexLock lock(mutex_);
    ending_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void NodeChecks::Run(uint64_t request) {
  MutexLock lock(mutex_);
  wanted_ = request;
  changed_.NotifyAll();
}

void NodeChecks::Loop() {
  for (;;) {
    uint64_t request = 0;
    {
      MutexLock lock(mutex_);
      while (!ending_ && !wanted_.has_value()) changed_.Wait(mutex_);
      if (ending_) return;
      request = *std::exchange(wanted_, std::nullopt);
    }
    done_(ChecksDone{request, CheckNode(options_)});
  }
}

}  // namespace rollcall
