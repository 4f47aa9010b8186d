#include "client/agent/processes/process_tree/fork_exec.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "client/agent/processes/process_tree/sweep.h"
#include "daemon/security/crypto/undumpable.h"

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1U << 2)
#endif

namespace rollcall {
namespace {

// The PATH that execvp uses if PATH is not set.
constexpr absl::string_view kDefaultPath = "/bin:/usr/bin";
// Limits the descriptors that are marked one by one on a kernel before 5.11.
constexpr rlim_t kOldKernelFdsMax = 65536;

absl::string_view PathOf(const std::vector<std::string>& environment) {
  for (const std::string& entry : environment) {
    if (absl::StartsWith(entry, "PATH=")) {
      return absl::string_view(entry).substr(5);
    }
  }
  return kDefaultPath;
}

// The files to try, in order.
std::vector<std::string> Candidates(
    const std::string& name, const std::vector<std::string>& environment) {
  if (name.empty() || absl::StrContains(name, '/')) return {name};
  std::vector<std::string> files;
  for (absl::string_view folder : absl::StrSplit(PathOf(environment), ':')) {
    files.push_back(absl::StrCat(folder.empty() ? "." : folder, "/", name));
  }
  return files;
}

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) {
    pointers.push_back(const_cast<char*>(text.c_str()));
  }
  pointers.push_back(nullptr);
  return pointers;
}

// Everything that the child needs, prepared before the fork.
struct ChildPlan {
  std::vector<char*> candidates;
  std::vector<char*> argv;
  std::vector<char*> environment;
  // /bin/sh, the file and the arguments, for a script without "#!".
  std::vector<char*> shell_argv;
  int in, out, err, gate, our_gate, failure, cgroup, fds_max;
  rlimit core_limit;
  // Null: the process stays this process's user.
  const SystemUser* user;
};

// --- Between fork and exec: system calls only -------------------------------

// System calls are made by number, because the sanitizers' wrappers of library
// functions take locks that another thread may have held at the fork.

long Call(long number, long a = 0, long b = 0, long c = 0, long d = 0,
          long e = 0) {
  return syscall(number, a, b, c, d, e);
}

template <typename T>
long Address(T* pointer) {
  return reinterpret_cast<long>(pointer);
}

void ChildDefaultSignals() {
  // The kernel's struct sigaction with all bytes zero: SIG_DFL.
  const unsigned long zero[8] = {};
  for (int signal = 1; signal <= 64; ++signal) {
    Call(SYS_rt_sigaction, signal, Address(&zero), 0, 8);
  }
  Call(SYS_rt_sigprocmask, SIG_SETMASK, Address(&zero), 0, 8);
}

void ChildCloseOthers(int fds_max) {
  if (Call(SYS_close_range, 3, ~0U, CLOSE_RANGE_CLOEXEC) == 0) return;
  for (int fd = 3; fd < fds_max; ++fd) {
    Call(SYS_fcntl, fd, F_SETFD, FD_CLOEXEC);
  }
}

int ChildExec(ChildPlan& plan) {
  int error = ENOENT;
  for (char** file = plan.candidates.data(); *file != nullptr; ++file) {
    Call(SYS_execve, Address(*file), Address(plan.argv.data()),
         Address(plan.environment.data()));
    if (errno == ENOEXEC) {
      plan.shell_argv[1] = *file;
      Call(SYS_execve, Address(plan.shell_argv[0]),
           Address(plan.shell_argv.data()), Address(plan.environment.data()));
    }
    // EACCES does not end the search: another folder may have an executable
    // file.
    if (errno != ENOENT && errno != ENOTDIR) error = errno;
    if (errno != ENOENT && errno != ENOTDIR && errno != EACCES) break;
  }
  return error;
}

// Returns 0 or an errno.
int ChildBecomeUser(const SystemUser& user) {
  if (Call(SYS_setgroups, user.groups.size(), Address(user.groups.data())) !=
          0 ||
      Call(SYS_setresgid, user.gid, user.gid, user.gid) != 0 ||
      Call(SYS_setresuid, user.uid, user.uid, user.uid) != 0) {
    return errno;
  }
  // Until the exec the user must not read this copy of the agent's memory.
  Call(SYS_prctl, PR_SET_DUMPABLE, 0);
  return Call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1) == 0 ? 0 : errno;
}

[[noreturn]] void ChildFail(const ChildPlan& plan, int error) {
  Call(SYS_write, plan.failure, Address(&error), sizeof error);
  while (true) Call(SYS_exit_group, 127);
}

[[noreturn]] void ChildMain(ChildPlan& plan) {
  Call(SYS_setsid);
  ChildDefaultSignals();
  if (plan.cgroup >= 0) Call(SYS_write, plan.cgroup, Address("0"), 1);
  if (plan.user != nullptr) {
    if (const int error = ChildBecomeUser(*plan.user); error != 0) {
      ChildFail(plan, error | kNotTheUser);
    }
  }
  // Set after the change of the user, which clears it, and before the wait at
  // the gate, which does not open if the parent has ended.
  Call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
  // Restores the limit from the start, so that a rank may leave a core file if
  // its user permits it.
  Call(SYS_prlimit64, 0, RLIMIT_CORE, Address(&plan.core_limit), 0);
  // If this copy of the other end stayed open, the gate would never close.
  Call(SYS_close, plan.our_gate);
  char go = 0;
  long got = 0;
  do {
    got = Call(SYS_read, plan.gate, Address(&go), 1);
  } while (got < 0 && errno == EINTR);
  if (got != 1) Call(SYS_exit_group, 127);
  // Uses dup3, because not every architecture has dup2. None of the three is 0
  // to 2.
  Call(SYS_dup3, plan.in, 0, 0);
  Call(SYS_dup3, plan.out, 1, 0);
  Call(SYS_dup3, plan.err, 2, 0);
  ChildCloseOthers(plan.fds_max);
  ChildFail(plan, ChildExec(plan));
}

