// Listener: the daemon's front door. It accepts TCP connections and hands on
// those that have begun a handshake; all others cost a descriptor each, for a
// time, and never reach gRPC.
//
// It shakes no hands: first bytes are looked at and left where they are. Who
// may wait and whose turn it is, the Doorkeeper decides. One thread of its own
// does it all.
//
// Thread rule: Open, Start, Stop and the destructor from the owner's thread,
// the rest from any. HandOn, Displace and Agents are called from the listener's
// thread, with no lock held, and must not call Stop.
#ifndef ROLLCALL_DAEMON_SERVER_FRONT_DOOR_LISTENER_H_
#define ROLLCALL_DAEMON_SERVER_FRONT_DOOR_LISTENER_H_

#include <sys/epoll.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/mutex.h"
#include "daemon/core/doorkeeper.h"
#include "daemon/core/limits.h"
#include "daemon/server/front_door/listening_socket.h"

namespace rollcall {

class Listener {
 public:
  struct Options {
    // ADDRESS:PORT, as ListenOn takes it.
    std::string listen = "[::]:0";
    // What begins: HTTP/2 in the clear. False: TLS.
    bool plain = false;
    DoorLimits limits;
  };
  // Owns `fd` from then on: connected, non-blocking, TCP_NODELAY, nothing of it
  // read. `listener_fd` is the socket that it came by. `id` counts as an
  // unauthenticated connection until Release is called for it.
  using HandOn =
      std::function<void(int fd, int listener_fd, Doorkeeper::Id id)>;
  // Disconnect this one: another network needs its place. Release may follow.
  using Displace = std::function<void(Doorkeeper::Id id)>;
  // How many connections of agents there are.
  using Agents = std::function<size_t()>;

  // Listens; what connects is kept by the kernel until Start. Raises the
  // process's soft limit of open files to the hard one, and fits its limits to
  // it (FittedTo).
  //
  // INVALID_ARGUMENT, UNAVAILABLE: as ListenOn.
  static absl::StatusOr<std::unique_ptr<Listener>> Open(Options options);
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  // As Stop.
  ~Listener();

  // Begins to accept. Once.
  void Start(
      HandOn hand_on, Displace displace = [](Doorkeeper::Id) {},
      Agents agents = [] { return size_t{0}; });
  // A connection that was handed on has authenticated or is gone. Any thread,
  // also from within HandOn; after Stop it does nothing.
  void Release(Doorkeeper::Id id);
  // Closes the sockets and all that waits. The port is free and nothing is
  // handed on any more when it returns. The second call does nothing.
  void Stop();

  // As they were fitted to the process.
  const DoorLimits& limits() const { return limits_; }
  int port() const { return port_; }
  // What it listens on, or did: "127.0.0.1:29400", "[::]:29400".
  const std::vector<std::string>& sockets() const { return addresses_; }
  // What is handed on, and all before it, is counted already.
  DoorCounts counts() const;

 private:
  struct Connection {
    int fd;
    int listener_fd;
  };

  Listener(bool plain, const DoorLimits& limits,
           std::vector<ListeningSocket> sockets);
  absl::Status OpenPoller();
  void Run();
  int TimeoutMs() const;
  void Accept(const ListeningSocket& socket);
  void Admit(const ListeningSocket& socket, int fd, const DoorAddress& from);
  // Leaves the agents their descriptors.
  void LimitWaiting();
  bool WinDescriptor();
  void PauseAccepting();
  void ResumeAccepting();
  void Watch(uint32_t events);
  void Look(Doorkeeper::Id id, uint32_t events);
  void Leave(Doorkeeper::Id id, Fate why);
  void CarryOut(const Doorkeeper::Verdicts& verdicts);
  // What Release was called for. False: Stop was called.
  bool TakeWake();
  void PublishCounts();

  const bool plain_;
  const DoorLimits limits_;
  int port_ = 0;
  std::vector<std::string> addresses_;
  HandOn hand_on_;
  Displace displace_;
  Agents agents_;
  int epoll_ = -1;
  int wake_ = -1;
  std::thread thread_;

  // The thread's own while it runs.
  std::vector<ListeningSocket> sockets_;
  Doorkeeper door_;
  Doorkeeper::Id newest_ = 0;
  std::unordered_map<Doorkeeper::Id, Connection> waiting_;
  absl::Time paused_until_ = absl::InfiniteFuture();

  mutable Mutex mutex_;
  DoorCounts counts_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // At most guests_max: each that was handed on, once.
  std::vector<Doorkeeper::Id> released_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_FRONT_DOOR_LISTENER_H_
