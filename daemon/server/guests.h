// Guests: connections that gRPC serves already and that have shown no right to
// be here yet. Who shows one (a token, a node credential) is a guest no more;
// who does not in time, or has said more by then than a Hello can be, or makes
// call after call, is shown out. gRPC itself bounds none of it: it takes in a
// message of any size before it looks at its limit, headers without an end, and
// streams that are reset as soon as they are opened.
//
// Their number and what they have said together is bounded as well: a crowd
// makes room by its own.
//
// gRPC tells nobody of its connections, so each guest's socket is watched by a
// second descriptor, which is given back as soon as he is known or gone. One
// thread of its own, which sleeps until somebody's time is over.
//
// Thread rule: all functions from any thread; Stop and the destructor from the
// owner's, when nobody calls the others any more.
#ifndef ROLLCALL_DAEMON_SERVER_GUESTS_H_
#define ROLLCALL_DAEMON_SERVER_GUESTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/core/limits.h"
#include "daemon/server/mutex.h"

namespace rollcall {

// Names a connection by its other end: `ADDRESS:PORT` of gRPC's name of a peer;
// empty: it has none.
std::string PeerKey(std::string_view peer);

class Guests {
 public:
  // UNAVAILABLE: no descriptor or thread is left.
  static absl::StatusOr<std::unique_ptr<Guests>> Make(const DoorLimits& limits);
  ~Guests();
  Guests(const Guests&) = delete;
  Guests& operator=(const Guests&) = delete;

  // `fd`, a connected socket, is about to be served. It stays the caller's.
  // False: it cannot be watched, for want of a descriptor; then it should not
  // be served.
  bool Arrive(int fd);
  // A call of this connection has begun.
  void Called(const std::string& key);
  // Whoever is at the other end has shown his right.
  void Know(const std::string& key);

  // How many were shown out, and how many are here.
  uint64_t shown_out() const;
  size_t size() const;

  void Stop();

 private:
  using Id = uint64_t;
  struct Guest {
    int fd;
    std::string key;
    std::string address;
    absl::Time until;
    size_t bytes = 0;
    int calls = 0;
  };

  Guests(const DoorLimits& limits, int epoll, int wake);
  void Run();
  int TimeoutMs() const ABSL_LOCKS_EXCLUDED(mutex_);
  void Look(Id id, uint32_t events) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ShowOutLate(absl::Time now);
  void ShowOut(Id id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Where they are too many, or have said too much together.
  void MakeRoom() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(Id id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const DoorLimits limits_;
  const int epoll_;
  const int wake_;
  std::thread thread_;

  mutable Mutex mutex_;
  Id newest_ ABSL_GUARDED_BY(mutex_) = 0;
  // In the order of arrival, and so of their time's end.
  std::map<Id, Guest> guests_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<std::string, Id> by_key_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::set<Id>> by_address_ ABSL_GUARDED_BY(mutex_);
  // What all have said.
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t shown_out_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_GUESTS_H_
