#include "client/agent/processes/process_tree/sweep.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/agent/processes/process_tree/cgroup.h"
#include "daemon/base/clock.h"
#include "daemon/base/files/fd.h"
#include "daemon/base/processes/proc_stat.h"
#include "daemon/base/processes/system_user.h"

namespace rollcall {
namespace {

// Limits the bytes that are read of one environment.
constexpr size_t kEnvironBytesMax = 8 << 20;
// How often, and at what interval, a scan checks again the processes without an
// environment, all of them together. On a busy machine a new program's first
// pages may take time to appear, and a large process may take time to release
// its memory.
constexpr int kBareTries = 1000;
constexpr int kBarePauseMs = 1;
// How many scans in a row must find nothing: one scan may miss a process that
// keeps forking and exiting.
constexpr int kQuietScans = 2;
constexpr int kWalksMax = 16;
// How many deaths are awaited at a time; limits the open descriptors.
constexpr size_t kAwaitedMax = 128;

struct Stat : ProcStat {
  pid_t pid = 0;
  // It has one of the markers in its environment.
  bool marked = false;
};

// Calls `more` with each piece of a file until it returns false.
template <typename More>
bool ReadPieces(const std::string& path, size_t most, More more) {
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.open()) return false;
  char piece[16 << 10];
  for (size_t total = 0; total < most;) {
    const ssize_t got = read(file.get(), piece, sizeof piece);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got == 0;
    total += got;
    if (!more(std::string_view(piece, got))) return true;
  }
  return true;
}

using Markers = std::set<std::string, std::less<>>;

// Whether any of the markers is in an environment, or why that is unknown.
enum class Environment { kMarked, kOther, kEmpty, kUnreadable };
Environment ReadEnvironment(pid_t pid, const Markers& markers, size_t longest) {
  bool found = false;
  bool empty = true;
  // The beginning of an entry that goes on in the next piece, and only as much
  // of it as can still match.
  std::string begun;
  const bool read =
      ReadPieces(absl::StrCat("/proc/", pid, "/environ"), kEnvironBytesMax,
                 [&](std::string_view piece) {
                   empty = false;
                   for (size_t at = 0; at < piece.size() && !found;) {
                     const size_t end = piece.find('\0', at);
                     std::string_view entry = piece.substr(at, end - at);
                     at = end == piece.npos ? piece.size() : end + 1;
                     if (!begun.empty() || end == piece.npos) {
                       begun += entry.substr(0, longest + 1 - begun.size());
                       entry = begun;
                     }
                     if (end == piece.npos) break;
                     found = markers.contains(entry);
                     begun.clear();
                   }
                   return !found;
                 });
  if (found || markers.contains(begun)) return Environment::kMarked;
  // Some kernels return ESRCH for a process without memory.
  if (!read && errno != ESRCH) return Environment::kUnreadable;
  return empty ? Environment::kEmpty : Environment::kOther;
}

// During exec or exit a process has no environment for a moment, but still has
// its files and children.
bool LacksMemory(pid_t pid) {
  const std::optional<ProcStat> stat = ReadProcStat(pid);
  return stat && stat->Alive() && stat->environment_end == 0;
}

// `tries`: how often it may check again; decreased by each time.
bool HasMarker(const Stat& process, const Markers& markers, int& tries) {
  if (markers.empty() || process.OfTheKernel() || !process.Alive()) {
    return false;
  }
  size_t longest = 0;
  for (const std::string& marker : markers) {
    longest = std::max(longest, marker.size());
  }
  bool settled = false;
  std::optional<AsUser> as_its_user;
  while (true) {
    Environment seen = ReadEnvironment(process.pid, markers, longest);
    if (seen == Environment::kUnreadable && !as_its_user) {
      // In most containers root lacks CAP_SYS_PTRACE.
      const std::optional<SystemUser> user = OtherUserOf(process.pid);
      as_its_user.emplace(user ? &*user : nullptr);
      if (user) seen = ReadEnvironment(process.pid, markers, longest);
    }
    if (seen != Environment::kEmpty) return seen == Environment::kMarked;
    // An exec in progress also gives an empty environment. So it is read once
    // more after the process has memory; if it is still empty, the marker is
    // not there.
    if (settled) return false;
    settled = !LacksMemory(process.pid);
    if (settled) continue;
    if (tries-- <= 0) return false;
    poll(nullptr, 0, kBarePauseMs);
  }
}

// Calls `meet` with each pid in /proc.
template <typename Meet>
void WalkProc(Meet meet) {
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(opendir("/proc"), closedir);
  while (const dirent* entry = proc ? readdir(proc.get()) : nullptr) {
    pid_t pid = 0;
    if (absl::SimpleAtoi(entry->d_name, &pid) && pid > 0) meet(pid);
  }
}

// No rank started earlier than this, so older environments need not be read.
uint64_t EarliestStart(const ProcessMatcher& matcher) {
  if (matcher.sessions.empty()) return 0;
  uint64_t earliest = UINT64_MAX;
  for (const RankSession& session : matcher.sessions) {
    earliest = std::min(earliest, session.start_ticks);
  }
  return earliest;
}

// `leader_start`: when the process started that has the session's number as its
// pid now; 0: there is none. The pid may have been reused by another leader.
bool InSession(const Stat& process, const RankSession& session,
               uint64_t leader_start) {
  return process.session == session.id &&
         process.start_ticks >= session.start_ticks &&
         (leader_start == 0 || leader_start == session.start_ticks);
}

// Whether its session shows that it is a rank's process. Then its environment,
// for which a scan may have to wait, is not needed.
bool ShownBySession(const Stat& process, const ProcessMatcher& matcher) {
  return std::any_of(matcher.sessions.begin(), matcher.sessions.end(),
                     [&](const RankSession& session) {
                       return process.session == session.id &&
                              InSession(process, session,
                                        StartTicks(session.id));
                     });
}

// Scans until no new process appears. The list is taken before its processes
// are read, and a process that has ended in between may have left a child.
std::map<pid_t, Stat> AllProcesses(const ProcessMatcher& matcher) {
  const Markers markers(matcher.markers.begin(), matcher.markers.end());
  const uint64_t earliest = EarliestStart(matcher);
  std::map<pid_t, Stat> all;
  std::set<pid_t> met;
  int tries = kBareTries;
  bool grown = true;
  for (int walk = 0; grown && walk < kWalksMax; ++walk) {
    grown = false;
    WalkProc([&](pid_t pid) {
      if (!met.insert(pid).second) return;
      grown = true;
      const std::optional<ProcStat> read = ReadProcStat(pid);
      if (!read) return;
      Stat stat{*read, pid};
      stat.marked = stat.start_ticks >= earliest &&
                    !ShownBySession(stat, matcher) &&
                    HasMarker(stat, markers, tries);
      all.emplace(pid, stat);
    });
  }
  return all;
}

// Whether it is a child of the calling process in another session.
bool Reparented(const Stat& process) {
  return process.parent == getpid() && process.session != getsid(0);
}

class Finder {
 public:
  // `all` must outlive this object.
  Finder(const ProcessMatcher& matcher, const std::map<pid_t, Stat>& all,
         std::set<pid_t> in_cgroup)
      : matcher_(matcher), all_(all), in_cgroup_(std::move(in_cgroup)) {
    for (const FoundProcess& known : matcher.processes) {
      known_.emplace(known.pid, known.start_ticks);
    }
  }

