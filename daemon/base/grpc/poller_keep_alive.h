// PollerKeepAlive: keeps gRPC's own threads awake while no messages arrive.
//
// The threads behind gRPC's callback API (1.51) wait for events for one second.
// If none comes in that time, they sleep for 100 ms without polling, so a
// message that arrives meanwhile (for example, that a world has ended) is
// handled up to 100 ms late. A process that must react within milliseconds
// therefore gives these threads an event more often: a call on a channel
// without an address, which fails at once and sends nothing to the network.
//
// It has one thread, which makes this call twice a second. Only delays depend
// on it. Thread rule: any thread.
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
  // Waits for the call in progress.
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
