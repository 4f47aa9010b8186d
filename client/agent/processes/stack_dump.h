// Stack dumps: the stacks of a rank that makes no progress, for its log, and
// where it stands for NCCL (client/agent/nccl/ras).
//
// The kernel always gives the state, the wait channel and the system call. For
// stacks of the program itself a tool must be on this machine: py-spy for
// Python, eu-stack (elfutils) or gdb. Such a tool stops a process for a moment
// but does not change it. If this process is root, the tool runs as the user of
// the traced process, if the kernel permits that. A tool that does not end is
// killed. A process that was not stopped before gets a SIGCONT afterwards.
//
// Thread rule: call Take from one thread. `done` is called from that thread or
// an internal one and must only post.
#ifndef ROLLCALL_CLIENT_AGENT_PROCESSES_STACK_DUMP_H_
#define ROLLCALL_CLIENT_AGENT_PROCESSES_STACK_DUMP_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "client/agent/core/agent_events.h"
#include "client/agent/nccl/ras.h"
#include "client/agent/processes/process_tree/sweep.h"
#include "daemon/base/files/fd.h"

namespace rollcall {

struct StackDump {
  // One of the processes is stopped, by a signal or a debugger.
  bool stopped = false;
  // What the main thread of the first process is doing, in a few words. If a
  // process is stopped, that of the last stopped one.
  std::string summary;
  // The whole text, in lines.
  std::string text;
  v1::NcclPlace nccl = v1::NCCL_PLACE_UNSPECIFIED;
};

// Examines these processes with the kernel's information and the tools. Put the
// most informative process first. Blocks for at most `patience`, but not after
// `quit` (a descriptor; -1: none) becomes readable. Never fails: the text tells
// what could not be read.
StackDump DumpStacks(const std::vector<pid_t>& pids, absl::Duration patience,
                     int quit = -1);

class StackDumps {
 public:
  using Done = std::function<void(const RankIncarnation&, StackDump)>;

  // `patience`: for all processes of one rank. `environment`: as for Ras.
  StackDumps(absl::Duration patience,
             const std::vector<std::string>& environment, Done done);
  // Ends running dumps.
  ~StackDumps();

  // Starts with the processes of a rank's session and their descendants. The
  // first one is `linked`, the pid that the rank gave itself (0: none), if it
  // is one of them. NCCL is asked first, since a tool stops the process. But
  // several ranks are handled at the same time, so a tool may have stopped
  // another rank's process, and NCCL then reports that one as missing. Always
  // answered through `done`. While this rank is examined already, for as
  // long as that may take, that answer is for this call too: a second tool
  // would find the process stopped by the first one.
  void Take(const RankIncarnation& incarnation, const RankSession& session,
            pid_t linked);

 private:
  struct Running {
    RankIncarnation incarnation;
    absl::Time answers_by;
    std::atomic<bool> answered = false;
    std::thread thread;
    Fd ended;  // Readable when the thread has ended.
  };
  void Reap();
  static std::vector<pid_t> PidsOf(const RankSession& session, pid_t linked);
  StackDump Look(const RankSession& session, pid_t linked);

  const absl::Duration patience_;
  const Done done_;
  Ras ras_;
  Fd quit_;
  std::list<Running> looks_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_PROCESSES_STACK_DUMP_H_
