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
// of an agent. Their number is bounded too, since a worker's token opens as
// many as its holder likes: at the bound, the oldest without an agent's stream
// is disconnected.
//
// gRPC tells nobody of its connections, so each guest's socket is watched by a
// second descriptor, which is given back as soon as he is known or gone. Of an
// agent's connection only the number of gRPC's descriptor is kept, and the
// socket's cookie, which tells whether the number is still that socket's. One
// thread of its own, which sleeps until somebody's time is over.
//
// Thread rule: all functions from any thread; Stop and the destructor from the
// owner's, when nobody calls the others any more.
#ifndef ROLLCALL_DAEMON_SERVER_GUESTS_H_
#define ROLLCALL_DAEMON_SERVER_GUESTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/core/doorkeeper.h"
#include "daemon/core/limits.h"
#include "daemon/server/mutex.h"

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
  // The connection has shown the right to attend. What is returned stands for
  // one stream of it, until the last copy is gone: a connection with one is not
  // disconnected. Null: as many agents are connected as there can be.
  std::shared_ptr<const void> Attend(const std::string& key);
  // The connection has authenticated. `viewer`: the id of the token that it has
  // shown, where that is a viewer's; empty: it may do more than look.
  void Know(const std::string& key, const std::string& viewer = "");
  // Disconnects one that has not authenticated.
  void Displace(DoorId id);

  // How many were disconnected, how many went by themselves before any call,
  // and how many are unauthenticated now.
  uint64_t shown_out() const;
  uint64_t hung_up() const;
  size_t size() const;

  void Stop();

 private:
  using Id = uint64_t;
  struct Guest {
    int fd;
    int served_fd;  // gRPC's.
    DoorId door_id;
    std::string key;
    DoorAddress network;
    absl::Time until;
    size_t bytes = 0;
    int calls = 0;
    // Not empty: it has authenticated as a viewer, by this token.
    std::string viewer;
  };
  struct Network {
    std::set<Id> guests;
    size_t bytes = 0;
  };
  // A connection of an agent.
  struct Agent {
    Id id;
    int served_fd;
    uint64_t cookie;
    // With one copy for each stream.
    std::shared_ptr<const void> stream;
  };

  Guests(const DoorLimits& limits, std::function<void(DoorId)> released,
         int epoll, int wake);
  void Run();
  // Calls `released` for what Leave has gathered. Without the lock.
  void Tell() ABSL_LOCKS_EXCLUDED(mutex_);
  int TimeoutMs() const ABSL_LOCKS_EXCLUDED(mutex_);
  void Look(Id id, uint32_t events) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ShowOutLate(absl::Time now);
  void ShowOut(Id id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Count(Guest& guest, size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Where they have sent too much together.
  void MakeRoom() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Forgets those that have gone, or disconnects the oldest one without a
  // stream. False: all have streams.
  bool DisconnectIdleAgent() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Where there are too many viewers: the newest of the token that has most.
  void MakeRoomForViewers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // It no longer counts as unauthenticated.
  void Leave(Id id, Guest& guest) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(Id id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const DoorLimits limits_;
  const std::function<void(DoorId)> released_;
  const int epoll_;
  const int wake_;
  std::thread thread_;

  mutable Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Id newest_ ABSL_GUARDED_BY(mutex_) = 0;
  // Those that have authenticated as viewers too.
  std::unordered_map<Id, Guest> guests_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<std::string, Id> by_key_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::set<Id>> viewers_ ABSL_GUARDED_BY(mutex_);
  size_t viewing_ ABSL_GUARDED_BY(mutex_) = 0;  // Of all viewers' tokens.
  // By key; one that has gone stays until its key or its place is needed.
  std::unordered_map<std::string, Agent> agents_ ABSL_GUARDED_BY(mutex_);
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

#endif  // ROLLCALL_DAEMON_SERVER_GUESTS_H_
