// RankStream: the one gRPC stream between a linked rank and its agent.
//
// Keeps the agent's latest messages (world, abort, notice) and sends those of
// the rank; of each kind only the latest waits to be sent, so nothing grows. It
// does not redial: a broken stream means that the agent is gone.
//
// Thread rule: any thread; gRPC's callbacks run on gRPC's threads. Call Close
// once; it must return before the object is destroyed.
//
// Invariants:
//   1. At most one write is under way; `outgoing_` belongs to it.
//   2. The hold is released once, after the last read, with no write under way;
//      so no operation starts on a call that is done.
#ifndef ROLLCALL_CLIENT_RANK_STREAM_H_
#define ROLLCALL_CLIENT_RANK_STREAM_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/mutex.h"
#include "rollcall/v1/rank.grpc.pb.h"

namespace rollcall {

class RankStream final
    : public grpc::ClientBidiReactor<v1::RankMessage, v1::AgentReply> {
 public:
  // Opens the stream and sends the hello.
  RankStream(v1::Rank::Stub& stub, const v1::RankHello& hello);

  // Blocks until there is a world of a later generation than `after`.
  // DEADLINE_EXCEEDED after `timeout`; else the status with which the agent, or
  // the broken connection, ended the stream.
  absl::StatusOr<v1::RankWorld> AwaitWorld(uint64_t after,
                                           absl::Duration timeout);
  // AwaitWorld returns CANCELLED, now and in later calls. Any thread.
  void CancelWorlds();
  // See Rank.
  absl::Status AwaitAbort(uint64_t generation, absl::Duration timeout);
  absl::Status AwaitNotice(uint64_t generation);
  void WhenOver(uint64_t generation, std::function<void()> wake);

  // `where` fills in the answer to a RankWhere; see Rank.
  void WhenAsked(std::function<void(v1::RankHere&)> where);

  // Queues the message; never blocks. Replaces one of its kind that still
  // waits.
  void Send(v1::RankMessage message);

  // Sends what still waits, half-closes the stream, and returns when gRPC is
  // done with this object.
  void Close();

  bool lost() const { return lost_.load(std::memory_order_acquire); }
  // The generation that the agent has aborted; 0: none.
  uint64_t aborted() const { return aborted_.load(std::memory_order_acquire); }
  // The generation that the last notice is for; 0: none.
  uint64_t noticed() const { return noticed_.load(std::memory_order_acquire); }
  std::optional<v1::RankNotice> notice() const;
  std::optional<v1::RankAbort> abort() const;

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnWritesDoneDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

  // What to do after the lock is released.
  enum class Next { kNothing, kWrite, kWritesDone, kRelease };
  Next NextWrite() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Do(Next next);
  void Take(const v1::AgentReply& reply) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Answers a RankWhere.
  void Answer(const v1::RankWhere& asked);
  // The function to call now, if the generation is over; else empty.
  std::function<void()> TakeWake() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Over(uint64_t generation) const {
    return lost() || aborted() >= generation;
  }
  // Waits for the next event, or until `until`.
  void WaitUntil(absl::Time until) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Ended() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  grpc::ClientContext context_;
  v1::AgentReply incoming_;   // Of the read under way.
  v1::RankMessage outgoing_;  // Of the write under way.

  std::atomic<bool> lost_{false};
  std::atomic<uint64_t> noticed_{0};
  std::atomic<uint64_t> aborted_{0};

  mutable Mutex mutex_;
  CondVar changed_;
  std::optional<v1::RankWorld> world_ ABSL_GUARDED_BY(mutex_);
  std::optional<v1::RankNotice> notice_ ABSL_GUARDED_BY(mutex_);
  std::optional<v1::RankAbort> abort_ ABSL_GUARDED_BY(mutex_);
  // By kind: the message that waits to be sent.
  std::map<v1::RankMessage::KindCase, v1::RankMessage> waiting_
      ABSL_GUARDED_BY(mutex_);
  std::function<void()> wake_ ABSL_GUARDED_BY(mutex_);
  uint64_t wake_for_ ABSL_GUARDED_BY(mutex_) = 0;
  std::function<void(v1::RankHere&)> where_ ABSL_GUARDED_BY(mutex_);
  bool answering_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = true;  // The hello.
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool goodbye_ ABSL_GUARDED_BY(mutex_) = false;  // Writes are done.
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;    // The last read is done.
  bool released_ ABSL_GUARDED_BY(mutex_) = false;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  bool worlds_cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_RANK_STREAM_H_
