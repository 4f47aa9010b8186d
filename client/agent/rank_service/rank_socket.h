// RankSocket: the Unix socket on which an agent's ranks connect. It accepts
// connections, cuts what they send into messages, and sends what they are told.
// It knows nothing of worlds: what a message means is for whom `heard` is.
//
// Bounded: the number of connections; the bytes and messages that wait to be
// sent on one; the time until its first message; what is held of one that is
// not whole yet. A connection beyond a bound is ended with the reason. A rank
// that is stopped (SIGSTOP) reads and sends nothing and is no failure: after
// its first message, silence ends no connection until too much waits to be
// sent.
//
// Thread rule: Listen and the destructor on one thread; RankConnection's
// functions on any. A thread of its own reads and writes, and calls `heard` and
// `gone`, without a lock held.
#ifndef ROLLCALL_CLIENT_AGENT_RANK_SERVICE_RANK_SOCKET_H_
#define ROLLCALL_CLIENT_AGENT_RANK_SERVICE_RANK_SOCKET_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/rank/frames.h"
#include "daemon/base/fd.h"
#include "daemon/base/mutex.h"
#include "daemon/base/poller.h"
#include "daemon/base/system_user.h"
#include "daemon/core/limits.h"
#include "rollcall/v1/rank.pb.h"

namespace rollcall {

struct RankSocketLimits {
  // Includes those that have sent no hello yet, and those of ended ranks.
  size_t connections_max = size_t{4} * Limits::ranks_per_node_max;
  // From accept to the first message.
  absl::Duration hello_timeout = Limits().hello_timeout;
  // What waits to be sent on one connection, beyond what the kernel holds. The
  // answers of all keys that a rank may wait for come at once.
  size_t replies_queued_max =
      64 + Limits::exchanges_open_max + Limits::store_asked_per_rank_max;
  // A world or an exchange, and the answers of all operations that a rank may
  // have under way.
  size_t bytes_queued_max =
      2 * kAgentReplyBytesMax + Limits::store_asked_per_rank_max *
                                    (Limits::store_value_bytes_max + (1 << 10));
  // How long a connection that was ended may take to read why.
  absl::Duration end_patience = absl::Seconds(1);
};

// What other threads have for the socket's thread: which connections have
// something to send. Shared, since a connection may outlive the socket.
class RankSocketBell {
 public:
  RankSocketBell();
  void Ring(uint64_t token);
  // Readable once it was rung.
  int fd() const { return fd_.get(); }
  std::vector<uint64_t> Take();

 private:
  const Fd fd_;
  Mutex mutex_;
  std::vector<uint64_t> rung_ ABSL_GUARDED_BY(mutex_);
};

class RankConnection {
 public:
  RankConnection(Fd fd, uint64_t token, const RankSocketLimits& limits,
                 std::shared_ptr<RankSocketBell> bell);

  // Queues the message; never blocks. Does nothing once the connection is
  // ended. A connection with too much in its queue is ended.
  void Send(const v1::AgentReply& reply);
  // Sends what is queued, then a RankEnd with this status, and closes the
  // connection; `gone` follows. Nothing more is heard on it. Only the first
  // call counts.
  void End(const absl::Status& status);
  // Why the agent ended it; OK: it did not.
  absl::Status ended() const;

 private:
  friend class RankSocket;

  void Queue(std::string frame, bool last)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndLocked(const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool TakeFrame(std::string& frame);

  const uint64_t token_;
  const RankSocketLimits limits_;
  const std::shared_ptr<RankSocketBell> bell_;

  // Of the socket's thread alone.
  Fd fd_;
  FrameReader reader_{kRankMessageBytesMax};
  std::string outgoing_;  // The frame that is being written.
  size_t written_ = 0;    // Of outgoing_.
  bool reads_ = true;     // What the poller reports of it.
  bool writes_ = false;
  // When it is ended, or closed, if nothing happens until then.
  absl::Time deadline_ = absl::InfiniteFuture();

  mutable Mutex mutex_;
  std::deque<std::string> queue_ ABSL_GUARDED_BY(mutex_);
  // Sent once queue_ is empty: answers of the store, so that an abort need not
  // wait for them.
  std::deque<std::string> store_queue_ ABSL_GUARDED_BY(mutex_);
  size_t queued_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<absl::Status> ended_ ABSL_GUARDED_BY(mutex_);
};

using RankConnectionRef = std::shared_ptr<RankConnection>;

class RankSocket {
 public:
  struct Events {
    // A connection came; nothing was heard on it yet.
    std::function<void(const RankConnectionRef&)> came;
    // A message came. A status that is not OK ends the connection with it.
    std::function<absl::Status(RankConnection&, const v1::RankMessage&)> heard;
    // The connection is closed, by the rank or after its End.
    std::function<void(RankConnection&)> gone;
  };

  // Listens on the Unix socket `path`, in place of a socket that is there, for
  // `user`; null: this process's user. INVALID_ARGUMENT: the path is over 107
  // bytes. UNAVAILABLE: listening failed.
  static absl::StatusOr<std::unique_ptr<RankSocket>> Listen(
      const std::string& path, Events events, const SystemUser* user = nullptr,
      const RankSocketLimits& limits = RankSocketLimits());

  // Ends all connections with UNAVAILABLE, without waiting for what they have
  // not read, and removes the socket. `gone` is called for each before this
  // returns.
  ~RankSocket();
  RankSocket(const RankSocket&) = delete;
  RankSocket& operator=(const RankSocket&) = delete;

 private:
  RankSocket(std::string path, Fd listener, Events events,
             const RankSocketLimits& limits);

  // All of the thread's work.
  void Run();
  void Accept();
  void Admit(Fd fd);
  // Reads once, and passes on what is whole.
  void Read(const RankConnectionRef& connection);
  // Writes what the kernel takes, and closes a connection that was ended.
  void Write(const RankConnectionRef& connection);
  void Close(const RankConnectionRef& connection);
  void Expire(absl::Time now);
  absl::Time NextDeadline() const;

  const std::string path_;
  const Events events_;
  const RankSocketLimits limits_;
  const std::shared_ptr<RankSocketBell> bell_ =
      std::make_shared<RankSocketBell>();

  // Of the thread alone.
  Fd listener_;
  Poller poller_;
  std::map<uint64_t, RankConnectionRef> connections_;
  uint64_t last_token_;
  // No descriptor was free: when to accept again.
  absl::Time accepts_again_ = absl::InfiniteFuture();
  bool stopping_ = false;

  std::thread thread_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_RANK_SERVICE_RANK_SOCKET_H_
