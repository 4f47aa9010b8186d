#include "daemon/server/membership_service.h"

#include <grpc/grpc_security_constants.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/base/mutex.h"
#include "daemon/core/admission/admission.h"
#include "daemon/server/connections/peer_address.h"
#include "daemon/server/connections/unauthenticated_connections.h"
#include "daemon/server/loop/streams/broadcast.h"
#include "daemon/server/loop/streams/refusal.h"

namespace rollcall {

// One stream. gRPC operations are started only by the thread that has set
// `pumping_`, never under the lock. So they are started one after the other.
class MembershipService::AttendStream final
    : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
      public Stream,
      public std::enable_shared_from_this<AttendStream> {
 public:
  AttendStream(MembershipService& service, grpc::CallbackServerContext* context,
               SessionId session, std::string observed_address,
               std::string peer,
               std::optional<std::vector<std::string>> certificate_names)
      : service_(service),
        context_(context),
        session_(session),
        observed_address_(std::move(observed_address)),
        peer_(std::move(peer)),
        certificate_names_(std::move(certificate_names)) {}

  void Begin() {
    // gRPC has a raw pointer to this until OnDone.
    self_ = shared_from_this();
    if (service_.streams_.fetch_add(1) >= kStreamsMax) {
      // UNAVAILABLE, because this is not a limit of the job and a later try may
      // succeed.
      return Refuse(absl::UnavailableError(
          absl::StrCat("this daemon already has ", kStreamsMax,
                       " streams, the most there can be; dial again later")));
    }
    posted_ = service_.inbox_.Post(StreamOpened{session_, self_});
    if (!posted_) return Refuse(InboxFull());
    Pump();
  }

  // --- Stream ---------------------------------------------------------------

  void Send(const grpc::ByteBuffer& message, Order order) override {
    bool full = false;
    {
      MutexLock lock(mutex_);
      if (closing_) return;
      (order == Order::kFirst ? queue_ : store_queue_).push_back(message);
      queue_bytes_ += message.Length();
      full = queue_bytes_ > Limits::stream_queue_bytes_max;
    }
    if (!full) return Pump();
    v1::Refusal refusal;
    refusal.set_code(v1::REFUSAL_CODE_SLOW);
    refusal.set_text(absl::StrCat(
        "more than ", Limits::stream_queue_bytes_max,
        " bytes wait for this agent, which reads too slowly; dial again"));
    Cancel(absl::StatusCode::kUnavailable, refusal);
  }

  void Close(absl::StatusCode code, const v1::Refusal& refusal) override {
    {
      MutexLock lock(mutex_);
      SetClosing(code, refusal);
    }
    Pump();
  }

  void Cancel(absl::StatusCode code, const v1::Refusal& refusal) override {
    {
      MutexLock lock(mutex_);
      HangUp();
      SetClosing(code, refusal);
      // After Finish the context may be destroyed.
      if (finished_) return;
      cancelling_ = true;
    }
    context_->TryCancel();
    {
      MutexLock lock(mutex_);
      cancelling_ = false;
    }
    Pump();
  }

  size_t UnreadBytes() override {
    MutexLock lock(mutex_);
    return hung_up_ ? 0 : queue_bytes_;
  }

  void Took(size_t bytes) override {
    {
      MutexLock lock(mutex_);
      unhandled_bytes_ -= bytes;
    }
    Pump();
  }

  // --- gRPC's reactions ------------------------------------------------------

  void OnReadDone(bool ok) override {
    if (!ok) {
      MutexLock lock(mutex_);
      reading_ = false;
      // The peer sends nothing more, but may still read what is being written.
      DropQueue();
      SetClosing(absl::StatusCode::kOk, v1::Refusal());
    } else {
      const absl::Status taken = TakeMessage();
      if (!taken.ok()) Refuse(taken);
      MutexLock lock(mutex_);
      reading_ = false;
    }
    Pump();
  }

  void OnWriteDone(bool ok) override {
    {
      MutexLock lock(mutex_);
      writing_ = false;
      queue_bytes_ -= current_.Length();
      current_.Clear();
      if (!ok) {
        HangUp();
        SetClosing(absl::StatusCode::kOk, v1::Refusal());
      }
    }
    Pump();
  }

  void OnCancel() override {
    {
      MutexLock lock(mutex_);
      HangUp();
      SetClosing(absl::StatusCode::kCancelled, v1::Refusal());
    }
    Pump();
  }

  void OnDone() override {
    if (posted_) service_.inbox_.PostAlways(StreamGone{session_});
    service_.streams_.fetch_sub(1);
    // This may be the last reference.
    std::shared_ptr<AttendStream> self = std::move(self_);
  }

 private:
  enum class Next { kNothing, kRead, kWrite, kFinish };

  static absl::Status InboxFull() {
    return absl::UnavailableError(absl::StrCat("the daemon has ",
                                               Limits::inbox_events_max,
                                               " queued messages; dial again"));
  }

  void Refuse(const absl::Status& status) {
    Close(status.code(), RefusalOf(status));
  }

  void SetClosing(absl::StatusCode code, const v1::Refusal& refusal)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (closing_) return;
    closing_ = true;
    status_ = WireStatus(code, refusal);
  }

