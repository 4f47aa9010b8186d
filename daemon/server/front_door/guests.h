// Guests: connections that gRPC serves and that have not authenticated yet (by
// a token or a node credential). A connection that does not authenticate in
// time, sends more than a Hello can be before it does, or makes too many calls
// is disconnected. gRPC itself bounds none of it: it takes in a message of any
// size before it looks at its limit, headers without an end, and streams that
// are reset as soon as they are opened.
//
// Their number is bounded by the Doorkeeper, which hands on no more than its
// limits let it; `released` tells it of each that authenticates or goes. What
// they have sent together is bounded here: beyond it the newest of the network
// that has sent most is disconnected.
//
// A connection that has shown a viewer's token and no other stays watched: the
// bytes received from it over its whole life are bounded, since gRPC takes in a
// message of any size from it as well, and so are the connections of a token
// and of all viewers.
//
// A connection that has shown the right to attend, and no admin's token, is one
// of an agent. It stays watched as well. It has one stream at a time, and few
// calls in its life. The bytes that it receives between two whole messages of
// its stream are bounded; if it has ever made a second call, the bytes since it
// became an agent's are. If it has no stream for `agent_grace`, it is
// disconnected: its node was evicted, its token revoked, or the stream refused.
//
// The number of agents' connections is bounded too, since a worker's token
// opens as many as its holder likes. At the bound a connection without a stream
// is disconnected first. If all have one: for an agent that returns (it has a
// node credential of a live job) a connection of the token with most of them is
// disconnected, and for another one only if that is another token with more
// than half of all. The newest of those that came by the token goes first, then
// the oldest of those that returned. Connections without a token id, an
// admin's, are left alone.
//
// gRPC tells nobody of its connections, so each socket is watched here too, by
// the number of gRPC's descriptor. Until the connection authenticates, a second
// descriptor keeps the socket open, so that its end is seen for certain. An
// agent's has none: the socket's cookie tells whether the number is still that
// socket's, and where its end was missed it goes as one without a stream does.
// One thread of its own, which sleeps until a socket or a deadline wakes it.
//
// Thread rule: all functions from any thread; Stop and the destructor from the
// owner's, when nobody calls the others any more.
#ifndef ROLLCALL_DAEMON_SERVER_FRONT_DOOR_GUESTS_H_
#define ROLLCALL_DAEMON_SERVER_FRONT_DOOR_GUESTS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
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
#include "daemon/core/doorkeeper.h"
#include "daemon/core/limits.h"
#include "daemon/server/loop/agent_stream.h"

namespace rollcall {

// Names a connection by its other end: `ADDRESS:PORT` of gRPC's name of a peer;
// empty: it has none.
std::string PeerKey(std::string_view peer);

class Guests {
 public:
  // The listener's number of a connection.
  using DoorId = uint64_t;

  // `released`: told once of each connection that arrived, when it has
  // authenticated or is gone; from any thread, without a lock held.
  // UNAVAILABLE: no descriptor or thread is left.
  static absl::StatusOr<std::unique_ptr<Guests>> Make(
      const DoorLimits& limits, std::function<void(DoorId)> released);
  ~Guests();
  Guests(const Guests&) = delete;
  Guests& operator=(const Guests&) = delete;

  // `fd`, a connected socket, is about to be served. It stays the caller's.
  // False: it cannot be watched, for want of a descriptor; then it should not
  // be served.
  bool Arrive(int fd, DoorId id);
  // A call of this connection has begun.
  void Called(const std::string& key);
  // The connection has shown the right to attend. What is returned may outlive
  // this. UNAVAILABLE: it has a stream already, or as many agents are connected
  // as there can be.
  absl::StatusOr<AgentStream> Attend(const std::string& key,
                                     const AgentRight& right);
  // The connection has authenticated. `viewer`: the id of the token that it has
  // shown, where that is a viewer's; empty: it may do more than look.
  void Know(const std::string& key, const std::string& viewer = "");

  // The address of this machine that the connection was made to, without port.
  // Empty: it has gone, or has authenticated as an admin.
  std::string ArrivedAt(const std::string& key) const;
  // Disconnects one that has not authenticated.
  void Displace(DoorId id);

