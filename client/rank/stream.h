// RankStream: the one gRPC stream between a linked rank and its agent.
//
// Holds what the agent has said last (world, abort, notice) and sends what the
// rank says; of each kind only the latest waits, so nothing here grows. It does
// not redial: a stream that breaks means that the agent is gone.
//
// Thread rule: any thread; reactions run on gRPC's threads. Close must have
// returned before the object is destroyed, and be called once.
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
#include "daemon/server/mutex.h"
#include "rollcall/v1/rank.grpc.pb.h"

namespace rollcall {

class RankStream final
    : public grpc::ClientBidiReactor<v1::RankMessage, v1::AgentReply> {
 public:
  // Opens the stream and sends the hello.
  RankStream(v1::Rank::Stub& stub, const v1::RankHello& hello);

  // Blocks for a world of a later generation than `after`. DEADLINE_EXCEEDED
  // after `timeout`; else the status that the agent, or the broken connection,
  // ended the stream with.
  absl::StatusOr<v1::RankWorld> AwaitWorld(uint64_t after,
                                           absl::Duration timeout);
  // Any thread: AwaitWorld returns CANCELLED, now and from now on.
  void CancelWorlds();
  // See Rank.
  absl::Status AwaitAbort(uint64_t generation, absl::Duration timeout);
  absl::Status AwaitNotice(uint64_t generation);
  void WhenOver(uint64_t generation, std::function<void()> wake);

  // Fills in what is answered to a RankWhere; see Rank.
  void WhenAsked(std::function<void(v1::RankHere&)> where);

  // Queues; never blocks. One of its kind that still waits is replaced.
  void Send(v1::RankMessage message);

  // Says goodbye, with what still waits, and returns when gRPC has let go.
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

  // What is to be done after the lock is let go.
  enum class Next { kNothing, kWrite, kWritesDone, kRelease };
  Next NextWrite() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Do(Next next);
  void Take(const v1::AgentReply& reply) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Answers a RankWhere.
  void Answer(const v1::RankWhere& asked);
  // Whom to wake, now that something has come.
  std::function<void()> TakeWake() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Over(uint64_t generation) const {
    return lost() || aborted() >= generation;
  }
  // Waits for the next thing to come, or `until`.
  void WaitUntil(absl::Time until) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Ended() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  grpc::ClientContext context_;
  v1::AgentReply incoming_;   // The read's under way.
  v1::RankMessage outgoing_;  // The write's under way.

  std::atomic<bool> lost_{false};
  std::atomic<uint64_t> noticed_{0};
  std::atomic<uint64_t> aborted_{0};

  mutable Mutex mutex_;
  CondVar changed_;
  std::optional<v1::RankWorld> world_ ABSL_GUARDED_BY(mutex_);
  std::optional<v1::RankNotice> notice_ ABSL_GUARDED_BY(mutex_);
  std::optional<v1::RankAbort> abort_ ABSL_GUARDED_BY(mutex_);
  // By kind: what of it waits to be sent.
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
