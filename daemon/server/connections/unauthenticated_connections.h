// UnauthenticatedConnections: limits connections that gRPC serves and that have
// not authenticated yet (by a token or a node credential). A connection is
// disconnected if it does not authenticate in time, sends too many bytes before
// that, or makes too many calls. gRPC itself bounds none of this: it
// receives a message of any size before it checks the size limit, it receives
// endless headers, and it accepts streams that are reset as soon as they are
// opened.
//
// The HandshakeLimiter bounds the number of these connections, because it hands
// on no more than its limits allow; `released` reports each connection that
// authenticates or is closed. Only a connection whose client has shown a valid
// credential (Introduce) may send a long Hello.
//
// A connection that has shown only a viewer's token is still watched. The bytes
// received from it over its whole life are bounded, because gRPC receives
// messages of any size from it as well. Its bytes and calls in a second are
// bounded too: gRPC may have parsed tens of thousands of streams before the
// daemon hears of the first one. The number of connections is bounded, of each
// viewer's token and of all viewers.
//
// A connection that has shown the right to attend, and no admin's token, is an
// agent's connection and is still watched too. It may have one stream at a
// time, and few calls in its life. The bytes received between two complete
// messages of its stream are bounded. If the connection has made a second call,
// the bytes received since the last message before that call are bounded
// instead. A connection without a stream for `agent_grace` is disconnected;
// that happens when its node was evicted, its token was revoked, or its stream
// was refused.
//
// The number of agents' connections is bounded too, because clients with a
// worker's token may open any number. When the bound is reached, AgentPlaces
// selects one to disconnect.
//
// gRPC names a connection by the peer's address and port alone. So of two
// connections with the same name, made to two addresses of this machine, the
// second one is refused: calls of one would be counted for the other.
//
// gRPC does not expose its connections, so each socket is watched here by the
// number of gRPC's descriptor. A second descriptor keeps the socket open, so
// that its end is always noticed. An agent's connection has no second
// descriptor. The socket's cookie shows whether the number still belongs to the
// socket. If the end of an agent's connection was missed, the connection is
// removed like one without a stream. A connection whose peer has closed its
// side is reset after `end_grace` if gRPC has not closed it. One thread sleeps
// until a socket or a deadline wakes it.
//
// Thread rule: all functions from any thread; Stop and the destructor from the
// owner's thread, after all other calls have returned.
#ifndef ROLLCALL_DAEMON_SERVER_CONNECTIONS_UNAUTHENTICATED_CONNECTIONS_H_
#define ROLLCALL_DAEMON_SERVER_CONNECTIONS_UNAUTHENTICATED_CONNECTIONS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/mutex.h"
#include "daemon/core/handshake_limiter.h"
#include "daemon/core/limits.h"
#include "daemon/core/rate_bucket.h"
#include "daemon/server/connections/agent_places.h"
#include "daemon/server/connections/served_socket.h"
#include "daemon/server/connections/viewer_places.h"
#include "daemon/server/loop/streams/agent_stream.h"

namespace rollcall {

// The key of a connection: the `ADDRESS:PORT` that gRPC's name of the peer
// contains; empty: the name contains none.
std::string PeerKey(std::string_view peer);

class UnauthenticatedConnections {
 public:
  // The listener's number of a connection.
  using ConnectionId = uint64_t;

  // `released`: called once for each connection that arrived, when it has
  // authenticated or is closed. `charged`: called at the end of a connection
  // with the bytes that it has sent in vain (see
  // ConnectionLimits::bytes_in_vain_per_handshake), before `released`. Both
  // from any thread, without a lock held. UNAVAILABLE: no descriptor or thread
  // is left.
  static absl::StatusOr<std::unique_ptr<UnauthenticatedConnections>> Make(
      const ConnectionLimits& limits,
      std::function<void(ConnectionId)> released,
      std::function<void(const SourceAddress&, uint64_t bytes)> charged);
  ~UnauthenticatedConnections();
  UnauthenticatedConnections(const UnauthenticatedConnections&) = delete;
  UnauthenticatedConnections& operator=(const UnauthenticatedConnections&) =
      delete;

  // `fd` is a connected socket that gRPC is about to serve; the caller keeps
  // its ownership. Returns false if gRPC must not serve it: the socket cannot
  // be watched, because it is closed or no descriptor is left; or another
  // connection of the same peer has the same port.
  bool Arrive(int fd, ConnectionId id);
  // A call of this connection has begun.
  void Called(const std::string& key);
  // The connection's client has shown a valid credential, and its Hello
  // follows. It may send more; its bytes count with those of agents' messages.
  // Returns the connection's id; nullopt: it is closed or has authenticated.
  std::optional<ConnectionId> Introduce(const std::string& key);
  // The connection has shown the right to attend. The result may outlive this
  // object. UNAVAILABLE: the connection has a stream already, or there are
  // agents_max connections and none gives way to this one.
  absl::StatusOr<AgentStream> Attend(const std::string& key,
                                     const AgentRight& right);
  // The connection has authenticated. `viewer`: the id of its token if its
  // caller is bounded as a viewer; empty: an admin's token.
  void Know(const std::string& key, const std::string& viewer = "");

  // The address of this machine to which the client connected, without port.
  // Empty: the connection is closed.
  std::string ArrivedAt(const std::string& key) const;
  // Disconnects a connection that has not authenticated.
  void Displace(ConnectionId id);

