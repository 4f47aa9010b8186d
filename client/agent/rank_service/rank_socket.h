// RankSocket: the Unix socket to which an agent's ranks connect. It accepts
// connections, splits the received bytes into messages, and sends messages to
// the ranks. It knows nothing of worlds: `heard` handles the messages.
//
// Limits: the number of connections; on each connection the bytes and messages
// that wait to be sent, the time until the first message, and the bytes kept of
// an incomplete message. A connection that exceeds a limit is ended with the
// reason. A rank that is stopped (SIGSTOP) reads and sends nothing, and this is
// no failure: after its first message, silence does not end a connection until
// too much waits to be sent.
//
// Thread rule: Listen and the destructor on one thread; RankConnection's
// functions on any. The socket's own thread reads and writes, and calls the
// Events without a lock held.
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
#include "daemon/base/files/fd.h"
#include "daemon/base/files/poller.h"
#include "daemon/base/mutex.h"
#include "daemon/base/processes/system_user.h"
#include "daemon/core/limits.h"
#include "rollcall/v1/rank.pb.h"

namespace rollcall {

struct RankSocketLimits {
  // Includes connections that have sent no hello yet, and those of ended ranks.
  size_t connections_max = size_t{4} * Limits::ranks_per_node_max;
  // From accept to the first message.
  absl::Duration hello_timeout = Limits().hello_timeout;
  // The messages that wait to be sent on one connection, besides those in the
  // kernel. The answers for all keys that a rank may wait for come at once.
  size_t replies_queued_max =
      64 + Limits::exchanges_open_max + Limits::store_asked_per_rank_max;
  // Enough for a world or an exchange, and for the answers to all operations
  // that a rank may have in progress.
  size_t bytes_queued_max =
      2 * kAgentReplyBytesMax + Limits::store_asked_per_rank_max *
                                    (Limits::store_value_bytes_max + (1 << 10));
  // How long an ended connection may take to read the reason.
  absl::Duration end_patience = absl::Seconds(1);
};

// Tells the socket's thread which connections have something to send. Shared,
// because a connection may outlive the socket.
class RankSocketBell {
 public:
  RankSocketBell();
  void Ring(uint64_t token);
  // Readable after Ring, until Take.
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

  // Queues the message; never blocks. Has no effect after the end of the
  // connection. If too much is queued, the connection is ended.
  void Send(const v1::AgentReply& reply);
  // Sends what is queued, then, if the status is not OK, a RankEnd with it, and
  // closes the connection; `gone` is called after that. No more messages are
  // read from it. Only the first call counts.
  void End(const absl::Status& status);
  // The status with which the agent ended the connection; OK: it did not.
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

  // Used only by the socket's thread.
  Fd fd_;
  FrameReader reader_{kRankMessageBytesMax};
  std::string outgoing_;  // The frame that is being written.
  size_t written_ = 0;    // How much of outgoing_ was written.
  bool reads_ = true;     // Whether the poller reports readable.
  bool writes_ = false;
  // Without a first message or a read until then, the connection is ended or
  // closed.
  absl::Time deadline_ = absl::InfiniteFuture();

  mutable Mutex mutex_;
  std::deque<std::string> queue_ ABSL_GUARDED_BY(mutex_);
  // Answers of the store. They are sent when queue_ is empty, so that an abort
  // does not wait for them.
  std::deque<std::string> store_queue_ ABSL_GUARDED_BY(mutex_);
  size_t queued_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<absl::Status> ended_ ABSL_GUARDED_BY(mutex_);
};

using RankConnectionRef = std::shared_ptr<RankConnection>;

class RankSocket {
 public:
  struct Events {
    // There is a new connection; no message has been read from it yet.
    std::function<void(const RankConnectionRef&)> came;
    // There is a new message. If the returned status is not OK, it ends the
    // connection.
    std::function<absl::Status(RankConnection&, const v1::RankMessage&)> heard;
    // The connection is closed, by the rank or after its End.
    std::function<void(RankConnection&)> gone;
  };

  // Listens on the Unix socket `path` for ranks of `user`; null: this process's
  // user. Replaces a socket that is already there. INVALID_ARGUMENT: the path
  // has over 107 bytes. UNAVAILABLE: listening failed.
  static absl::StatusOr<std::unique_ptr<RankSocket>> Listen(
      const std::string& path, Events events, const SystemUser* user = nullptr,
      const RankSocketLimits& limits = RankSocketLimits());

  // Ends all connections with UNAVAILABLE, without waiting until they have read
  // it, and removes the socket. Calls `gone` for each of them before it
  // returns.
  ~RankSocket();
  RankSocket(const RankSocket&) = delete;
  RankSocket& operator=(const RankSocket&) = delete;

 private:
  RankSocket(std::string path, Fd listener, Events events,
             const RankSocketLimits& limits);

  // The functions of the socket's thread.
  void Run();
  void Accept();
  void Admit(Fd fd);
  // Reads once, and passes complete messages to `heard`.
  void Read(const RankConnectionRef& connection);
  // Writes as much as the kernel accepts, and closes an ended connection.
  void Write(const RankConnectionRef& connection);
  void Close(const RankConnectionRef& connection);
  void Expire(absl::Time now);
  absl::Time NextDeadline() const;

  const std::string path_;
  const Events events_;
  const RankSocketLimits limits_;
  const std::shared_ptr<RankSocketBell> bell_ =
      std::make_shared<RankSocketBell>();

  // Used only by the socket's thread.
  Fd listener_;
  Poller poller_;
  std::map<uint64_t, RankConnectionRef> connections_;
  uint64_t last_token_;
  // The time to accept again, after no descriptor was free.
  absl::Time accepts_again_ = absl::InfiniteFuture();
  bool stopping_ = false;

  std::thread thread_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_RANK_SERVICE_RANK_SOCKET_H_
