// PollerKeepAlive: keeps gRPC's own threads from dozing off while nothing
// happens.
//
// The threads behind gRPC's callback API (1.51) wait for one second; where
// nothing has come for that long they sleep for 100 ms without looking. What
// arrives meanwhile, such as the word that a world is over, is late by as much.
// So each process that is to hear within milliseconds gives them something more
// often than that: a call on a channel that leads nowhere, which fails at once
// and touches no network.
//
// It holds one thread, which does this twice a second and nothing else. Not
// needed for anything to work. Thread rule: any thread.
#ifndef ROLLCALL_DAEMON_BASE_GRPC_POLLER_KEEP_ALIVE_H_
#define ROLLCALL_DAEMON_BASE_GRPC_POLLER_KEEP_ALIVE_H_

#include <memory>
#include <thread>

#include "daemon/base/mutex.h"

namespace grpc {
class Channel;
}

namespace rollcall {

class PollerKeepAlive {
 public:
  PollerKeepAlive();
  // Waits for the call that is under way.
  ~PollerKeepAlive();
  PollerKeepAlive(const PollerKeepAlive&) = delete;
  PollerKeepAlive& operator=(const PollerKeepAlive&) = delete;

 private:
  struct Nudge;
  void Run();

  const std::shared_ptr<grpc::Channel> nowhere_;
  Mutex mutex_;
  CondVar changed_;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  bool under_way_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_BASE_GRPC_POLLER_KEEP_ALIVE_H_
