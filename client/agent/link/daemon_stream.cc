#include "client/agent/link/daemon_stream.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/agent/link/call_status.h"
#include "daemon/base/clock.h"
#include "daemon/codec/introduction.h"
#include "daemon/codec/world_codec.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

// The agent sends little. More messages than this are queued only if the daemon
// does not read.
constexpr size_t kQueuedMessagesMax = 4096;

}  // namespace

DaemonStream::DaemonStream(std::string endpoint,
                           std::shared_ptr<grpc::Channel> channel,
                           std::shared_ptr<TrustVerdict> verdict,
                           Callbacks callbacks)
    : endpoint_(std::move(endpoint)),
      verdict_(std::move(verdict)),
      callbacks_(std::move(callbacks)),
      channel_(std::move(channel)),
      stub_(v1::Membership::NewStub(channel_)) {
  stub_->async()->Attend(&context_, this);
  AddHold();  // Removed when reading has ended and no write is in progress.
  StartRead(&incoming_);
  StartCall();
}

DaemonStream::~DaemonStream() {
  HangUp();
  MutexLock lock(mutex_);
  while (!done_) changed_.Wait(mutex_);
}

void DaemonStream::Send(v1::AgentMessage message) {
  bool start = false;
  bool too_slow = false;
  {
    MutexLock lock(mutex_);
    if (ended_ || closing_) return;
    std::deque<v1::AgentMessage>& queue =
        message.has_store() ? store_queue_ : queue_;
    too_slow = queue.size() >= kQueuedMessagesMax;
    if (!too_slow) {
      if (message.has_hello() &&
          message.ByteSizeLong() > Limits::hello_without_introduction_bytes) {
        queue.push_back(IntroductionOf(message.hello()));
      }
      queue.push_back(std::move(message));
      start = !writing_;
      writing_ = true;
    }
  }
  if (too_slow) HangUp();
  if (start) StartNext();
}

void DaemonStream::HangUp() { context_.TryCancel(); }

void DaemonStream::Close(absl::Duration patience) {
  bool start = false;
  {
    MutexLock lock(mutex_);
    if (ended_) return;
    closing_ = true;
    start = !writing_;
    writing_ = true;
  }
  if (start) StartNext();
  const absl::Time until = MonotonicNow() + patience;
  MutexLock lock(mutex_);
  while (!done_ && MonotonicNow() < until) {
    changed_.WaitFor(mutex_, until - MonotonicNow());
  }
}

void DaemonStream::StartNext() {
  const v1::AgentMessage* next = nullptr;
  {
    MutexLock lock(mutex_);
    // Stays in its queue until written.
    written_ = queue_.empty() ? &store_queue_ : &queue_;
    if (!written_->empty()) next = &written_->front();
    if (next == nullptr) half_closed_ = true;
  }
  if (next != nullptr) {
    StartWrite(next);
  } else {
    StartWritesDone();
  }
}

void DaemonStream::OperationDone() {
  bool more = false;
  bool release = false;
  {
    MutexLock lock(mutex_);
    if (!written_->empty()) written_->pop_front();
    more = !ended_ && !half_closed_ &&
           (!queue_.empty() || !store_queue_.empty() || closing_);
    writing_ = more;
    release = ended_;
  }
  if (more) StartNext();
  if (release) RemoveHold();
}

void DaemonStream::OnReadDone(bool ok) {
  if (ok) {
    // A proposal that cannot be expanded has no world, and the core refuses it.
    if (incoming_.has_proposal()) {
      ExpandWorld(*incoming_.mutable_proposal()).IgnoreError();
    }
    if (!callbacks_.message(std::move(incoming_))) HangUp();
    incoming_.Clear();
    StartRead(&incoming_);
    return;
  }
  bool release = false;
  {
    MutexLock lock(mutex_);
    ended_ = true;
    release = !writing_;
  }
  if (release) RemoveHold();
}

void DaemonStream::OnWriteDone(bool) { OperationDone(); }
void DaemonStream::OnWritesDoneDone(bool) { OperationDone(); }

void DaemonStream::OnDone(const grpc::Status& status) {
  std::optional<v1::Refusal> refusal;
  if (!status.error_details().empty()) {
    refusal.emplace();
    if (!refusal->ParseFromString(status.error_details())) refusal.reset();
  }
  const absl::Status verdict = verdict_->status();
  const bool other_daemon = !status.ok() && !verdict.ok();
  callbacks_.down(other_daemon ? absl::Status(verdict.code(),
                                              absl::StrCat(endpoint_, ": ",
                                                           verdict.message()))
                               : CallStatus(endpoint_, status),
                  std::move(refusal), other_daemon);
  MutexLock lock(mutex_);
  done_ = true;
  changed_.NotifyAll();
}

}  // namespace rollcall
