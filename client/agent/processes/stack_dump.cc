#include "client/agent/processes/stack_dump.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "client/agent/processes/process_tree/exit_watch.h"
#include "client/agent/processes/process_tree/fork_exec.h"
#include "daemon/base/clock.h"
#include "daemon/base/processes/proc_stat.h"
#include "daemon/base/processes/system_user.h"
#include "daemon/base/text/printable.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

constexpr size_t kProcessesMax = 8;
constexpr size_t kThreadsMax = 64;
// Limits the output of one tool.
constexpr size_t kOutputBytesMax = 64 << 10;
constexpr char kPath[] =
    "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin";

// The beginning of a small file of /proc, without its newline.
std::string ReadProc(const std::string& path) {
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.open()) return "";
  char text[2048];
  const ssize_t size = read(file.get(), text, sizeof text);
  return std::string(absl::StripTrailingAsciiWhitespace(absl::string_view(
      text, static_cast<size_t>(std::max<ssize_t>(size, 0)))));
}

// The state letter in the file `stat`; '?': unknown.
char StateOf(const std::string& folder) {
  const std::optional<ProcStat> stat = ReadProcStat(folder);
  return stat ? stat->state : '?';
}

bool IsStopped(char state) { return state == 'T' || state == 't'; }

std::string InWords(char state) {
  switch (state) {
    case 'R':
      return "runs";
    case 'S':
      return "sleeps";
    case 'D':
      return "is stuck in the kernel";
    case 'T':
      return "is stopped by a signal";
    case 't':
      return "is stopped by a debugger";
    case 'Z':
      return "has ended";
    default:
      return "is gone";
  }
}

std::vector<pid_t> ThreadsOf(pid_t pid) {
  std::vector<pid_t> threads;
  DIR* const tasks = opendir(absl::StrCat("/proc/", pid, "/task").c_str());
  if (tasks == nullptr) return threads;
  while (const dirent* entry = readdir(tasks)) {
    pid_t thread = 0;
    if (absl::SimpleAtoi(entry->d_name, &thread)) threads.push_back(thread);
  }
  closedir(tasks);
  return threads;
}

// The kernel's information about one process. `state`: that of its main thread.
std::string KernelsWord(pid_t pid, char state,
                        const std::vector<pid_t>& threads) {
  std::string text = absl::StrCat(
      "process ", pid, " (", ReadProc(absl::StrCat("/proc/", pid, "/comm")),
      ") ", InWords(state), ", ", threads.size(), " threads:\n");
  for (size_t i = 0; i < std::min(threads.size(), kThreadsMax); ++i) {
    const std::string folder =
        absl::StrCat("/proc/", pid, "/task/", threads[i]);
    const std::string call = ReadProc(absl::StrCat(folder, "/syscall"));
    const std::string stack = ReadProc(absl::StrCat(folder, "/stack"));
    absl::StrAppend(&text, "  ", threads[i], " ",
                    ReadProc(absl::StrCat(folder, "/comm")), ": ",
                    std::string(1, StateOf(folder)), ", waits in ",
                    ReadProc(absl::StrCat(folder, "/wchan")), ", system call ",
                    call.substr(0, call.find(' ')), "\n");
    if (!stack.empty()) absl::StrAppend(&text, stack, "\n");
  }
  if (threads.size() > kThreadsMax) {
    absl::StrAppend(&text, "  and ", threads.size() - kThreadsMax, " more\n");
  }
  return text;
}

struct Tool {
  std::vector<std::string> argv;
};

bool IsThere(const std::string& name) {
  for (const char* folder : {"/usr/local/bin/", "/usr/bin/", "/bin/"}) {
    if (access(absl::StrCat(folder, name).c_str(), X_OK) == 0) return true;
  }
  return false;
}

// The best available tool for this process; nullopt: none is installed.
std::optional<Tool> ChooseTool(pid_t pid) {
  const std::optional<SystemUser> user = OtherUserOf(pid);
  const AsUser as(user ? &*user : nullptr);
  char exe[256];
  const ssize_t size =
      readlink(absl::StrCat("/proc/", pid, "/exe").c_str(), exe, sizeof exe);
  const absl::string_view path(exe,
                               static_cast<size_t>(std::max<ssize_t>(size, 0)));
  const std::string number = absl::StrCat(pid);
  if (absl::StrContains(path, "/python") && IsThere("py-spy")) {
    return Tool{{"py-spy", "dump", "--pid", number}};
  }
  if (IsThere("eu-stack")) return Tool{{"eu-stack", "-p", number}};
  if (IsThere("gdb")) {
    // Prints no function arguments, because they may contain secrets.
    return Tool{{"gdb", "-nx", "-batch", "-iex", "set auto-load off", "-iex",
                 "set print frame-arguments none", "-p", number, "-ex",
                 "thread apply all backtrace 32"}};
  }
  return std::nullopt;
}