  // How many were disconnected, how many went by themselves before any call,
  // and how many are unauthenticated now.
  uint64_t shown_out() const;
  uint64_t hung_up() const;
  size_t size() const;
  // Connections that are agents'.
  size_t agents() const;

  void Stop();

 private:
  using Id = uint64_t;
  // Of a connection that is an agent's.
  struct Agent {
    AgentRight right;
    // It has a stream.
    bool attends = false;
    // Whole messages of all its streams, shared with them; and how many of them
    // were there when `bytes` was last counted anew.
    AgentStream heard;
    uint64_t heard_before = 0;
    // What it had received by then.
    size_t received_before = 0;
  };
  struct Guest {
    int fd;         // Our own; -1: an agent's connection.
    int served_fd;  // gRPC's.
    uint64_t cookie;
    DoorId door_id;
    std::string key;
    DoorAddress network;
    // It is disconnected then, unless it has authenticated; or, an agent's,
    // unless it has a stream.
    absl::Time until;
    size_t bytes = 0;
    uint64_t calls = 0;
    // Not empty: it has authenticated as a viewer, by this token.
    std::string viewer;
    std::optional<Agent> agent;
  };
  struct Network {
    std::set<Id> guests;
    size_t bytes = 0;
  };
  // The connections that attend by one token.
  struct Share {
    std::set<Id> came;      // By the token itself.
    std::set<Id> returned;  // By a node credential.
    size_t size() const { return came.size() + returned.size(); }
  };
  // Wakes the thread, and tells it whose streams have ended. The streams share
  // it, since they may outlive this.
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

  Guests(const DoorLimits& limits, std::function<void(DoorId)> released,
         int epoll, int wake);
  void Run();
  // Calls `released` for what Leave has gathered. Without the lock.
  void Tell() ABSL_LOCKS_EXCLUDED(mutex_);
  int TimeoutMs() const ABSL_LOCKS_EXCLUDED(mutex_);
  void Look(Id id, uint32_t events) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LookAtAgent(Id id, Guest& guest) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ShowOutLate(absl::Time now);
  void ShowOut(Id id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Disconnect(Id id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Count(Guest& guest, size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Where they have sent too much together.
  void MakeRoom() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<AgentStream> LetAttend(const std::string& key,
                                        const AgentRight& right)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Disconnects an agent's connection for this one. False: there is none that
  // has to go.
  bool MakeRoomForAgent(const AgentRight& right)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Where all agents' connections have received too much together.
  void MakeRoomForMessages() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes note of the streams that have ended.
  void TakeEnded() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LeaveShare(Id id, const Agent& agent)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Where there are too many viewers: the newest of the token that has most.
  void MakeRoomForViewers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // It no longer counts as unauthenticated.
  void Leave(Id id, Guest& guest) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LeaveViewers(Id id, Guest& guest) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(Id id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const DoorLimits limits_;
  const std::function<void(DoorId)> released_;
  const int epoll_;
  const std::shared_ptr<Wake> wake_;
  std::thread thread_;

  mutable Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Id newest_ ABSL_GUARDED_BY(mutex_) = 0;
  // Those that have authenticated as viewers or agents too.
  std::unordered_map<Id, Guest> guests_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<std::string, Id> by_key_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::set<Id>> viewers_ ABSL_GUARDED_BY(mutex_);
  size_t viewing_ ABSL_GUARDED_BY(mutex_) = 0;  // Of all viewers' tokens.
  size_t agents_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t agents_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // By token id.
  std::map<std::string, Share> shares_ ABSL_GUARDED_BY(mutex_);
  // Agents' connections without a stream, by when they are disconnected.
  std::set<std::pair<absl::Time, Id>> idle_ ABSL_GUARDED_BY(mutex_);
  // Unauthenticated ones, in the order of their arrival.
  std::set<Id> waiting_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<DoorId, Id> by_door_id_ ABSL_GUARDED_BY(mutex_);
  std::map<DoorAddress, Network> networks_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t shown_out_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t hung_up_ ABSL_GUARDED_BY(mutex_) = 0;
  // Not told yet.
  std::vector<DoorId> gone_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_FRONT_DOOR_GUESTS_H_
