#include "client/agent/processes/guard.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/agent/hosts/edit_file.h"
#include "client/agent/hosts/hosts_file.h"
#include "client/agent/processes/process_tree/cgroup.h"
#include "client/agent/processes/process_tree/left_processes.h"
#include "daemon/base/clock.h"
#include "daemon/base/files/await_ready.h"

namespace rollcall {
namespace {

// The agent never writes a longer line.
constexpr size_t kCommandBytesMax = 16 << 10;
constexpr size_t kChargesMax = 1024;
constexpr int kGuardFdsMax = 4096;
// A process stuck in the kernel may need this long to die of SIGKILL.
constexpr absl::Duration kPatience = absl::Minutes(1);

std::string SessionLine(const RankSession& session) {
  return absl::StrCat("session ", session.id, " ", session.start_ticks, "\n");
}

std::string CgroupLine(const std::string& folder) {
  return absl::StrCat("cgroup ", folder, "\n");
}

std::string ProcessText(const FoundProcess& process) {
  return absl::StrCat(process.pid, " ", process.start_ticks, "\n");
}

bool Contains(const std::vector<FoundProcess>& processes,
              const FoundProcess& process) {
  return std::any_of(
      processes.begin(), processes.end(),
      [&](const FoundProcess& known) { return known.Is(process); });
}

// Parses "PID START"; the pid must be above 1.
bool ParseNumbers(absl::string_view text, pid_t* number, uint64_t* start) {
  const std::vector<absl::string_view> numbers = absl::StrSplit(text, ' ');
  return numbers.size() == 2 && absl::SimpleAtoi(numbers[0], number) &&
         *number > 1 && absl::SimpleAtoi(numbers[1], start);
}

// The run folder, which contains the socket that the marker names.
std::string FolderOf(const std::string& marker) {
  const std::string socket = marker.substr(marker.find('=') + 1);
  return socket.substr(0, socket.rfind('/'));
}

// The lines about the hosts file. Empty: there is nothing to send, or the path
// does not fit in a line.
std::string HostsLines(const HostsCharge& hosts) {
  if (hosts.path.empty() || absl::StrContains(hosts.path, '\n')) return "";
  return absl::StrCat("owner ", FormatHostsOwner(hosts.owner), "\nhosts ",
                      hosts.path, "\n");
}

// The agent's environment without ROLLCALL_*. The pointers are those of
// environ.
std::vector<char*> GuardEnvironment() {
  std::vector<char*> entries;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    if (!absl::StartsWith(*entry, "ROLLCALL_")) entries.push_back(*entry);
  }
  entries.push_back(nullptr);
  return entries;
}

// Returns 0 or an errno.
int Spawn(const std::string& self, int stdin_fd, pid_t* pid) {
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_t files;
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_init(&files);
  // Signals are blocked from the start. Otherwise a signal that arrives before
  // the guard ignores it would end the guard, and the ranks would have no
  // guard.
  sigset_t all;
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &all);
  posix_spawnattr_setsigdefault(&attributes, &all);
  // The guard gets its own session, so that signals from the agent's terminal
  // do not reach it.
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID |
                                            POSIX_SPAWN_SETSIGMASK |
                                            POSIX_SPAWN_SETSIGDEF);
  posix_spawn_file_actions_adddup2(&files, stdin_fd, 0);
  // Does not inherit the agent's stdout and stderr, because their readers wait
  // for end of file.
  posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
  char name[] = "rollcall";
  char command[] = "guard";
  char* const argv[] = {name, command, nullptr};
  const int error = posix_spawn(pid, self.c_str(), &files, &attributes, argv,
                                GuardEnvironment().data());
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  return error;
}

