#include "daemon/base/processes/start_limits.h"

#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#include <cerrno>
#include <fstream>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/base/files/fd.h"

namespace rollcall {
namespace {

std::string LimitText(int resource) {
  rlimit limit;
  if (getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) {
    return "not known";
  }
  return limit.rlim_cur == RLIM_INFINITY ? "unlimited"
                                         : absl::StrCat(limit.rlim_cur);
}

// The limit of this process's own cgroup on processes and threads. Empty: there
// is none, or it is not known.
std::string PidsMax() {
  std::ifstream cgroups("/proc/self/cgroup");
  for (std::string line; std::getline(cgroups, line);) {
    // Each line is `number:controllers:path`.
    const std::vector<std::string> words =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (words.size() != 3) continue;
    const bool unified = words[0] == "0";
    if (!unified && words[1] != "pids") continue;
    const std::string root = unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/pids";
    // A container may see its own cgroup as the root.
    for (const std::string& folder : {root + words[2], root}) {
      std::ifstream file(folder + "/pids.max");
      std::string most;
      if (std::getline(file, most) && !most.empty() &&
          absl::ascii_isdigit(static_cast<unsigned char>(most[0]))) {
        return most;
      }
    }
  }
  return "";
}

void* WaitFor(void* gate) {
  const std::lock_guard<std::mutex> lock(*static_cast<std::mutex*>(gate));
  return nullptr;
}

absl::Status TryThreads(size_t wanted) {
  std::mutex gate;
  std::vector<pthread_t> threads;
  int error = 0;
  {
    const std::lock_guard<std::mutex> hold(gate);
    while (threads.size() < wanted && error == 0) {
      pthread_t thread;
      error = pthread_create(&thread, nullptr, WaitFor, &gate);
      if (error == 0) threads.push_back(thread);
    }
  }
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  if (error == 0) return absl::OkStatus();
  const std::string most = PidsMax();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the ", wanted, " threads that are needed cannot be started, only ",
      threads.size(), " (", strerror(error),
      "): this user's processes and threads are limited to ",
      LimitText(RLIMIT_NPROC), " (ulimit -u)",
      most.empty()
          ? ""
          : absl::StrCat(", those of its cgroup to ", most, " (pids.max)"),
      ", this process's memory to ", LimitText(RLIMIT_AS),
      " (ulimit -v, in bytes); raise that, or end other processes"));
}

absl::Status TryDescriptors() {
  std::vector<Fd> opened;
  while (opened.size() < kDescriptorsToStart) {
    Fd fd(eventfd(0, EFD_CLOEXEC));
    if (!fd.open()) break;
    opened.push_back(std::move(fd));
  }
  if (opened.size() == kDescriptorsToStart) return absl::OkStatus();
  const int error = errno;
  return absl::ResourceExhaustedError(absl::StrCat(
      "the ", kDescriptorsToStart, " files that are needed cannot be opened, ",
      "only ", opened.size(), " (", strerror(error), "): a process may have ",
      LimitText(RLIMIT_NOFILE), " open (ulimit -n); raise that"));
}

}  // namespace

absl::Status CheckStartLimits(size_t threads) {
  absl::Status status = TryDescriptors();
  if (status.ok()) status = TryThreads(threads);
  return status;
}

}  // namespace rollcall
