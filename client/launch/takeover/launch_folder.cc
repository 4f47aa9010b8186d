#include "client/launch/takeover/launch_folder.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/launch/takeover/known_process.h"
#include "daemon/base/files/whole_file.h"
#include "daemon/journal/private_folder.h"
#include "daemon/security/certificates/identity.h"
#include "daemon/security/kept_tokens.h"
#include "nlohmann/json.hpp"

namespace rollcall {
namespace {

namespace fs = std::filesystem;

// Enough for the last lines of a log.
constexpr std::streamoff kLastBytes = 64 << 10;
constexpr char kRunningFile[] = "/daemon.json";

bool Exists(const std::string& path) {
  struct stat found;
  return lstat(path.c_str(), &found) == 0;
}

bool RunsCommand(pid_t pid, absl::string_view command) {
  if (pid <= 0) return false;
  // The pid may be reused; the arguments show whether it is a daemon.
  auto arguments = ReadWholeFile(absl::StrCat("/proc/", pid, "/cmdline"));
  if (!arguments.ok()) return false;
  const std::vector<std::string> words = absl::StrSplit(*arguments, '\0');
  return words.size() > 1 && words[1] == command &&
         absl::StrContains(words[0], "rollcall");
}

// A path may contain any bytes.
std::string Dump(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false,
                   nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

absl::StatusOr<std::unique_ptr<LaunchFolder>> LaunchFolder::Open(
    const std::string& path) {
  if (absl::Status made = MakePrivateFolder(path, kLauncherLock); !made.ok()) {
    return made;
  }
  const std::string lock_file = absl::StrCat(path, "/", kLauncherLock);
  // A launcher locks its folder before its daemon does.
  if (!Exists(lock_file) && Exists(absl::StrCat(path, "/", kDaemonLock))) {
    return UnusableFolder(
        path, absl::StrCat("expected a launcher's or a new one, got one of "
                           "rollcalld's (it has ",
                           kDaemonLock, " and no ", kLauncherLock, ")"));
  }
  const absl::StatusOr<int> opened = OpenPrivateFile(path, kLauncherLock);
  if (!opened.ok()) return opened.status();
  const int fd = *opened;
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    close(fd);
    if (const std::string stopped = StoppedLauncher(path); !stopped.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat(stopped, "; it has the state folder ", path,
                       ". Or give this one another --job"));
    }
    const std::string holder = LastLines(lock_file, 1);
    return absl::FailedPreconditionError(absl::StrCat(
        "the launcher of process ", holder.empty() ? "?" : holder,
        " has the state folder ", path,
        "; end it with `rollcall stop`, or give this one another --job"));
  }
  if (absl::Status held = WriteHolder(path, kLauncherLock, fd); !held.ok()) {
    close(fd);
    return held;
  }
  return std::unique_ptr<LaunchFolder>(new LaunchFolder(path, fd));
}

LaunchFolder::LaunchFolder(std::string path, int lock_fd)
    : path_(std::move(path)), lock_fd_(lock_fd) {}

LaunchFolder::~LaunchFolder() { close(lock_fd_); }

std::pair<uint64_t, uint64_t> LaunchFolder::lock_file() const {
  struct stat file;
  if (fstat(lock_fd_, &file) != 0) return {0, 0};
  return {file.st_dev, file.st_ino};
}

absl::Status LaunchFolder::WriteRunning(const RunningJob& running) {
  nlohmann::ordered_json json = {{"job", running.job},
                                 {"endpoint", running.endpoint},
                                 {"daemon_pid", running.daemon_pid},
                                 {"join", running.join_string}};
  if (!running.trust.ca_file.empty()) {
    json["tls"] = {{"ca", running.trust.ca_file},
                   {"cert", running.trust.cert_file},
                   {"key", running.trust.key_file},
                   {"server_name", running.trust.server_name}};
  }
  return WriteSecretFile(path_ + kRunningFile, Dump(json) + "\n");
}

absl::StatusOr<DefaultState> DefaultLaunchState(const std::string& job) {
  return MakeDefaultState(RootsOf(ThisStateOrigin()), job,
                          {kRunningFile, kLaunchFile});
}

std::vector<std::string> LaunchFoldersOf(const std::string& job) {
  std::vector<std::string> folders = RootsToSearch(RootsOf(ThisStateOrigin()));
  for (std::string& folder : folders) absl::StrAppend(&folder, "/", job);
  return folders;
}

absl::StatusOr<RunningJob> ReadRunningJob(const std::string& folder) {
  const std::string path = folder + kRunningFile;
  auto text = ReadWholeFile(path);
  if (!text.ok()) return absl::NotFoundError(text.status().message());
  const auto json = nlohmann::json::parse(*text, nullptr, false);
  RunningJob running;
  running.folder = folder;
  const auto is_text = [&](const char* key) {
    return json.contains(key) && json[key].is_string();
  };
  if (!json.is_object() || !is_text("job") || !is_text("endpoint") ||
      !is_text("join") || !json.contains("daemon_pid") ||
      !json["daemon_pid"].is_number_integer()) {
    return absl::NotFoundError(absl::StrCat(path, " is damaged"));
  }
  running.job = json["job"];
  running.endpoint = json["endpoint"];
  running.join_string = json["join"];
  running.daemon_pid = json["daemon_pid"];
  if (!json.contains("tls")) return running;
  const auto read = [&tls = json["tls"]](const char* key, std::string& to) {
    if (!tls.is_object() || !tls.contains(key) || !tls[key].is_string()) {
      return false;
    }
    to = tls[key];
    return true;
  };
  if (!read("ca", running.trust.ca_file) ||
      !read("cert", running.trust.cert_file) ||
      !read("key", running.trust.key_file) ||
      !read("server_name", running.trust.server_name)) {
    return absl::NotFoundError(absl::StrCat(path, " is damaged"));
  }
  return running;
}

std::vector<RunningJob> RunningJobs(const std::vector<std::string>& roots) {
  std::vector<RunningJob> jobs;
  for (const std::string& root : roots) {
    std::error_code failed;
    for (const auto& entry : fs::directory_iterator(root, failed)) {
      auto running = ReadRunningJob(entry.path().string());
      if (running.ok() && IsLivingDaemon(running->daemon_pid)) {
        jobs.push_back(*std::move(running));
      }
    }
  }
  std::sort(jobs.begin(), jobs.end(),
            [](const auto& a, const auto& b) { return a.job < b.job; });
  return jobs;
}

bool IsLivingDaemon(int pid) { return RunsCommand(pid, "daemon"); }

std::string StoppedLauncher(const std::string& folder) {
  pid_t pid = 0;
  const std::string holder =
      LastLines(absl::StrCat(folder, "/", kLauncherLock), 1);
  if (!absl::SimpleAtoi(holder, &pid) ||
      !(RunsCommand(pid, "launch") || RunsCommand(pid, "run")) ||
      !IsStopped(pid)) {
    return "";
  }
  return absl::StrCat("the launcher (process ", pid,
                      ") is stopped: continue it with `kill -CONT ", pid, "`");
}

void ForgetRun(const std::string& folder, bool all) {
  std::error_code ignored;
  if (all) {
    fs::remove_all(folder, ignored);
    return;
  }
  fs::remove(folder + kRunningFile, ignored);
  fs::remove(folder + kLaunchFile, ignored);
  fs::remove(folder + kAdminTokenFile, ignored);
  fs::remove(folder + kWorkerTokenFile, ignored);
  fs::remove(folder + kWorkerJoinFile, ignored);
  fs::remove(folder + kAdminJoinFile, ignored);
}

void ForgetOrphanedRun(const std::string& folder, bool all) {
  // The folder is locked meanwhile, so that no launcher starts with half of the
  // files.
  const auto held = LaunchFolder::Open(folder);
  if (held.ok()) return ForgetRun(folder, all);
  std::error_code ignored;
  fs::remove(folder + kRunningFile, ignored);
}

bool IsRunKnown(const std::string& folder) {
  std::error_code ignored;
  return fs::exists(folder + kRunningFile, ignored);
}

std::string LastLines(const std::string& path, size_t lines) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return "";
  const std::streamoff size = file.tellg();
  const std::streamoff wanted = std::min<std::streamoff>(size, kLastBytes);
  std::string text(static_cast<size_t>(wanted), '\0');
  file.seekg(size - wanted);
  file.read(text.data(), wanted);
  text.resize(static_cast<size_t>(file.gcount()));
  std::vector<std::string> all =
      absl::StrSplit(absl::StripAsciiWhitespace(text), '\n', absl::SkipEmpty());
  if (all.size() > lines) {
    all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(lines));
  }
  return absl::StrJoin(all, "\n");
}

}  // namespace rollcall