// The user as which a tool traces process `pid`; nullopt: this process's user.
// Root uses the user of the process: in most containers root lacks
// CAP_SYS_PTRACE, and a tool that reads a rank's memory needs no more
// permissions than the rank. If Yama lets a user trace only descendants, only
// root can trace.
std::optional<SystemUser> TracerUser(pid_t pid) {
  const std::string scope = ReadProc("/proc/sys/kernel/yama/ptrace_scope");
  if (!scope.empty() && scope != "0") return std::nullopt;
  return OtherUserOf(pid);
}

// Returns the tool's output, and its error if it failed. Kills the tool at
// `until`.
std::string RunTool(const Tool& tool, pid_t pid, absl::Time until, int quit) {
  const std::optional<SystemUser> user = TracerUser(pid);
  // A minimal environment, because some variables make such tools fetch symbols
  // from the network.
  absl::StatusOr<ForkedRank> child =
      ForkRank(tool.argv, {absl::StrCat("PATH=", kPath), "LC_ALL=C"},
               /*cgroup_entrance=*/-1, user ? &*user : nullptr);
  if (!child.ok()) return absl::StrCat(child.status().message(), "\n");
  Release(*child);
  std::string text;
  bool cut = false;
  while (!cut && (child->out.open() || child->err.open())) {
    const int64_t left_ms = absl::ToInt64Milliseconds(until - MonotonicNow());
    // A negative descriptor is ignored.
    pollfd polled[3] = {{child->out.get(), POLLIN, 0},
                        {child->err.get(), POLLIN, 0},
                        {quit, POLLIN, 0}};
    const int ready =
        poll(polled, 3, static_cast<int>(std::max<int64_t>(left_ms, 0)));
    if (ready < 0 && errno == EINTR) continue;
    // A tool that writes without end is cut off too.
    cut = MonotonicNow() >= until || polled[2].revents != 0;
    if (cut || ready < 0) break;
    for (Fd* pipe : {&child->out, &child->err}) {
      char piece[4096];
      const ssize_t got = read(pipe->get(), piece, sizeof piece);
      if (got == 0) pipe->Close();
      if (got <= 0) continue;
      text.append(piece, std::min(static_cast<size_t>(got),
                                  kOutputBytesMax - text.size()));
    }
  }
  // The tool has closed its output or its time is over, so it is killed. Its
  // pid is also killed directly, in case it does not lead its session yet.
  kill(-child->pid, SIGKILL);
  kill(child->pid, SIGKILL);
  PeekExit(child->pid);
  if (const int error = ExecError(*child); error != 0) {
    absl::StrAppend(&text, strerror(error & ~kNotTheUser), "\n");
  }
  Reap(child->pid);
  if (cut) absl::StrAppend(&text, "(cut off: it took too long)\n");
  return text;
}

// Continues the process, which a killed tool may have left stopped. It need not
// be stopped yet: the tool's SIGSTOP may still be pending, and SIGCONT discards
// that one. A process that runs and has no handler for SIGCONT notices nothing.
void Continue(pid_t pid, char state_before) {
  if (!IsStopped(state_before)) kill(pid, SIGCONT);
}

}  // namespace

StackDump DumpStacks(const std::vector<pid_t>& pids, absl::Duration patience,
                     int quit) {
  const absl::Time until = MonotonicNow() + patience;
  StackDump dump;
  std::vector<char> states;
  // Reads all of the kernel's information first, because it is quick and
  // disturbs no process.
  for (size_t i = 0; i < std::min(pids.size(), kProcessesMax); ++i) {
    const std::string folder = absl::StrCat("/proc/", pids[i]);
    const std::optional<SystemUser> user = OtherUserOf(pids[i]);
    const AsUser as(user ? &*user : nullptr);
    const char state = StateOf(folder);
    const std::vector<pid_t> threads = ThreadsOf(pids[i]);
    states.push_back(state);
    dump.stopped = dump.stopped || IsStopped(state);
    absl::StrAppend(&dump.text, KernelsWord(pids[i], state, threads));
    if (i > 0 && !IsStopped(state)) continue;
    const std::string where = ReadProc(absl::StrCat(folder, "/wchan"));
    dump.summary = absl::StrCat(
        "process ", pids[i], " ", InWords(state),
        where.empty() || where == "0" ? "" : absl::StrCat(" in ", where));
  }
  if (pids.size() > kProcessesMax) {
    absl::StrAppend(&dump.text, "and ", pids.size() - kProcessesMax,
                    " more processes\n");
  }
  if (pids.empty()) dump.summary = dump.text = "none of its processes lives";
  bool none = false;
  for (size_t i = 0; i < states.size() && !none; ++i) {
    const std::optional<Tool> tool = ChooseTool(pids[i]);
    none = !tool.has_value();
    if (none) continue;
    absl::StrAppend(&dump.text, absl::StrJoin(tool->argv, " "), ":\n",
                    RunTool(*tool, pids[i], until, quit));
    Continue(pids[i], states[i]);
  }
  if (none) {
    absl::StrAppend(&dump.text,
                    "no stacks of the program itself: neither eu-stack nor gdb "
                    "is on this machine; install the package elfutils\n");
  }
  absl::StripTrailingAsciiWhitespace(&dump.text);
  dump.text = Printable(dump.text, kProcessesMax * 2 * kOutputBytesMax,
                        /*multiline=*/true);
  return dump;
}

