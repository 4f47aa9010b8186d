#include "client/rank/stream.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"

namespace rollcall {
namespace {

// How long Close waits for the agent to end the stream.
constexpr absl::Duration kGoodbye = absl::Milliseconds(200);

absl::Status ToAbsl(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      status.error_message());
}

}  // namespace

RankStream::RankStream(v1::Rank::Stub& stub, const v1::RankHello& hello) {
  *outgoing_.mutable_hello() = hello;
  stub.async()->Attend(&context_, this);
  AddHold();
  StartRead(&incoming_);
  StartWrite(&outgoing_);
  StartCall();
}

void RankStream::WaitUntil(absl::Time until) {
  if (until == absl::InfiniteFuture()) {
    changed_.Wait(mutex_);
  } else {
    changed_.WaitFor(mutex_, until - MonotonicNow());
  }
}

absl::Status RankStream::Ended() const {
  if (!status_.ok()) return status_;
  return absl::UnavailableError("the agent ended the stream");
}

absl::StatusOr<v1::RankWorld> RankStream::AwaitWorld(uint64_t after,
                                                     absl::Duration timeout) {
  const absl::Time until = MonotonicNow() + timeout;
  MutexLock lock(mutex_);
  while (true) {
    if (world_.has_value() && world_->world().generation() > after) {
      return *world_;
    }
    if (done_) return Ended();
    if (worlds_cancelled_) {
      return absl::CancelledError("the wait for the next world was cancelled");
    }
    if (MonotonicNow() >= until) {
      return absl::DeadlineExceededError(absl::StrCat(
          "no world from the agent within ", absl::FormatDuration(timeout)));
    }
    WaitUntil(until);
  }
}

void RankStream::CancelWorlds() {
  MutexLock lock(mutex_);
  worlds_cancelled_ = true;
  changed_.NotifyAll();
}

absl::Status RankStream::AwaitAbort(uint64_t generation,
                                    absl::Duration timeout) {
  const absl::Time until = MonotonicNow() + timeout;
  MutexLock lock(mutex_);
  while (aborted() < generation) {
    if (done_) return Ended();
    if (MonotonicNow() >= until) {
      return absl::DeadlineExceededError(
          absl::StrCat("generation ", generation, " has not ended within ",
                       absl::FormatDuration(timeout)));
    }
    WaitUntil(until);
  }
  return absl::OkStatus();
}

absl::Status RankStream::AwaitNotice(uint64_t generation) {
  MutexLock lock(mutex_);
  while (noticed() != generation) {
    if (aborted() >= generation) {
      return absl::AbortedError(
          absl::StrCat("generation ", generation, " has ended"));
    }
    if (done_) return Ended();
    WaitUntil(absl::InfiniteFuture());
  }
  return absl::OkStatus();
}

void RankStream::WhenOver(uint64_t generation, std::function<void()> wake) {
  {
    MutexLock lock(mutex_);
    wake_ = std::move(wake);
    wake_for_ = generation;
    wake = TakeWake();
  }
  if (wake) wake();
}

std::function<void()> RankStream::TakeWake() {
  if (!wake_ || !Over(wake_for_)) return nullptr;
  return std::exchange(wake_, nullptr);
}

void RankStream::WhenAsked(std::function<void(v1::RankHere&)> where) {
  MutexLock lock(mutex_);
  while (answering_) changed_.Wait(mutex_);
  where_ = std::move(where);
}

// Runs on a gRPC thread, so a rank whose own threads are stuck answers too.
void RankStream::Answer(const v1::RankWhere& asked) {
  std::function<void(v1::RankHere&)> where;
  {
    MutexLock lock(mutex_);
    where = where_;
    answering_ = true;
  }
  v1::RankMessage message;
  message.mutable_here()->set_generation(asked.generation());
  if (where) where(*message.mutable_here());
  {
    MutexLock lock(mutex_);
    answering_ = false;
    changed_.NotifyAll();
  }
  Send(std::move(message));
}