// Removes the agent's entries as an agent does at its end: a block is removed
// with its last living owner. Errors are not reported; the next rollcall
// process that edits the file tries again.
void RestoreHosts(const HostsCharge& hosts) {
  if (hosts.path.empty()) return;
  EditFileOptions options;
  options.lock_timeout = kPatience;
  std::vector<std::string> unheard;
  (void)HostsFile(hosts.path, options).RemoveOwner(hosts.owner, &unheard);
}

// Returns false with errno if the peer has closed the socket or the socket is
// full.
bool SendAll(int fd, const std::string& text) {
  size_t sent = 0;
  while (sent < text.size()) {
    const ssize_t n = send(fd, text.data() + sent, text.size() - sent,
                           MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    sent += static_cast<size_t>(n);
  }
  return true;
}

}  // namespace

Guard::Guard(std::string self, std::string marker, HostsCharge hosts)
    : self_(std::move(self)), hosts_(std::move(hosts)) {
  matcher_.markers.push_back(std::move(marker));
}

Guard::~Guard() {
  if (!running()) return;
  Tell("done\n");
  shutdown(line_.get(), SHUT_WR);
  // The guard closes its end of the socket when it ends. A stopped guard does
  // not end, so the wait is limited.
  AwaitReady(line_.get(), POLLIN, MonotonicNow() + absl::Seconds(1));
  End();
}

absl::Status Guard::Start() {
  End();
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::UnavailableError(absl::StrCat(
        "cannot make the socket to the guard, which ends the ranks "
        "if the agent dies: ",
        strerror(errno), "; raise `ulimit -n` if descriptors are used up"));
  }
  Fd ours(ends[0]), theirs(ends[1]);
  ours.LeaveStandard();
  theirs.LeaveStandard();
  // The orders are in the socket before the guard starts, so they are complete
  // even if the agent is killed right after the spawn.
  std::string all =
      absl::StrCat("marker ", matcher_.markers[0], "\n", HostsLines(hosts_));
  for (const RankSession& session : matcher_.sessions) {
    absl::StrAppend(&all, SessionLine(session));
  }
  for (const std::string& folder : matcher_.cgroups) {
    absl::StrAppend(&all, CgroupLine(folder));
  }
  for (const FoundProcess& process : matcher_.processes) {
    absl::StrAppend(&all, "process ", ProcessText(process));
  }
  if (!SendAll(ours.get(), all)) {
    return absl::UnavailableError(
        absl::StrCat("the guard of the ranks: send: ", strerror(errno)));
  }
  pid_t pid = 0;
  const int error = Spawn(self_, theirs.get(), &pid);
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat("the guard of the ranks could not be started as \"", self_,
                     " guard\": ", strerror(error)));
  }
  pid_ = pid;
  line_ = std::move(ours);
  return absl::OkStatus();
}

void Guard::AddSession(const RankSession& session) {
  matcher_.sessions.push_back(session);
  Tell(SessionLine(session));
}

void Guard::AddCgroup(const std::string& folder) {
  matcher_.cgroups.push_back(folder);
  Tell(CgroupLine(folder));
}

void Guard::Forget(const ProcessMatcher& gone) {
  std::string all;
  for (const RankSession& session : gone.sessions) {
    absl::StrAppend(&all, "forget ", session.id, "\n");
    std::erase_if(matcher_.sessions, [&](const RankSession& known) {
      return known.id == session.id;
    });
  }
  for (const std::string& folder : gone.cgroups) {
    absl::StrAppend(&all, "forget ", folder, "\n");
    std::erase(matcher_.cgroups, folder);
  }
  Tell(all);
}

void Guard::SetProcesses(std::vector<FoundProcess> processes) {
  // Limited, because everything must fit into the socket of a guard that does
  // not read yet.
  if (processes.size() > kChargesMax) processes.resize(kChargesMax);
  std::string all;
  for (const FoundProcess& process : matcher_.processes) {
    if (Contains(processes, process)) continue;
    absl::StrAppend(&all, "ended ", ProcessText(process));
  }
  for (const FoundProcess& process : processes) {
    if (Contains(matcher_.processes, process)) continue;
    absl::StrAppend(&all, "process ", ProcessText(process));
  }
  matcher_.processes = std::move(processes);
  if (!all.empty()) Tell(all);
}

