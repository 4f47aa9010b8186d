// RankStream: the one connection between a linked rank and its agent.
//
// It keeps the agent's latest messages (world, abort, notice) and sends the
// rank's messages. Of each kind except requests (exchanges, operations on the
// store) only the latest waits to be sent, so the queue is bounded. It does not
// redial: if the connection has ended, the agent is gone, or the agent has
// ended it and sent the reason.
//
// Thread rule: any thread. An internal thread reads and writes the socket, and
// calls the functions of WhenOver and WhenAsked, so a rank whose own threads
// are stuck still answers. The internal thread blocks all signals. Call Close
// once, from another thread, before the object is destroyed.
//
// Invariant: a request that waits is in `answers_` until its caller takes the
// answer or gives up.
#ifndef ROLLCALL_CLIENT_RANK_STREAM_H_
#define ROLLCALL_CLIENT_RANK_STREAM_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/rank/frames.h"
#include "daemon/base/files/fd.h"
#include "daemon/base/mutex.h"
#include "rollcall/v1/rank.pb.h"

namespace rollcall {

class RankStream {
 public:
  // Connects to the Unix socket `path` and sends the hello. If the agent is
  // slow to accept, waits at most `timeout`. `cancel_fd`: calls CancelWorlds
  // once it is readable and no world has come; -1: none.
  RankStream(const std::string& path, const v1::RankHello& hello,
             absl::Duration timeout, int cancel_fd = -1);
  ~RankStream();
  RankStream(const RankStream&) = delete;
  RankStream& operator=(const RankStream&) = delete;

  // Blocks until there is a world of a later generation than `after`.
  // DEADLINE_EXCEEDED after `timeout`; else see Ended.
  absl::StatusOr<v1::RankWorld> AwaitWorld(uint64_t after,
                                           absl::Duration timeout);
  // Makes AwaitWorld return CANCELLED, now and in later calls. Any thread.
  void CancelWorlds();
  // See Rank.
  absl::Status AwaitAbort(uint64_t generation, absl::Duration timeout);
  absl::Status AwaitNotice(uint64_t generation);
  void WhenOver(uint64_t generation, std::function<void()> wake);

  // `where` fills in the answer to a RankWhere; see Rank.
  void WhenAsked(std::function<void(v1::RankHere&)> where);

  // Sends an exchange or an operation on the store with a new request number,
  // and blocks until it is answered. DEADLINE_EXCEEDED after `timeout`; for
  // other codes see Ended.
  absl::StatusOr<v1::AgentReply> Ask(v1::RankMessage request,
                                     absl::Duration timeout);

  // Queues the message; never blocks. Replaces an unsent message of the same
  // kind.
  void Send(v1::RankMessage message);

  // Sends the unsent messages, and ends the connection.
  void Close();

  bool lost() const { return lost_.load(std::memory_order_acquire); }
  // Once lost: why the connection ended, if the agent has sent the reason (see
  // RankEnd). UNAVAILABLE: it has sent none, or it is ending.
  absl::Status Ended() const;
  // The generation that the agent has aborted; 0: none.
  uint64_t aborted() const { return aborted_.load(std::memory_order_acquire); }
  // The generation that the last notice is for; 0: none.
  uint64_t noticed() const { return noticed_.load(std::memory_order_acquire); }
  std::optional<v1::RankNotice> notice() const;
  std::optional<v1::RankAbort> abort() const;

 private:
  // The answer to a request; nullopt: the request still waits.
  using Answer = std::optional<v1::AgentReply>;
  // The frame that is being written.
  struct Outgoing {
    std::string bytes;
    size_t written = 0;  // How many of the bytes are written.
  };
  // The agent's latest messages.
  struct Latest {
    std::optional<v1::RankWorld> world;
    std::optional<v1::RankNotice> notice;
    std::optional<v1::RankAbort> abort;
  };
  // The function to call once this generation is over; see WhenOver.
  struct WhenOverCall {
    std::function<void()> wake;
    uint64_t generation = 0;
  };

  absl::Status Connect(const std::string& path, absl::Duration timeout);
  // The internal thread; runs until the connection has ended.
  void Run();
  // The next frame to write; empty: nothing waits.
  std::string NextFrame();
  void Write();
  void CancelFirstWorld();
  // False: the connection has ended; `status` is the reason, if it is known.
  bool Read(absl::Status& status);
  bool Take(const v1::AgentReply& reply, absl::Status& status);
  // Answers a RankWhere.
  void AnswerWhere(const v1::RankWhere& asked);
  void TakeAnswer(uint64_t request, const v1::AgentReply& reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Called when the caller no longer waits for the answer.
  void Cancel(uint64_t request, bool of_store)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Finish(const absl::Status& status);
  void WakeThread();
  // The function to call now, if the generation is over; empty: none.
  std::function<void()> TakeWake() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Over(uint64_t generation) const {
    return lost() || aborted() >= generation;
  }
  // Waits for the next event, but not longer than `until`.
  void WaitUntil(absl::Time until) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Once the internal thread runs, only that thread uses these.
  Fd socket_;
  FrameReader reader_{kAgentReplyBytesMax};
  Outgoing outgoing_;
  bool half_closed_ = false;
  int cancel_fd_;  // -1: none, or it was readable.

  Fd wake_fd_;  // An eventfd: a message waits to be sent, or Close was called.
  std::thread thread_;

  std::atomic<bool> lost_{false};
  std::atomic<uint64_t> noticed_{0};
  std::atomic<uint64_t> aborted_{0};

  mutable Mutex mutex_;
  CondVar changed_;
  Latest latest_ ABSL_GUARDED_BY(mutex_);
  // `waiting_`: by kind, the message that waits to be sent. `first_`: the hello
  // and the requests, which are sent before these.
  std::map<v1::RankMessage::KindCase, v1::RankMessage> waiting_
      ABSL_GUARDED_BY(mutex_);
  std::deque<v1::RankMessage> first_ ABSL_GUARDED_BY(mutex_);
  // By request number: the requests that wait for their answer.
  std::map<uint64_t, Answer> answers_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_request_ ABSL_GUARDED_BY(mutex_) = 0;
  WhenOverCall when_over_ ABSL_GUARDED_BY(mutex_);
  std::function<void(v1::RankHere&)> where_ ABSL_GUARDED_BY(mutex_);
  bool answering_ ABSL_GUARDED_BY(mutex_) = false;
  // When Close stops waiting; unset: Close was not called.
  std::optional<absl::Time> closing_ ABSL_GUARDED_BY(mutex_);
  bool done_ ABSL_GUARDED_BY(mutex_) = false;  // The connection has ended.
  bool worlds_cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_RANK_STREAM_H_