void RankStream::Send(v1::RankMessage message) {
  Next next = Next::kNothing;
  {
    MutexLock lock(mutex_);
    if (ended_ || closing_) return;
    const v1::RankMessage::KindCase kind = message.kind_case();
    waiting_[kind] = std::move(message);
    if (!writing_) next = NextWrite();
  }
  Do(next);
}

void RankStream::Close() {
  Next next = Next::kNothing;
  {
    MutexLock lock(mutex_);
    closing_ = true;
    if (!writing_) next = NextWrite();
  }
  Do(next);
  const absl::Time until = MonotonicNow() + kGoodbye;
  bool cancelled = false;
  MutexLock lock(mutex_);
  while (!done_) {
    const absl::Duration left = until - MonotonicNow();
    if (left > absl::ZeroDuration()) {
      changed_.WaitFor(mutex_, left);
    } else if (!std::exchange(cancelled, true)) {
      mutex_.Unlock();
      context_.TryCancel();
      mutex_.Lock();
    } else {
      changed_.Wait(mutex_);
    }
  }
}

std::optional<v1::RankNotice> RankStream::notice() const {
  MutexLock lock(mutex_);
  return notice_;
}

std::optional<v1::RankAbort> RankStream::abort() const {
  MutexLock lock(mutex_);
  return abort_;
}

// Decides what the write side does next; it must be idle.
RankStream::Next RankStream::NextWrite() {
  writing_ = true;
  if (!ended_ && !goodbye_) {
    outgoing_.Clear();
    if (!waiting_.empty()) {
      outgoing_ = std::move(waiting_.begin()->second);
      waiting_.erase(waiting_.begin());
      return Next::kWrite;
    }
    if (closing_) {
      goodbye_ = true;
      return Next::kWritesDone;
    }
  }
  writing_ = false;
  if (ended_ && !std::exchange(released_, true)) return Next::kRelease;
  return Next::kNothing;
}

void RankStream::Do(Next next) {
  switch (next) {
    case Next::kNothing:
      return;
    case Next::kWrite:
      return StartWrite(&outgoing_);
    case Next::kWritesDone:
      return StartWritesDone();
    case Next::kRelease:
      return RemoveHold();
  }
}

void RankStream::Take(const v1::AgentReply& reply) {
  switch (reply.kind_case()) {
    case v1::AgentReply::kWorld:
      world_ = reply.world();
      break;
    case v1::AgentReply::kAbort:
      abort_ = reply.abort();
      aborted_.store(reply.abort().generation(), std::memory_order_release);
      break;
    case v1::AgentReply::kNotice:
      notice_ = reply.notice();
      noticed_.store(reply.notice().generation(), std::memory_order_release);
      break;
    case v1::AgentReply::kWhere:  // Answered without the lock.
    case v1::AgentReply::KIND_NOT_SET:
      break;  // From a newer agent: a kind that this rank can ignore.
  }
}

void RankStream::OnReadDone(bool ok) {
  Next next = Next::kNothing;
  std::function<void()> wake;
  {
    MutexLock lock(mutex_);
    if (ok) {
      Take(incoming_);
    } else {
      ended_ = true;
      if (!closing_) lost_.store(true, std::memory_order_release);
    }
    if (!writing_) next = NextWrite();
    wake = TakeWake();
    changed_.NotifyAll();
  }
  if (wake) wake();
  Do(next);
  if (ok && incoming_.has_where()) Answer(incoming_.where());
  if (ok) StartRead(&incoming_);
}

void RankStream::OnWriteDone(bool) {
  // A failed write needs no handling: the read fails as well.
  Next next = Next::kNothing;
  {
    MutexLock lock(mutex_);
    next = NextWrite();
  }
  Do(next);
}

void RankStream::OnWritesDoneDone(bool) { OnWriteDone(true); }

void RankStream::OnDone(const grpc::Status& status) {
  MutexLock lock(mutex_);
  status_ = ToAbsl(status);
  done_ = true;
  changed_.NotifyAll();
}

}  // namespace rollcall