  // The next operation for the thread that has set `pumping_`.
  Next TakeNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (finished_ || cancelling_) return Next::kNothing;
    std::deque<grpc::ByteBuffer>& next = queue_.empty() ? store_queue_ : queue_;
    if (!writing_ && !next.empty()) {
      writing_ = true;
      current_.Swap(&next.front());
      next.pop_front();
      return Next::kWrite;
    }
    if (closing_ && next.empty() && (!writing_ || hung_up_)) {
      finished_ = true;
      return Next::kFinish;
    }
    if (!closing_ && !reading_ && unhandled_bytes_ < kUnhandledBytesMax) {
      reading_ = true;
      return Next::kRead;
    }
    return Next::kNothing;
  }

  // Drops queued messages, because the peer no longer reads them. From now on
  // the stream's end does not wait for a write in progress.
  void HangUp() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    hung_up_ = true;
    DropQueue();
  }

  void DropQueue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (std::deque<grpc::ByteBuffer>* const queue : {&queue_, &store_queue_}) {
      for (const grpc::ByteBuffer& unread : *queue) {
        queue_bytes_ -= unread.Length();
      }
      queue->clear();
    }
  }

  void Pump() {
    // OnDone may run on another thread as soon as Finish was called.
    const std::shared_ptr<AttendStream> alive = shared_from_this();
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

  // Called only by the thread that has set `pumping_`. Only that thread uses
  // status_ and current_ until the operation is done.
  void Do(Next next) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    switch (next) {
      case Next::kRead:
        return StartRead(&incoming_);
      case Next::kWrite:
        return StartWrite(&current_);
      case Next::kFinish:
        return Finish(status_);
      case Next::kNothing:
        return;
    }
  }

  // Processes the message that was just read. The reads of one stream do not
  // overlap, so the fields used here need no lock.
  absl::Status TakeMessage() {
    const size_t bytes = incoming_.Length();
    if (!greeted_ && bytes > Limits::hello_bytes_max) {
      return absl::InvalidArgumentError(absl::StrCat("Hello: expected at most ",
                                                     Limits::hello_bytes_max,
                                                     " bytes, got ", bytes));
    }
    v1::AgentMessage message;
    absl::Status decoded = Decode(incoming_, message);
    incoming_.Clear();
    if (!decoded.ok()) return decoded;
    if (!greeted_ && !introduced_ && message.has_introduction()) {
      return TakeIntroduction(*message.mutable_introduction(), bytes);
    }
    if (!greeted_) return TakeHello(message);
    if (absl::Status fits = AdmitMessage(message); !fits.ok()) return fits;
    CleanMessage(message);
    const size_t unhandled = bytes + kMessageBytes;
    {
      MutexLock lock(mutex_);
      unhandled_bytes_ += unhandled;
    }
    const bool taken = service_.inbox_.Post(
        MessageCame{session_, std::move(message), unhandled});
    return taken ? absl::OkStatus() : InboxFull();
  }

  absl::Status TakeIntroduction(v1::Hello& hello, size_t bytes) {
    if (bytes > Limits::hello_without_introduction_bytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "introduction: expected at most ",
          Limits::hello_without_introduction_bytes, " bytes, got ", bytes));
    }
    if (absl::Status fits = AdmitIntroduction(hello); !fits.ok()) return fits;
    introduced_ = true;
    {
      // Nothing more is read until the loop has checked it.
      MutexLock lock(mutex_);
      unhandled_bytes_ += kUnhandledBytesMax;
    }
    const bool taken = service_.inbox_.Post(
        IntroductionCame{session_, std::move(hello), observed_address_, peer_,
                         kUnhandledBytesMax});
    return taken ? absl::OkStatus() : InboxFull();
  }

  absl::Status TakeHello(v1::AgentMessage& message) {
    if (!message.has_hello()) {
      return absl::InvalidArgumentError(
          "expected Hello as the first message of a stream, or after one "
          "introduction; got another one");
    }
    v1::Hello& hello = *message.mutable_hello();
    if (absl::Status fits = AdmitHello(hello); !fits.ok()) return fits;
    CleanHello(hello);
    greeted_ = true;
    const bool taken = service_.inbox_.Post(
        HelloCame{session_, std::move(hello), observed_address_, peer_,
                  certificate_names_, absl::Now()});
    return taken ? absl::OkStatus() : InboxFull();
  }

  MembershipService& service_;
  // Valid until Finish was called.
  grpc::CallbackServerContext* const context_;
  const SessionId session_;
  const std::string observed_address_;
  const std::string peer_;
  const std::optional<std::vector<std::string>> certificate_names_;
  std::shared_ptr<AttendStream> self_;
  bool posted_ = false;
  // The message of the read in progress.
  grpc::ByteBuffer incoming_;
  bool introduced_ = false;
  bool greeted_ = false;

  Mutex mutex_;
  // Set while a thread starts operations. Other threads start none during that
  // time.
  bool pumping_ ABSL_GUARDED_BY(mutex_) = false;
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelling_ ABSL_GUARDED_BY(mutex_) = false;
  bool hung_up_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::ByteBuffer current_ ABSL_GUARDED_BY(mutex_);
  std::deque<grpc::ByteBuffer> queue_ ABSL_GUARDED_BY(mutex_);
  // Messages with Order::kLast; they are sent when queue_ is empty.
  std::deque<grpc::ByteBuffer> store_queue_ ABSL_GUARDED_BY(mutex_);
  // Bytes of queue_, store_queue_ and current_.
  size_t queue_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // Bytes that were posted to the loop and that the loop has not processed yet.
  size_t unhandled_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  grpc::Status status_ ABSL_GUARDED_BY(mutex_);
};

