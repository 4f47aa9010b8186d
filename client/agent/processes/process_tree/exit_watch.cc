#include "client/agent/processes/process_tree/exit_watch.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>
#include <thread>

namespace rollcall {
namespace {

// Another part of the process reaped the child. Its exit status is unknown and
// must not count as success.
constexpr ExitStatus kReapedElsewhere{255, 0};

ExitStatus StatusOf(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) return {info.si_status, 0};
  return {0, info.si_status};
}

bool AwaitExit(pid_t pid, int more_flags, siginfo_t* info) {
  while (true) {
    *info = {};
    if (waitid(P_PID, pid, info, WEXITED | more_flags) == 0) return true;
    if (errno != EINTR) return false;
  }
}

void TellExit(pid_t pid, std::shared_ptr<Fd> told) {
  siginfo_t info;
  AwaitExit(pid, WNOWAIT, &info);
  const uint64_t one = 1;
  (void)!write(told->get(), &one, sizeof one);
}

}  // namespace

ExitWatch::ExitWatch(pid_t pid, Means means) {
  if (means == Means::kPidfd) {
    fd_ = Fd(syscall(SYS_pidfd_open, pid, 0));
    if (fd_.open()) return;
  }
  fd_ = Fd(eventfd(0, EFD_CLOEXEC));
  if (!fd_.open()) return;
  // The thread gets a duplicate, because it outlives this object if the child
  // does.
  auto told = std::make_shared<Fd>(fcntl(fd_.get(), F_DUPFD_CLOEXEC, 3));
  try {
    if (told->open()) std::thread(TellExit, pid, told).detach();
  } catch (const std::system_error&) {
    told->Close();
  }
  if (!told->open()) fd_.Close();
}

ExitStatus PeekExit(pid_t pid) {
  siginfo_t info;
  if (!AwaitExit(pid, WNOWAIT, &info)) return kReapedElsewhere;
  return StatusOf(info);
}

std::optional<ExitStatus> TryPeekExit(pid_t pid) {
  siginfo_t info;
  if (!AwaitExit(pid, WNOWAIT | WNOHANG, &info)) return kReapedElsewhere;
  if (info.si_pid == 0) return std::nullopt;
  return StatusOf(info);
}

uint64_t PeakBytesOf(pid_t pid) {
  siginfo_t info;
  struct rusage usage {};
  // The C library's waitid does not pass the kernel's last parameter on.
  if (syscall(SYS_waitid, P_PID, pid, &info, WEXITED | WNOWAIT | WNOHANG,
              &usage) != 0) {
    return 0;
  }
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

pid_t TracerOf(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string word; status >> word;) {
    pid_t tracer = 0;
    if (word == "TracerPid:" && status >> tracer) return tracer;
  }
  return 0;
}

void Reap(pid_t pid) {
  siginfo_t info;
  AwaitExit(pid, WNOHANG, &info);
}

}  // namespace rollcall
