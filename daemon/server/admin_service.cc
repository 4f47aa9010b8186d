#include "daemon/server/admin_service.h"

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "daemon/core/admission.h"
#include "daemon/security/join_string.h"
#include "daemon/server/mutex.h"
#include "daemon/server/refusal.h"

namespace rollcall {
namespace {

constexpr size_t kReasonBytesMax = 1 << 10;

absl::Status InboxFull() {
  return absl::UnavailableError(
      "the daemon has too much to deal with; ask again");
}

absl::Status AdmitJobOrNone(const std::string& job) {
  return job.empty() ? absl::OkStatus() : AdmitJobId(job);
}

grpc::ServerUnaryReactor* FinishedWith(grpc::CallbackServerContext* context,
                                       const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(WireStatus(status));
  return reactor;
}

}  // namespace

// One call of Watch: holds at most one status that waits. gRPC's operations
// are started by whoever holds `pumping_`, never under the lock.
class AdminService::WatchStream final
    : public grpc::ServerWriteReactor<v1::JobStatus>,
      public Watcher,
      public std::enable_shared_from_this<WatchStream> {
 public:
  WatchStream(Inbox<LoopInput>& inbox, uint64_t id) : inbox_(inbox), id_(id) {}

  // Refused where `admitted` is not OK.
  void Begin(const std::string& job, const absl::Status& admitted) {
    // gRPC keeps a bare pointer until OnDone.
    self_ = shared_from_this();
    if (!admitted.ok()) return End(admitted);
    if (!inbox_.Post(WatchOpened{id_, job, self_})) End(InboxFull());
  }

  void Offer(const v1::JobStatus& status, bool last) override {
    {
      MutexLock lock(mutex_);
      if (closing_) return;
      waiting_ = status;
      closing_ = last;
    }
    Pump();
  }

  void End(const absl::Status& status) override {
    {
      MutexLock lock(mutex_);
      SetEnd(WireStatus(status));
    }
    Pump();
  }

  void OnWriteDone(bool ok) override {
    {
      MutexLock lock(mutex_);
      writing_ = false;
      if (!ok) SetEnd(grpc::Status::CANCELLED);
    }
    Pump();
  }

  void OnCancel() override { End(absl::CancelledError("")); }

  void OnDone() override {
    inbox_.PostAlways(WatchGone{id_});
    std::shared_ptr<WatchStream> self = std::move(self_);
  }

 private:
  enum class Next { kNothing, kWrite, kFinish };

  void SetEnd(grpc::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    waiting_.reset();
    if (closing_) return;
    closing_ = true;
    status_ = std::move(status);
  }

  Next TakeNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (finished_ || writing_) return Next::kNothing;
    if (waiting_.has_value()) {
      writing_ = true;
      current_ = *std::move(waiting_);
      waiting_.reset();
      return Next::kWrite;
    }
    if (!closing_) return Next::kNothing;
    finished_ = true;
    return Next::kFinish;
  }

  void Pump() {
    // OnDone may run on another thread as soon as Finish was called.
    const std::shared_ptr<WatchStream> alive = shared_from_this();
    {
      MutexLock lock(mutex_);
      if (pumping_) return;
      pumping_ = true;
    }
    for (;;) {
      Next next;
      {
        MutexLock lock(mutex_);
        next = TakeNext();
        if (next == Next::kNothing) {
          pumping_ = false;
          return;
        }
      }
      Do(next);
    }
  }

  // By the holder of `pumping_` alone: current_ and status_ are its own until
  // the operation is done.
  void Do(Next next) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (next == Next::kWrite) {
      StartWrite(&current_);
    } else {
      Finish(status_);
    }
  }

  Inbox<LoopInput>& inbox_;
  const uint64_t id_;
  std::shared_ptr<WatchStream> self_;

  Mutex mutex_;
  bool pumping_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  v1::JobStatus current_ ABSL_GUARDED_BY(mutex_);
  std::optional<v1::JobStatus> waiting_ ABSL_GUARDED_BY(mutex_);
  grpc::Status status_ ABSL_GUARDED_BY(mutex_);
};

