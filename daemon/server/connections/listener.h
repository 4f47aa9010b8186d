// Listener: accepts TCP connections and hands those that have begun a handshake
// on to gRPC. Every other connection takes one descriptor for a limited time
// and never reaches gRPC.
//
// It does no handshake itself; it peeks at the first bytes and leaves them
// unread. The HandshakeLimiter decides which connections may wait and which one
// is next. The listener has one thread for all of this.
//
// Thread rule: Open, Start, Stop and the destructor from the owner's thread,
// the rest from any. HandOn, Displace and Agents are called from the listener's
// thread, with no lock held, and must not call Stop.
#ifndef ROLLCALL_DAEMON_SERVER_CONNECTIONS_LISTENER_H_
#define ROLLCALL_DAEMON_SERVER_CONNECTIONS_LISTENER_H_

#include <sys/epoll.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/mutex.h"
#include "daemon/core/handshake_limiter.h"
#include "daemon/core/limits.h"
#include "daemon/server/connections/listening_socket.h"

namespace rollcall {

class Listener {
 public:
  struct Options {
    // ADDRESS:PORT, as for ListenOn.
    std::string listen = "[::]:0";
    // True: expects HTTP/2 without TLS. False: expects TLS.
    bool plain = false;
    ConnectionLimits limits;
  };
  // Takes ownership of `fd`, which is connected, non-blocking and has
  // TCP_NODELAY; nothing was read from it yet. `listener_fd` is the socket that
  // accepted it. `id` counts as an unauthenticated connection until Release is
  // called for it.
  using HandOn =
      std::function<void(int fd, int listener_fd, HandshakeLimiter::Id id)>;
  // The receiver has to disconnect this connection, because another connection
  // needs its place. Release may follow.
  using Displace = std::function<void(HandshakeLimiter::Id id)>;
  // Returns the number of agents' connections.
  using Agents = std::function<size_t()>;

  // Listens; until Start the kernel queues connections. Raises the process's
  // soft limit of open files to the hard limit, and reduces the
  // ConnectionLimits so that they fit it (FittedTo).
  //
  // INVALID_ARGUMENT, UNAVAILABLE: as ListenOn.
  static absl::StatusOr<std::unique_ptr<Listener>> Open(Options options);
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  // As Stop.
  ~Listener();

  // Begins to accept. Call once.
  void Start(
      HandOn hand_on, Displace displace = [](HandshakeLimiter::Id) {},
      Agents agents = [] { return size_t{0}; });
  // To be called when a connection that was handed on has authenticated or is
  // closed. Any thread, also from within HandOn; after Stop it does nothing.
  void Release(HandshakeLimiter::Id id);
  // Like HandshakeLimiter::Introduce; thread rule as Release.
  void Introduce(HandshakeLimiter::Id id);
  // Like HandshakeLimiter::Charge; thread rule as Release.
  void Charge(const SourceAddress& from, uint64_t bytes);
  // Closes the sockets and all waiting connections. When it returns, the port
  // is free and nothing more is handed on. The second call does nothing.
  void Stop();

  // The limits after FittedTo.
  const ConnectionLimits& limits() const { return limits_; }
  int port() const { return port_; }
  // The addresses on which it listens or listened: "127.0.0.1:29400",
  // "[::]:29400".
  const std::vector<std::string>& sockets() const { return addresses_; }
  // The counts. They include a connection before it is handed on.
  HandshakeCounts counts() const;

 private:
  struct Connection {
    int fd;
    int listener_fd;
  };

  Listener(bool plain, const ConnectionLimits& limits,
           std::vector<ListeningSocket> sockets);
  absl::Status OpenPoller();
  void Run();
  int TimeoutMs() const;
  void Accept(const ListeningSocket& socket);
  void Admit(const ListeningSocket& socket, int fd, const SourceAddress& from);
  // Limits the waiting connections so that the agents' connections have enough
  // descriptors.
  void LimitWaiting();
  bool WinDescriptor();
  void PauseAccepting();
  void ResumeAccepting();
  void Watch(uint32_t events);
  void Look(HandshakeLimiter::Id id, uint32_t events);
  void Leave(HandshakeLimiter::Id id, Fate why);
  void CarryOut(const HandshakeLimiter::Verdicts& verdicts);
  void WakeUp();
  // Processes what was passed to Introduce, Release and Charge. Returns false
  // if Stop was called.
  bool TakeWake();
  void PublishCounts();

  const bool plain_;
  const ConnectionLimits limits_;
  int port_ = 0;
  std::vector<std::string> addresses_;
  HandOn hand_on_;
  Displace displace_;
  Agents agents_;
  int epoll_ = -1;
  int wake_ = -1;
  std::thread thread_;

  // Used only by the listener's thread while that runs.
  std::vector<ListeningSocket> sockets_;
  HandshakeLimiter limiter_;
  HandshakeLimiter::Id newest_ = 0;
  std::unordered_map<HandshakeLimiter::Id, Connection> waiting_;
  absl::Time paused_until_ = absl::InfiniteFuture();

  mutable Mutex mutex_;
  HandshakeCounts counts_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Each connection that was handed on is in the first at most once, and in the
  // second at most unauthenticated_calls_max times.
  std::vector<HandshakeLimiter::Id> released_ ABSL_GUARDED_BY(mutex_);
  std::vector<HandshakeLimiter::Id> introduced_ ABSL_GUARDED_BY(mutex_);
  // At most one entry for each connection that gRPC has served.
  std::vector<std::pair<SourceAddress, uint64_t>> charged_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_CONNECTIONS_LISTENER_H_
