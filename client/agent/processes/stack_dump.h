// Stack dumps: where the threads of a rank that makes no progress stand, for
// its log.
//
// What the kernel tells is always there (state, what it waits in, the system
// call); stacks of the program itself need a tool on this machine: py-spy for
// Python, eu-stack (elfutils) or gdb. Nothing is changed in the processes, but
// that such a tool holds them for a moment; one that does not come to its end
// is killed, and what it held goes on.
//
// Thread rule: Take from one thread; `done` comes from threads of its own and
// must only post.
#ifndef ROLLCALL_CLIENT_AGENT_PROCESSES_STACK_DUMP_H_
#define ROLLCALL_CLIENT_AGENT_PROCESSES_STACK_DUMP_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "client/agent/core/agent.h"
#include "client/agent/processes/sweep.h"
#include "daemon/base/fd.h"

namespace rollcall {

struct StackDump {
  // One of the processes is stopped, by a signal or a debugger.
  bool stopped = false;
  // Where the first one's main thread stands: a few words.
  std::string summary;
  // All of it, in lines.
  std::string text;
};

// Looks at these processes, the most telling first. Blocks for `patience` at
// most; ends at once when `quit` (a descriptor; -1: none) becomes readable.
// Never fails: what cannot be had is named in the text.
StackDump DumpStacks(const std::vector<pid_t>& pids, absl::Duration patience,
                     int quit = -1);

class StackDumps {
 public:
  using Done = std::function<void(const RankLife&, StackDump)>;

  // `patience`: for all of one rank's processes.
  StackDumps(absl::Duration patience, Done done);
  // Ends what is under way.
  ~StackDumps();

  // Begins with the processes of a rank's session, and what descends from them;
  // the first of them is `linked`, which the rank has named itself (0: none),
  // if it is one of them. Several ranks are looked at side by side.
  // Answered through `done`, always.
  void Take(const RankLife& life, const RankSession& session, pid_t linked);

 private:
  struct Look {
    std::thread thread;
    Fd ended;  // Readable at its end.
  };
  void Reap();

  const absl::Duration patience_;
  const Done done_;
  Fd quit_;
  std::list<Look> looks_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_PROCESSES_STACK_DUMP_H_