  // How many connections were disconnected here, how many ended before any call
  // without that, and how many are unauthenticated now.
  uint64_t disconnected() const;
  uint64_t hung_up() const;
  size_t size() const;
  // Number of agents' connections.
  size_t agents() const;

  // Disconnects all connections that are left at this time. gRPC's server does
  // not end before its connections do, and one whose write waits for the peer
  // does not end by itself.
  void EndAllAt(absl::Time when);
  void Stop();

 private:
  using Id = uint64_t;
  // State of an agent's connection.
  struct Agent {
    // Counts the complete messages of all its streams; shared with them.
    // `heard_before` is its value when `bytes` was last reset.
    AgentStream heard;
    uint64_t heard_before = 0;
    // Bytes received by that time.
    size_t received_before = 0;
  };
  struct Viewer {
    std::string token_id;
    RateBucket bytes;
    RateBucket calls;
  };
  struct ServedConnection {
    int fd;  // Own duplicate; -1: an agent's connection.
    ServedSocket served;
    ConnectionId connection_id;
    std::string key;
    SourceAddress network;
    // When the connection is disconnected, unless it has authenticated before.
    absl::Time until;
    // Its part of `agents_bytes_`, or what a viewer has sent.
    size_t bytes = 0;
    uint64_t calls = 0;
    // Introduce was called, and it has not authenticated.
    bool introduced = false;
    // Set: the connection has authenticated as a viewer.
    std::optional<Viewer> viewer = {};
    // The connection has authenticated as an admin, and is not limited.
    bool admin = false;
    std::optional<Agent> agent = {};
    // The peer has closed its side, and `ended_` has the connection.
    bool peer_ended = false;
  };
  // Wakes the thread, and takes reports of streams that have ended. Shared with
  // the streams, which may outlive the UnauthenticatedConnections.
  struct Wake {
    explicit Wake(int fd) : fd(fd) {}
    ~Wake();
    Wake(const Wake&) = delete;
    Wake& operator=(const Wake&) = delete;
    void Up() const;
    void Ended(Id id);

    const int fd;
    Mutex mutex;
    std::vector<Id> ended ABSL_GUARDED_BY(mutex);
  };

  UnauthenticatedConnections(
      const ConnectionLimits& limits,
      std::function<void(ConnectionId)> released,
      std::function<void(const SourceAddress&, uint64_t)> charged, int epoll,
      int wake);
  void Run();
  // Calls `charged` and `released` for what Charge and Leave have collected.
  void Tell() ABSL_LOCKS_EXCLUDED(mutex_);
  int TimeoutMs() const ABSL_LOCKS_EXCLUDED(mutex_);
  void Look(Id id, uint32_t events) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Counts what a viewer has sent. Returns false if it is too much.
  bool CountViewer(ServedConnection& connection)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LookAtAgent(Id id, ServedConnection& connection)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Bytes received over an agent's connection since its last whole message; see
  // Agent. nullopt: its socket is closed.
  std::optional<size_t> BytesSinceMessage(ServedConnection& connection)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DisconnectLate(absl::Time now);
  void DisconnectAndCount(Id id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Disconnect(Id id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<AgentStream> LetAttend(const std::string& key,
                                        const AgentRight& right)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Disconnects agents, and those that introduced themselves, while too many
  // bytes of incomplete messages were received from all of them together.
  void MakeRoomForMessages() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Processes the reported ends of streams.
  void TakeEnded() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The connection is about to end: collects the bytes that it has sent in
  // vain.
  void Charge(ServedConnection& connection)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The connection no longer counts as unauthenticated.
  void Leave(Id id, ServedConnection& connection)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The connection has shown that it may attend, or an admin's token.
  void LetSendMore(Id id, ServedConnection& connection)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The connection no longer counts as a viewer's.
  void EndViewer(Id id, ServedConnection& connection)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The connection has ended.
  void Forget(Id id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Remove(Id id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ConnectionLimits limits_;
  const std::function<void(ConnectionId)> released_;
  const std::function<void(const SourceAddress&, uint64_t)> charged_;
  const int epoll_;
  const std::shared_ptr<Wake> wake_;
  std::thread thread_;

  mutable Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time end_all_at_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  Id newest_ ABSL_GUARDED_BY(mutex_) = 0;
  // Includes connections that have authenticated.
  std::unordered_map<Id, ServedConnection> connections_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<std::string, Id> by_key_ ABSL_GUARDED_BY(mutex_);
  ViewerPlaces viewers_ ABSL_GUARDED_BY(mutex_);
  AgentPlaces agents_ ABSL_GUARDED_BY(mutex_);
  size_t agents_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // Unauthenticated connections, in the order of their arrival.
  std::set<Id> waiting_ ABSL_GUARDED_BY(mutex_);
  // Connections whose peer has closed its side, by the time at which they are
  // reset; some may be gone.
  std::deque<std::pair<absl::Time, Id>> ended_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<ConnectionId, Id> by_connection_id_
      ABSL_GUARDED_BY(mutex_);
  uint64_t disconnected_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t hung_up_ ABSL_GUARDED_BY(mutex_) = 0;
  // Connections that were not reported to `released` yet.
  std::vector<ConnectionId> gone_ ABSL_GUARDED_BY(mutex_);
  // What was not reported to `charged` yet.
  std::vector<std::pair<SourceAddress, uint64_t>> in_vain_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_CONNECTIONS_UNAUTHENTICATED_CONNECTIONS_H_