// -----------------------------------------------------------------------------

bool MakePipe(Fd* read_end, Fd* write_end) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  *read_end = Fd(ends[0]);
  *write_end = Fd(ends[1]);
  read_end->LeaveStandard();
  write_end->LeaveStandard();
  return true;
}

// The gate is a socket, so that writing to a dead child raises no SIGPIPE.
bool MakeGate(Fd* ours, Fd* theirs) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return false;
  }
  *ours = Fd(ends[0]);
  *theirs = Fd(ends[1]);
  ours->LeaveStandard();
  theirs->LeaveStandard();
  return true;
}

int FdsMax() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  return static_cast<int>(std::min(limit.rlim_cur, kOldKernelFdsMax));
}

absl::Status Exhausted(const char* what, const std::string& command) {
  return absl::ResourceExhaustedError(absl::StrCat(
      "no process could be made for \"", command, "\": ", what, ": ",
      strerror(errno), "; see ulimit -u and -n, and the container's limits"));
}

}  // namespace

absl::StatusOr<ForkedRank> ForkRank(const std::vector<std::string>& argv,
                                    const std::vector<std::string>& environment,
                                    int cgroup_entrance,
                                    const SystemUser* user) {
  if (argv.empty()) {
    return absl::InvalidArgumentError(
        "a rank needs a command and got none; give it after --");
  }
  const std::vector<std::string> candidates = Candidates(argv[0], environment);
  std::string shell = "/bin/sh";
  ChildPlan plan;
  plan.candidates = Pointers(candidates);
  plan.argv = Pointers(argv);
  plan.environment = Pointers(environment);
  plan.shell_argv = plan.argv;
  plan.shell_argv.insert(plan.shell_argv.begin(), shell.data());

  ForkedRank rank;
  Fd out, err, gate, failure;
  if (!MakePipe(&rank.out, &out) || !MakePipe(&rank.err, &err) ||
      !MakePipe(&rank.failure, &failure) || !MakeGate(&rank.gate, &gate)) {
    return Exhausted("pipe", argv[0]);
  }
  Fd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null.open()) return Exhausted("/dev/null", argv[0]);
  null.LeaveStandard();
  for (const Fd* ours : {&rank.out, &rank.err, &rank.failure}) {
    fcntl(ours->get(), F_SETFL, O_NONBLOCK);
  }
  plan.in = null.get();
  plan.out = out.get();
  plan.err = err.get();
  plan.gate = gate.get();
  plan.our_gate = rank.gate.get();
  plan.failure = failure.get();
  plan.cgroup = cgroup_entrance;
  plan.fds_max = FdsMax();
  plan.core_limit = CoreLimitAtStart();
  plan.user = user;
  if (user != nullptr) {
    // So that the rank can open them again, as /dev/stdout and /dev/stderr.
    for (const Fd* pipe : {&out, &err}) {
      (void)!fchown(pipe->get(), user->uid, user->gid);
    }
  }

  // No signal handler of this process may run in the child.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  // _Fork, because fork runs handlers that wait for other threads.
  rank.pid = _Fork();
  if (rank.pid == 0) ChildMain(plan);
  const int fork_errno = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (rank.pid < 0) {
    errno = fork_errno;
    return Exhausted("fork", argv[0]);
  }
  rank.start_ticks = StartTicks(rank.pid);
  return rank;
}

void Release(ForkedRank& rank) {
  const char go = 1;
  send(rank.gate.get(), &go, 1, MSG_NOSIGNAL);
  rank.gate.Close();
}

int ExecError(const ForkedRank& rank) {
  int error = 0;
  const ssize_t got = read(rank.failure.get(), &error, sizeof error);
  return got == sizeof error ? error : 0;
}

namespace {

// Whether this error of execve may not occur later or on another node.
bool NodeLacksSomething(int error) {
  switch (error) {
    case EAGAIN:
    case EIO:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOSPC:
      return true;
    default:
      return false;
  }
}

}  // namespace

ExecFailure ExplainExecError(int error, const std::vector<std::string>& argv,
                             const std::vector<std::string>& environment,
                             const SystemUser* user) {
  const std::string& name = argv[0];
  if ((error & kNotTheUser) != 0) {
    return {kNodeCannotStart,
            absl::StrCat("rollcall: no process can become ",
                         user != nullptr ? UserText(*user) : "the user", ": ",
                         strerror(error & ~kNotTheUser),
                         "; is the user's id known in this container's user "
                         "namespace?")};
  }
  if (error != ENOENT && error != ENOTDIR) {
    const bool lacks = NodeLacksSomething(error);
    return {lacks ? kNodeCannotStart : 126,
            absl::StrCat("rollcall: cannot execute \"", name,
                         "\": ", strerror(error),
                         error == EACCES
                             ? "; try chmod +x, or name its interpreter first"
                         : lacks ? "; see ulimit -u and -n, and the "
                                   "container's limits"
                                 : "",
                         error == EACCES && user != nullptr
                             ? absl::StrCat("; ", UserText(*user),
                                            " must be able to reach it")
                             : "")};
  }
  if (absl::StrContains(name, '/') || name.empty()) {
    return {127, absl::StrCat("rollcall: cannot execute \"", name,
                              "\": no such file, or its interpreter is "
                              "missing; the command must exist on every node")};
  }
  return {127, absl::StrCat("rollcall: cannot execute \"", name,
                            "\": not found in PATH (", PathOf(environment),
                            "); the command must exist on every node")};
}

}  // namespace rollcall
