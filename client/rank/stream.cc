#include "client/rank/stream.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/server/clock.h"

namespace rollcall {
namespace {

// How long Close waits for the agent to end the stream of its own.
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

absl::StatusOr<v1::RankWorld> RankStream::AwaitWorld(absl::Duration timeout) {
  const absl::Time until = MonotonicNow() + timeout;
  MutexLock lock(mutex_);
  while (!world_.has_value() && !done_) {
    const absl::Duration left = until - MonotonicNow();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(absl::StrCat(
          "no world from the agent within ", absl::FormatDuration(timeout)));
    }
    changed_.WaitFor(mutex_, left);
  }
  if (world_.has_value()) return *world_;
  if (!status_.ok()) return status_;
  return absl::UnavailableError("the agent ended the stream with no world");
}

void RankStream::SendProgress(const v1::RankProgress& progress) {
  Next next = Next::kNothing;
  {
    MutexLock lock(mutex_);
    if (ended_ || closing_) return;
    progress_waits_ = progress;
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

// Decides what the write side does next; the caller has just seen it idle.
RankStream::Next RankStream::NextWrite() {
  writing_ = true;
  if (!ended_ && !goodbye_) {
    outgoing_.Clear();
    if (seen_waits_.has_value()) {
      *outgoing_.mutable_notice_seen() = *std::exchange(seen_waits_, {});
      return Next::kWrite;
    }
    if (progress_waits_.has_value()) {
      *outgoing_.mutable_progress() = *std::exchange(progress_waits_, {});
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
      // This process lives in the world that it was started for; the next one
      // is its successor's.
      if (!world_.has_value()) world_ = reply.world();
      break;
    case v1::AgentReply::kAbort:
      abort_ = reply.abort();
      aborted_.store(reply.abort().generation(), std::memory_order_release);
      break;
    case v1::AgentReply::kNotice:
      notice_ = reply.notice();
      noticed_.store(true, std::memory_order_release);
      seen_waits_.emplace().set_notice(reply.notice().notice());
      break;
    case v1::AgentReply::KIND_NOT_SET:
      break;  // Of a newer agent; nothing that this rank must know.
  }
}

void RankStream::OnReadDone(bool ok) {
  Next next = Next::kNothing;
  {
    MutexLock lock(mutex_);
    if (ok) {
      Take(incoming_);
    } else {
      ended_ = true;
      if (!closing_) lost_.store(true, std::memory_order_release);
    }
    if (!writing_) next = NextWrite();
    changed_.NotifyAll();
  }
  Do(next);
  if (ok) StartRead(&incoming_);
}

void RankStream::OnWriteDone(bool) {
  // A write that failed needs no word: the read fails as well.
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