StackDumps::StackDumps(absl::Duration patience,
                       const std::vector<std::string>& environment, Done done)
    : patience_(patience),
      done_(std::move(done)),
      ras_(environment),
      quit_(eventfd(0, EFD_CLOEXEC)) {}

StackDumps::~StackDumps() {
  const uint64_t one = 1;
  (void)!write(quit_.get(), &one, sizeof one);
  for (Running& look : looks_) look.thread.join();
}

// Joins the dumps that have ended.
void StackDumps::Reap() {
  for (auto at = looks_.begin(); at != looks_.end();) {
    pollfd polled{at->ended.get(), POLLIN, 0};
    if (poll(&polled, 1, 0) > 0) {
      at->thread.join();
      at = looks_.erase(at);
    } else {
      ++at;
    }
  }
}

// `linked`: see Take.
std::vector<pid_t> StackDumps::PidsOf(const RankSession& session,
                                      pid_t linked) {
  std::vector<pid_t> pids;
  if (session.id == 0) return pids;
  for (const FoundProcess& found : FindMatching({{}, {session}, {}, {}})) {
    pids.push_back(found.pid);
  }
  // The pid that the rank sent may be from another namespace, or false.
  const auto named = std::find(pids.begin(), pids.end(), linked);
  if (named != pids.end()) std::rotate(pids.begin(), named, named + 1);
  return pids;
}

StackDump StackDumps::Look(const RankSession& session, pid_t linked) {
  const absl::StatusOr<RasPlace> place =
      ras_.Find(PidsOf(session, linked), quit_.get());
  // Finds the processes again, because some may have ended since.
  StackDump dump = DumpStacks(PidsOf(session, linked), patience_, quit_.get());
  if (place.ok()) {
    dump.nccl = place->place;
    if (!place->text.empty()) {
      absl::StrAppend(&dump.summary, "; ", place->text);
      absl::StrAppend(&dump.text, "\n", place->text);
    }
  } else if (!absl::IsUnavailable(place.status())) {
    absl::StrAppend(&dump.text, "\n", place.status().message());
  }
  return dump;
}

void StackDumps::Take(const RankIncarnation& incarnation,
                      const RankSession& session, pid_t linked) {
  Reap();
  for (const Running& look : looks_) {
    if (look.incarnation == incarnation && !look.answered &&
        MonotonicNow() < look.answers_by) {
      return;
    }
  }
  if (looks_.size() >= Limits::ranks_per_node_max) {
    return done_(incarnation,
                 {false, "", "too many ranks are being looked at"});
  }
  Running& look = looks_.emplace_back();
  look.incarnation = incarnation;
  look.answers_by = MonotonicNow() + Ras::kPatience + patience_;
  look.ended = Fd(eventfd(0, EFD_CLOEXEC));
  const auto dump = [this, &look, session, linked] {
    const RankIncarnation& incarnation = look.incarnation;
    StackDump dump = Look(session, linked);
    dump.text = absl::StrCat("rollcall: local rank ", incarnation.local_rank,
                             " makes no progress; its stacks:\n", dump.text);
    look.answered = true;
    done_(incarnation, std::move(dump));
    const uint64_t one = 1;
    (void)!write(look.ended.get(), &one, sizeof one);
  };
  try {
    look.thread = std::thread(dump);
  } catch (const std::system_error& error) {
    looks_.pop_back();
    done_(incarnation,
          {false, "",
           absl::StrCat("no thread could be started: ", error.what())});
  }
}

}  // namespace rollcall
