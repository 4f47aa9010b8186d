// ProcStat: what /proc/PID/stat reports about a process or a thread (proc(5)).
#ifndef ROLLCALL_DAEMON_BASE_PROCESSES_PROC_STAT_H_
#define ROLLCALL_DAEMON_BASE_PROCESSES_PROC_STAT_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace rollcall {

struct ProcStat {
  char state = 0;  // R, S, D, Z; T: stopped by a signal, t: by a debugger.
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  unsigned flags = 0;
  long threads = 0;
  uint64_t start_ticks = 0;  // Since boot.
  // The address at which the environment ends; 0: the process has no
  // environment yet, or this process may not know the address.
  uint64_t environment_end = 0;

  // PF_KTHREAD: a kernel thread, which never had an environment.
  bool OfTheKernel() const { return (flags & 0x00200000) != 0; }
  // A process whose main thread has ended while other threads run is reported
  // as a zombie (Z) too.
  bool Alive() const {
    if (state == 'X' || state == 'x') return false;
    return state != 'Z' || threads > 1;
  }
};

// `folder`: /proc/PID, or /proc/PID/task/TID. nullopt: there is no such
// process, or the file cannot be read.
std::optional<ProcStat> ReadProcStat(const std::string& folder);
std::optional<ProcStat> ReadProcStat(pid_t pid);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_BASE_PROCESSES_PROC_STAT_H_