  std::vector<FoundProcess> Find() const {
    std::set<pid_t> ours;
    for (const auto& [pid, stat] : all_) {
      if (!Spared(pid) && Shows(stat)) ours.insert(pid);
    }
    // Descendants of our processes are ours, at any depth.
    for (bool grown = !ours.empty(); grown;) {
      grown = false;
      for (const auto& [pid, stat] : all_) {
        if (ours.contains(stat.parent) && !Spared(pid)) {
          grown |= ours.insert(pid).second;
        }
      }
    }
    std::vector<FoundProcess> found;
    for (const pid_t pid : ours) {
      const Stat& stat = all_.at(pid);
      if (!stat.Alive()) continue;
      found.push_back({pid, stat.group, stat.start_ticks, stat.session});
    }
    return found;
  }

 private:
  bool Spared(pid_t pid) const {
    return pid == 1 || pid == getpid() ||
           std::find(matcher_.spared.begin(), matcher_.spared.end(), pid) !=
               matcher_.spared.end();
  }

  bool Shows(const Stat& process) const {
    if (process.marked || in_cgroup_.contains(process.pid)) return true;
    if (matcher_.reparented && Reparented(process)) return true;
    if (known_.contains({process.pid, process.start_ticks})) return true;
    for (const RankSession& session : matcher_.sessions) {
      const auto leader = all_.find(session.id);
      if (InSession(process, session,
                    leader == all_.end() ? 0 : leader->second.start_ticks)) {
        return true;
      }
    }
    return false;
  }