namespace {

// This is more than any node's certificate has.
constexpr size_t kCertificateNamesMax = 64;

// The DNS names of the client's certificate, or its common name if it has none.
// TLS has verified the certificate.
std::vector<std::string> CertificateNamesOf(
    const grpc::CallbackServerContext& context) {
  std::vector<std::string> names;
  const auto authentication = context.auth_context();
  if (authentication == nullptr) return names;
  for (const char* property :
       {GRPC_PEER_DNS_PROPERTY_NAME, GRPC_X509_CN_PROPERTY_NAME}) {
    for (const grpc::string_ref& name :
         authentication->FindPropertyValues(property)) {
      if (names.size() == kCertificateNamesMax) break;
      names.emplace_back(name.data(), name.size());
    }
    if (!names.empty()) break;
  }
  return names;
}

}  // namespace

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>*
MembershipService::Attend(grpc::CallbackServerContext* context) {
  std::string peer = PeerKey(context->peer());
  std::optional<std::vector<std::string>> names;
  if (bind_names_) names = CertificateNamesOf(*context);
  const auto stream = std::make_shared<AttendStream>(
      *this, context, ++last_session_, AddressOfPeer(context->peer()),
      std::move(peer), std::move(names));
  stream->Begin();
  return stream.get();
}

}  // namespace rollcall
