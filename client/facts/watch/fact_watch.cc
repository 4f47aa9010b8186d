#include "client/facts/watch/fact_watch.h"

#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/facts/devices/infiniband.h"
#include "client/facts/devices/nvml.h"
#include "client/facts/system/netlink.h"
#include "client/facts/system/system.h"
#include "client/facts/watch/fact_reporter.h"
#include "client/facts/watch/fact_states.h"
#include "client/facts/watch/gpu_watch.h"
#include "daemon/base/files/fd.h"
#include "daemon/base/files/whole_file.h"
#include "daemon/base/mutex.h"
#include "daemon/base/text/printable.h"
#include "daemon/core/admission/admission.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

constexpr absl::Duration kBetweenReads = absl::Seconds(1);
constexpr size_t kEventBytesMax = 32 << 10;
// No base64 begins with it.
constexpr absl::string_view kEndMark = "!";

// Calls `read` every second; nothing announces these changes.
[[noreturn]] void EverySecond(const std::function<void()>& read) {
  Mutex mutex;
  CondVar never;
  while (true) {
    read();
    MutexLock lock(mutex);
    never.WaitFor(mutex, kBetweenReads);
  }
}

// --- Interfaces --------------------------------------------------------------

// Returns false if the request failed: repeat it later.
bool ReadAllLinks(LinkStates& states, FactReporter& reporter) {
  std::vector<NetworkLink> links;
  absl::Status status;
  for (int tries = 0; tries < 3; ++tries) {
    links.clear();
    status = DumpNetlink(RTM_GETLINK, AF_UNSPEC, [&](absl::string_view bytes) {
      return ParseLinks(bytes, links);
    });
    if (!absl::IsAborted(status)) break;
  }
  reporter.Take(states.TakeAll(status, links));
  if (status.ok()) NameSource("links");
  return status.ok();
}

void WatchLinks(FactReporter& reporter) {
  const Fd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  sockaddr_nl own{};
  own.nl_family = AF_NETLINK;
  own.nl_groups = RTMGRP_LINK;
  if (!socket.open() ||
      bind(socket.get(), reinterpret_cast<sockaddr*>(&own), sizeof own) != 0) {
    return;
  }
  // Read after the socket is bound, so that no change is missed.
  LinkStates states;
  bool whole = ReadAllLinks(states, reporter);
  std::string bytes(kEventBytesMax, '\0');
  while (true) {
    sockaddr_nl from{};
    socklen_t size = sizeof from;
    const ssize_t n =
        recvfrom(socket.get(), bytes.data(), bytes.size(), MSG_TRUNC,
                 reinterpret_cast<sockaddr*>(&from), &size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != ENOBUFS) return;
    // Other processes could send to this socket.
    if (n >= 0 && from.nl_pid != 0) continue;
    // Also if the kernel dropped or cut events.
    if (!whole || n < 0 || static_cast<size_t>(n) > bytes.size()) {
      whole = ReadAllLinks(states, reporter);
      continue;
    }
    const absl::string_view event(bytes.data(), static_cast<size_t>(n));
    std::vector<NetworkLink> changed;
    std::vector<NetworkLink> gone;
    ParseLinks(event, changed);
    ParseGoneLinks(event, gone);
    reporter.Take(states.Take(changed));
    reporter.Take(states.TakeGone(gone));
  }
}

// --- RDMA ports --------------------------------------------------------------

void WatchPorts(const std::string& root, FactReporter& reporter) {
  const std::vector<v1::InfinibandPort> ports = ReadInfinibandPorts(root);
  if (ports.empty()) return;
  FactStates states(v1::FACT_KIND_RDMA_PORT);
  EverySecond([&] {
    for (const v1::InfinibandPort& port : ports) {
      reporter.Take(states.Take(
          absl::StrCat("RDMA port ", port.device(), "/", port.port()),
          ReadPortState(root, port.device(), port.port())));
    }
    NameSource("ports");
  });
}

// --- GPUs --------------------------------------------------------------------

// Runs in a copy of this process, which ends with it. Returns the pid of the
// copy; -1: there is none.
pid_t StartGpuWatch(const DeviceFactsOptions& options, bool json) {
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid != 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(0);
  // A library that crashes leaves no core file.
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  prctl(PR_SET_DUMPABLE, 0);
  // The library may write to stdout.
  const int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (out < 0 || null < 0 || dup2(null, STDOUT_FILENO) < 0) _exit(1);
  FactReporter reporter(out, json);
  std::thread([&] {
    WatchGpus(NvmlLibraryNames(options.nvml_library), reporter);
  }).detach();
  reporter.Run(STDIN_FILENO);
  _exit(0);
}

