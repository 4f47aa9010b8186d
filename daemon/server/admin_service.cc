#include "daemon/server/admin_service.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "daemon/base/durations.h"
#include "daemon/base/mutex.h"
#include "daemon/base/text/printable.h"
#include "daemon/core/admission/admission.h"
#include "daemon/core/limits.h"
#include "daemon/security/secrets/token.h"
#include "daemon/server/connections/peer_address.h"
#include "daemon/server/connections/unauthenticated_connections.h"
#include "daemon/server/loop/streams/refusal.h"
#include "daemon/server/membership_service.h"

namespace rollcall {
namespace {

absl::Status InboxFull() {
  return absl::UnavailableError("the daemon has too many requests; try again");
}

absl::Status AdmitJobOrNone(const std::string& job) {
  return job.empty() ? absl::OkStatus() : AdmitJobId(job);
}

// The path of a call of `method`.
std::string Path(const char* method) {
  return absl::StrCat("/rollcall.v1.Admin/", method);
}

}  // namespace

// One call of Watch. It has at most one unsent status. Its only read is started
// by Begin, before another thread has this. All later gRPC operations are
// started only by the thread that has set `pumping_`, never under the lock.
class AdminService::WatchStream final
    : public grpc::ServerGenericBidiReactor,
      public Watcher,
      public std::enable_shared_from_this<WatchStream> {
 public:
  WatchStream(CurrentLoop& inbox, uint64_t id,
              grpc::CallbackServerContext* context)
      : inbox_(inbox), id_(id), context_(context) {}

  void Begin() {
    // gRPC has a raw pointer to this until OnDone.
    self_ = shared_from_this();
    StartRead(&request_);
  }

  void OnReadDone(bool ok) override {
    v1::StatusRequest request;
    absl::Status admitted = DecodeRequest(ok ? &request_ : nullptr, request);
    request_.Clear();
    if (admitted.ok()) admitted = AdmitJobOrNone(request.job());
    if (!admitted.ok()) return End(admitted);
    if (!inbox_.Post(
            WatchOpened{id_, CallerOf(*context_), request.job(), self_})) {
      End(InboxFull());
    }
  }

  bool Offer(std::shared_ptr<const v1::JobStatus> status, bool last) override {
    bool read = true;
    {
      MutexLock lock(mutex_);
      if (closing_) return true;
      read = waiting_ == nullptr;
      waiting_ = std::move(status);
      closing_ = last;
    }
    Pump();
    return read;
  }

  bool IsBehind() override {
    MutexLock lock(mutex_);
    return waiting_ != nullptr;
  }

  void Cancel() override {
    {
      MutexLock lock(mutex_);
      // After Finish the context may be destroyed.
      if (finished_) return;
      cancelling_ = true;
    }
    context_->TryCancel();
    {
      MutexLock lock(mutex_);
      cancelling_ = false;
    }
    End(absl::CancelledError(""));
  }

  void End(const absl::Status& status) override {
    {
      MutexLock lock(mutex_);
      SetEnd(WireStatus(status));
    }
    Pump();
  }

  void OnWriteDone(bool ok) override {
    response_.Clear();
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
    // A last status is queued or being sent. It is sent, and then the call ends
    // with OK.
    if (closing_) return;
    waiting_ = nullptr;
    closing_ = true;
    status_ = std::move(status);
  }

  Next TakeNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (finished_ || writing_ || cancelling_) return Next::kNothing;
    if (waiting_ != nullptr) {
      writing_ = true;
      current_ = std::exchange(waiting_, nullptr);
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

  // Called only by the thread that has set `pumping_`. Until the operation is
  // done, only that thread uses current_ and status_, and only that thread and
  // OnWriteDone use response_.
  void Do(Next next) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (next == Next::kWrite) {
      response_ = EncodeResponse(*current_);
      current_ = nullptr;
      StartWrite(&response_);
    } else {
      Finish(status_);
    }
  }

  CurrentLoop& inbox_;
  const uint64_t id_;
  // Valid until Finish was called.
  grpc::CallbackServerContext* const context_;
  std::shared_ptr<WatchStream> self_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer response_;

  Mutex mutex_;
  bool pumping_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelling_ ABSL_GUARDED_BY(mutex_) = false;
  // Shared with the other watchers of the job.
  std::shared_ptr<const v1::JobStatus> current_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const v1::JobStatus> waiting_ ABSL_GUARDED_BY(mutex_);
  grpc::Status status_ ABSL_GUARDED_BY(mutex_);
};

Caller AdminService::CallerOf(const grpc::CallbackServerContext& context) {
  Caller caller;
  caller.address = AddressOfPeer(context.peer());
  caller.peer = PeerKey(context.peer());
  const auto& metadata = context.client_metadata();
  const auto at = metadata.find("authorization");
  if (at == metadata.end()) return caller;
  absl::string_view value(at->second.data(), at->second.size());
  if (!absl::ConsumePrefix(&value, "Bearer ")) return caller;
  absl::StatusOr<v1::JoinToken> token = ParseTokenText(std::string(value));
  if (token.ok()) caller.token = *std::move(token);
  return caller;
}

template <typename Input, typename Request>
void AdminService::Ask(UnaryCall& call, const absl::Status& admitted,
                       Request request) {
  if (!admitted.ok()) return call.Fail(admitted);
  Input asked;
  asked.caller = CallerOf(call.context());
  asked.request = std::move(request);
  asked.reply = [&call](const auto& answer) {
    if (answer.ok()) return call.Answer(*answer);
    call.Fail(answer.status());
  };
  // A call with a large answer (a LargeCall) counts in the caller's quota until
  // the answer has been sent, because the status of the largest job takes
  // megabytes, which stay in memory while the peer does not read.
  if constexpr (requires { asked.keep; }) {
    asked.keep = [&call](CallQuota::Hold hold) { call.Keep(std::move(hold)); };
  }
  if (!inbox_.Post(std::move(asked))) call.Fail(InboxFull());
}

template <typename Input, typename Request>
void AdminService::AskOfJob(UnaryCall& call, Request request) {
  const absl::Status admitted = AdmitJobOrNone(request.job());
  Ask<Input>(call, admitted, std::move(request));
}

template <typename Input, typename Request>
void AdminService::AskOfNode(UnaryCall& call, Request request) {
  absl::Status admitted = AdmitJobOrNone(request.job());
  if (admitted.ok()) admitted = AdmitNodeName(request.node());
  Ask<Input>(call, admitted, std::move(request));
}

void AdminService::Events(UnaryCall& call, v1::EventsRequest request) {
  absl::Status admitted = AdmitJobOrNone(request.job());
  if (admitted.ok() && request.has_within() &&
      FromProto(request.within()) < absl::ZeroDuration()) {
    admitted = absl::InvalidArgumentError(
        "within: expected a time of 0 or more, got a negative one");
  }
  Ask<EventsAsked>(call, admitted, std::move(request));
}

void AdminService::Stop(UnaryCall& call, v1::StopRequest request) {
  absl::Status admitted = AdmitJobOrNone(request.job());
  if (admitted.ok() && (request.exit_code() < 0 || request.exit_code() > 255)) {
    admitted = absl::InvalidArgumentError(absl::StrCat(
        "exit_code: expected 0 to 255, got ", request.exit_code()));
  }
  request.set_reason(
      Printable(request.reason(), Limits::admin_reason_bytes_max));
  Ask<StopCame>(call, admitted, std::move(request));
}

template <typename Request>
void AdminService::Add(CallService& calls, const char* method,
                       void (AdminService::*answer)(UnaryCall&, Request)) {
  calls.AddUnary<Request>(Path(method),
                          [this, answer](UnaryCall& call, Request request) {
                            (this->*answer)(call, std::move(request));
                          });
}

void AdminService::AddTo(CallService& calls) {
  Add(calls, "Status", &AdminService::AskOfJob<StatusAsked, v1::StatusRequest>);
  Add(calls, "Events", &AdminService::Events);
  Add(calls, "Stop", &AdminService::Stop);
  Add(calls, "Drain", &AdminService::AskOfNode<DrainCame, v1::DrainRequest>);
  Add(calls, "Evict", &AdminService::AskOfNode<EvictCame, v1::EvictRequest>);
  Add(calls, "CreateToken",
      &AdminService::AskOfJob<TokenWanted, v1::CreateTokenRequest>);
  Add(calls, "ListTokens",
      &AdminService::AskOfJob<TokensAsked, v1::ListTokensRequest>);
  Add(calls, "RevokeToken",
      &AdminService::AskOfJob<TokenRevoked, v1::RevokeTokenRequest>);
  Add(calls, "RotateToken",
      &AdminService::AskOfJob<TokenRotated, v1::RotateTokenRequest>);
  calls.Add(Path("Watch"), [this](grpc::CallbackServerContext* context) {
    const auto stream =
        std::make_shared<WatchStream>(inbox_, ++last_watch_, context);
    stream->Begin();
    return stream.get();
  });
}

}  // namespace rollcall