void Guard::Tell(const std::string& text) {
  if (!line_.open() || SendAll(line_.get(), text)) return;
  // The guard is dead, or was stopped for so long that its socket is full. The
  // next guard gets everything again.
  if (pid_ > 0) kill(pid_, SIGKILL);
}

void Guard::End() {
  if (!running()) return;
  // The guard is killed before its socket is closed. Otherwise it would take
  // the close for the agent's death.
  kill(pid_, SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  line_.Close();
  pid_ = 0;
}

void GuardOrders::Read(absl::string_view line) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(line, absl::MaxSplits(' ', 1));
  const absl::string_view order = words[0];
  const absl::string_view rest = words.size() > 1 ? words[1] : "";
  if (order == "done") {
    done_ = true;
  } else if (order == "marker") {
    matcher_.markers.assign(1, std::string(rest));
  } else if (order == "session") {
    RankSession session;
    if (matcher_.sessions.size() < kChargesMax &&
        ParseNumbers(rest, &session.id, &session.start_ticks)) {
      matcher_.sessions.push_back(session);
    }
  } else if (order == "process" || order == "ended") {
    FoundProcess process;
    if (!ParseNumbers(rest, &process.pid, &process.start_ticks)) return;
    if (order == "process" && matcher_.processes.size() < kChargesMax) {
      matcher_.processes.push_back(process);
    }
    if (order == "ended") {
      std::erase_if(matcher_.processes, [&](const FoundProcess& known) {
        return known.Is(process);
      });
    }
  } else if (order == "cgroup") {
    if (absl::StartsWith(rest, "/") && matcher_.cgroups.size() < kChargesMax) {
      matcher_.cgroups.emplace_back(rest);
    }
  } else if (order == "owner") {
    if (auto owner = ParseHostsOwner(rest); owner.has_value()) {
      hosts_.owner = *std::move(owner);
    }
  } else if (order == "hosts") {
    if (absl::StartsWith(rest, "/")) hosts_.path = std::string(rest);
  } else if (order == "forget") {
    pid_t id = 0;
    const bool session = absl::SimpleAtoi(rest, &id);
    std::erase_if(matcher_.sessions,
                  [&](const RankSession& s) { return session && s.id == id; });
    std::erase(matcher_.cgroups, rest);
  }
}

int GuardMain() {
  for (const int ignored : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1,
                            SIGUSR2, SIGALRM, SIGTSTP}) {
    signal(ignored, SIG_IGN);
  }
  setsid();  // Fails if the agent started the guard as a session leader.
  // Another process name, so that `killall rollcall` does not kill the guard.
  prctl(PR_SET_NAME, "rc-guard");
  if (chdir("/") != 0) return 1;
  if (syscall(SYS_close_range, 3U, ~0U, 0U) != 0) {
    for (int fd = 3; fd < kGuardFdsMax; ++fd) close(fd);
  }

  GuardOrders orders;
  std::string line;
  char piece[4096];
  while (true) {
    const ssize_t got = read(0, piece, sizeof piece);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    for (const char c : absl::string_view(piece, got)) {
      if (c == '\n') {
        orders.Read(line);
        line.clear();
      } else if (line.size() < kCommandBytesMax) {
        line += c;
      }
    }
  }
  if (orders.done()) return 0;
  const SweepResult result = Sweep(orders.matcher(), kPatience);
  for (const std::string& marker : orders.matcher().markers) {
    RecordLeft(FolderOf(marker), result);
  }
  for (const std::string& folder : orders.matcher().cgroups)
    RemoveCgroup(folder);
  // Comes last, because a rank may still need the names while it ends.
  RestoreHosts(orders.hosts());
  return 0;
}

}  // namespace rollcall