// Reports the end of the copy, unless it ends because this process does.
void AwaitGpuWatch(pid_t pid, const FactReporter& reporter) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return;
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  reporter.TakeEnd(absl::StrCat(
      "errors and clocks of this node's GPUs are not watched any more: the "
      "process that asks NVML ended ",
      WIFSIGNALED(status) ? absl::StrCat("by signal ", WTERMSIG(status))
                          : absl::StrCat("with code ", WEXITSTATUS(status))));
}

// --- Free space --------------------------------------------------------------

// Which file systems are watched already.
class FileSystems {
 public:
  bool Add(dev_t device) {
    MutexLock lock(mutex_);
    return devices_.insert(device).second;
  }

 private:
  Mutex mutex_;
  std::set<dev_t> devices_ ABSL_GUARDED_BY(mutex_);
};

// The device of a folder, or of the nearest parent that exists.
std::optional<dev_t> DeviceOf(std::string path) {
  struct stat info;
  while (stat(path.empty() ? "/" : path.c_str(), &info) != 0) {
    const size_t slash = path.find_last_of('/');
    if (errno != ENOENT || slash == std::string::npos) return std::nullopt;
    path.resize(slash);
  }
  return info.st_dev;
}

void WatchFolder(const std::string& folder, FileSystems& systems,
                 FactReporter& reporter) {
  const std::optional<dev_t> device = DeviceOf(folder);
  if (!device || !systems.Add(*device)) return;
  SpaceStates states(folder);
  EverySecond([&] {
    const auto space = ReadFolderSpace(folder);
    if (!space.ok()) return;
    reporter.Take(states.Take(space->free_bytes(), space->size_bytes()));
    NameSource("folder");
  });
}

}  // namespace

void WatchFacts(const DeviceFactsOptions& options, bool json) {
  // A write to an ended agent fails instead.
  signal(SIGPIPE, SIG_IGN);
  const pid_t gpus = AsksNvml(options) ? StartGpuWatch(options, json) : -1;
  FactReporter reporter(STDOUT_FILENO, json);
  if (gpus > 0) {
    std::thread([&] { AwaitGpuWatch(gpus, reporter); }).detach();
  }
  FileSystems systems;
  // Detached, because a source may hang; _exit below ends them.
  std::thread([&] { WatchLinks(reporter); }).detach();
  std::thread([&] { WatchPorts(options.sysroot, reporter); }).detach();
  for (size_t i = 0;
       i < std::min(options.folders.size(), FactsLimits::folders_max); ++i) {
    std::thread([&, folder = options.folders[i]] {
      WatchFolder(folder, systems, reporter);
    }).detach();
  }
  reporter.Run(STDIN_FILENO);
  _exit(0);
}

absl::StatusOr<ChildProcess> SpawnFactWatch(const NodeFactsOptions& options) {
  std::vector<std::string> argv = {"rollcall", "facts", "--watch"};
  for (std::string& argument : FactsArguments(options.devices)) {
    argv.push_back(std::move(argument));
  }
  return ChildProcess::Spawn(options.self, argv,
                             WithoutPreload(options.environment));
}

std::string FactLine(const v1::FactChange& change) {
  return absl::Base64Escape(change.SerializeAsString());
}

std::optional<v1::FactChange> ParseFactLine(absl::string_view line) {
  std::string bytes;
  v1::AgentMessage message;
  v1::FactChange& change = *message.mutable_fact_change();
  if (!absl::Base64Unescape(line, &bytes) || !change.ParseFromString(bytes)) {
    return std::nullopt;
  }
  CleanMessage(message);
  if (!AdmitMessage(message).ok()) return std::nullopt;
  return change;
}

std::string EndLine(const std::string& text) {
  return absl::StrCat(kEndMark, Printable(text, Limits::fact_text_bytes_max));
}

std::optional<std::string> ParseEndLine(absl::string_view line) {
  if (!absl::ConsumePrefix(&line, kEndMark)) return std::nullopt;
  return Printable(std::string(line), Limits::fact_text_bytes_max);
}

}  // namespace rollcall