  const ProcessMatcher& matcher_;
  const std::map<pid_t, Stat>& all_;
  const std::set<pid_t> in_cgroup_;
  std::set<std::pair<pid_t, uint64_t>> known_;
};

// Kills the process if it is still the one that was found. `pidfd`, if it is
// open, becomes readable at the end of the process.
enum class Shot { kHit, kGone, kDenied };
Shot Kill(const FoundProcess& process, Fd* pidfd) {
  *pidfd = Fd(syscall(SYS_pidfd_open, process.pid, 0));
  if (!pidfd->open() && errno == ESRCH) return Shot::kGone;
  if (StartTicks(process.pid) != process.start_ticks) return Shot::kGone;
  const int failed = pidfd->open() ? syscall(SYS_pidfd_send_signal,
                                             pidfd->get(), SIGKILL, nullptr, 0)
                                   : kill(process.pid, SIGKILL);
  if (failed == 0) return Shot::kHit;
  return errno == EPERM ? Shot::kDenied : Shot::kGone;
}

// Waits until all have ended or the deadline has passed.
void AwaitEnds(const std::vector<Fd>& pidfds, absl::Time deadline) {
  std::vector<pollfd> polled;
  // A kernel without pidfds gives no event for the end of another process's
  // child.
  if (pidfds.empty()) poll(nullptr, 0, 2);
  for (const Fd& fd : pidfds) polled.push_back({fd.get(), POLLIN, 0});
  while (!polled.empty()) {
    const absl::Duration left = deadline - MonotonicNow();
    if (left <= absl::ZeroDuration()) return;
    const int ms = static_cast<int>(absl::ToInt64Milliseconds(
                       std::min(left, absl::Seconds(60)))) +
                   1;
    if (poll(polled.data(), polled.size(), ms) < 0 && errno != EINTR) return;
    std::erase_if(polled, [](const pollfd& p) { return p.revents != 0; });
  }
}

}  // namespace

uint64_t StartTicks(pid_t pid) {
  const auto stat = ReadProcStat(pid);
  return stat ? stat->start_ticks : 0;
}

std::vector<FoundProcess> FindMatching(const ProcessMatcher& matcher) {
  const std::map<pid_t, Stat> all = AllProcesses(matcher);
  std::set<pid_t> in_cgroup;
  for (const std::string& cgroup : matcher.cgroups) {
    for (const pid_t pid : CgroupMembers(cgroup)) in_cgroup.insert(pid);
  }
  return Finder(matcher, all, std::move(in_cgroup)).Find();
}

Look LookFor(const std::vector<ProcessMatcher>& matchers) {
  const std::map<pid_t, Stat> all = AllProcesses({});
  Look look;
  for (const ProcessMatcher& matcher : matchers)
    look.found.push_back(Finder(matcher, all, {}).Find());
  for (const auto& [pid, stat] : all) {
    if (Reparented(stat) && !stat.Alive()) look.ended_children.push_back(pid);
  }
  return look;
}

SweepResult Sweep(const ProcessMatcher& matcher, absl::Duration patience) {
  SweepResult result;
  // Set by the first kill. A search may take longer than `patience`.
  std::optional<absl::Time> deadline;
  std::map<pid_t, FoundProcess> denied;
  for (const std::string& cgroup : matcher.cgroups) KillCgroup(cgroup);
  for (int quiet = 0; quiet < kQuietScans;) {
    std::vector<FoundProcess> found = FindMatching(matcher);
    std::erase_if(found, [&](const FoundProcess& process) {
      const auto at = denied.find(process.pid);
      return at != denied.end() && at->second.Is(process);
    });
    if (found.empty()) {
      ++quiet;
      continue;
    }
    quiet = 0;
    if (!deadline) {
      deadline = MonotonicNow() + patience;
    } else if (MonotonicNow() >= *deadline) {
      result.left = std::move(found);
      break;
    }
    // All are killed before any end is awaited, so that fewer can still fork.
    std::vector<Fd> pidfds;
    for (const FoundProcess& process : found) {
      Fd pidfd;
      const Shot shot = Kill(process, &pidfd);
      if (shot == Shot::kHit) ++result.ended;
      if (shot == Shot::kDenied) denied[process.pid] = process;
      if (shot != Shot::kHit || !pidfd.open()) continue;
      if (pidfds.size() < kAwaitedMax) pidfds.push_back(std::move(pidfd));
    }
    AwaitEnds(pidfds, *deadline);
  }
  for (const auto& [pid, process] : denied) result.denied.push_back(process);
  return result;
}

}  // namespace rollcall
