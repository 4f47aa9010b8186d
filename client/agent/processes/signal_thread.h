// SignalThread: delivers the agent's signals as events, from a thread of its
// own.
//
// SIGTERM, SIGINT, SIGUSR1 and SIGHUP ask the agent to leave; SIGUSR2 is passed
// to its ranks.
//
// Thread rule: one instance at a time. `post` is called from the instance's
// thread and must only post.
#ifndef ROLLCALL_CLIENT_AGENT_PROCESSES_SIGNAL_THREAD_H_
#define ROLLCALL_CLIENT_AGENT_PROCESSES_SIGNAL_THREAD_H_

#include <functional>
#include <thread>

#include "client/agent/core/agent_events.h"
#include "daemon/base/files/fd.h"
#include "daemon/base/processes/signal_pipe.h"

namespace rollcall {

class SignalThread {
 public:
  explicit SignalThread(std::function<void(AgentEvent)> post);
  ~SignalThread();

 private:
  void Run();

  const std::function<void(AgentEvent)> post_;
  SignalPipe signals_;
  const Fd end_;
  std::thread thread_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_PROCESSES_SIGNAL_THREAD_H_