absl::Status AdminService::CheckToken(
    const grpc::CallbackServerContext& context) const {
  const auto& metadata = context.client_metadata();
  const auto at = metadata.find("authorization");
  if (at == metadata.end()) {
    return absl::UnauthenticatedError(
        "expected metadata `authorization: Bearer TOKEN`, got none; give the "
        "join string, or a token with --token-file");
  }
  absl::string_view value(at->second.data(), at->second.size());
  if (absl::ConsumePrefix(&value, "Bearer ")) {
    const absl::StatusOr<v1::JoinToken> token =
        ParseTokenText(std::string(value));
    if (token.ok() && SameToken(*token, token_)) return absl::OkStatus();
  }
  return absl::UnauthenticatedError(
      "the token is not this daemon's; take the join string that its launcher "
      "printed last");
}

grpc::ServerUnaryReactor* AdminService::NotYet(
    grpc::CallbackServerContext* context, const char* instead) const {
  const absl::Status token = CheckToken(*context);
  return FinishedWith(
      context, token.ok() ? absl::FailedPreconditionError(instead) : token);
}

grpc::ServerUnaryReactor* AdminService::Status(
    grpc::CallbackServerContext* context, const v1::StatusRequest* request,
    v1::JobStatus* response) {
  absl::Status admitted = CheckToken(*context);
  if (admitted.ok()) admitted = AdmitJobOrNone(request->job());
  if (!admitted.ok()) return FinishedWith(context, admitted);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const bool posted = inbox_.Post(StatusAsked{
      request->job(),
      [reactor, response](const absl::StatusOr<v1::JobStatus>& status) {
        if (status.ok()) *response = *status;
        reactor->Finish(WireStatus(status.status()));
      }});
  if (!posted) reactor->Finish(WireStatus(InboxFull()));
  return reactor;
}

grpc::ServerWriteReactor<v1::JobStatus>* AdminService::Watch(
    grpc::CallbackServerContext* context, const v1::StatusRequest* request) {
  absl::Status admitted = CheckToken(*context);
  if (admitted.ok()) admitted = AdmitJobOrNone(request->job());
  const auto stream = std::make_shared<WatchStream>(inbox_, ++last_watch_);
  stream->Begin(request->job(), admitted);
  return stream.get();
}

grpc::ServerUnaryReactor* AdminService::Stop(
    grpc::CallbackServerContext* context, const v1::StopRequest* request,
    v1::StopResponse* response) {
  absl::Status admitted = CheckToken(*context);
  if (admitted.ok()) admitted = AdmitJobOrNone(request->job());
  if (admitted.ok() &&
      (request->exit_code() < 0 || request->exit_code() > 255)) {
    admitted = absl::InvalidArgumentError(absl::StrCat(
        "exit_code: expected 0 to 255, got ", request->exit_code()));
  }
  if (!admitted.ok()) return FinishedWith(context, admitted);
  v1::StopRequest clean = *request;
  clean.set_reason(Printable(request->reason(), kReasonBytesMax));
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const bool posted = inbox_.Post(
      StopCame{std::move(clean),
               [reactor, response](const absl::StatusOr<v1::JobState>& state) {
                 if (state.ok()) response->set_state(*state);
                 reactor->Finish(WireStatus(state.status()));
               }});
  if (!posted) reactor->Finish(WireStatus(InboxFull()));
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::Drain(
    grpc::CallbackServerContext* context, const v1::DrainRequest*,
    v1::DrainResponse*) {
  return NotYet(context,
                "this daemon does not drain nodes; send SIGTERM to the node's "
                "agent, or end the job with `rollcall stop`");
}

grpc::ServerUnaryReactor* AdminService::CreateToken(
    grpc::CallbackServerContext* context, const v1::CreateTokenRequest*,
    v1::CreateTokenResponse*) {
  return NotYet(context,
                "this daemon has the one token that it was started with; use "
                "its join string");
}

grpc::ServerUnaryReactor* AdminService::ListTokens(
    grpc::CallbackServerContext* context, const v1::ListTokensRequest*,
    v1::ListTokensResponse*) {
  return NotYet(context,
                "this daemon has the one token that it was started with");
}

grpc::ServerUnaryReactor* AdminService::RevokeToken(
    grpc::CallbackServerContext* context, const v1::RevokeTokenRequest*,
    v1::RevokeTokenResponse*) {
  return NotYet(context,
                "this daemon has the one token that it was started with; to "
                "change it, start the daemon anew with another one");
}

}  // namespace rollcall
