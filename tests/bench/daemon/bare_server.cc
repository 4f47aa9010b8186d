#include "tests/bench/daemon/bare_server.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "daemon/base/mutex.h"
#include "daemon/security/certificates/authority.h"
#include "daemon/security/server_certificate.h"
#include "daemon/server/loop/streams/broadcast.h"
#include "rollcall/v1/membership.grpc.pb.h"

namespace rollcall::bench {
namespace {

v1::DaemonMessage Answer(size_t bytes) {
  v1::DaemonMessage message;
  if (bytes == 0) {
    message.mutable_welcome()->set_run("bare");
  } else {
    message.mutable_commit()->set_generation(1);
    message.mutable_commit()->set_world_commit(std::string(bytes, '\0'));
  }
  return message;
}

v1::DaemonMessage Loss() {
  v1::DaemonMessage message;
  message.mutable_abort()->set_generation(1);
  return message;
}

}  // namespace

class BareServer::Service : public v1::Membership::WithRawCallbackMethod_Attend<
                                v1::Membership::Service> {
 public:
  Service(int streams, size_t answer_bytes, bool tells_loss)
      : wanted_(static_cast<size_t>(streams)),
        answer_(Encode(Answer(answer_bytes))),
        loss_(Encode(Loss())),
        tells_loss_(tells_loss) {}

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Attend(
      grpc::CallbackServerContext*) override {
    return new Stream(this);
  }

 private:
  class Stream
      : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
   public:
    explicit Stream(Service* service)
        : service_(service), answer_(service->answer_) {
      StartRead(&incoming_);
    }
    void OnReadDone(bool ok) override {
      if (!ok) {
        service_->Leave(this);
        Finish(grpc::Status::OK);
        return;
      }
      if (!spoke_) service_->Enter(this);
      spoke_ = true;
      StartRead(&incoming_);
    }
    void OnWriteDone(bool ok) override { service_->Written(this, ok); }
    void OnDone() override { delete this; }

    // The next three are called with the service's mutex held.
    void SendAnswer() {
      writing_ = true;
      StartWrite(&answer_);
    }
    // Waits until the answer is written: the peer may have it before gRPC
    // reports this, and gRPC aborts if two messages are written at once.
    void SendLoss() {
      loss_waits_ = writing_;
      if (loss_waits_) return;
      answer_ = service_->loss_;
      SendAnswer();
    }
    void AnswerWritten(bool ok) {
      writing_ = false;
      if (ok && loss_waits_) SendLoss();
    }

   private:
    Service* const service_;
    grpc::ByteBuffer answer_;
    grpc::ByteBuffer incoming_;
    bool spoke_ = false;
    bool writing_ = false;
    bool loss_waits_ = false;
  };

  void Enter(Stream* stream) {
    MutexLock lock(mutex_);
    streams_.insert(stream);
    if (streams_.size() < wanted_) return;
    if (answered_) return stream->SendAnswer();
    answered_ = true;
    // The mutex is held, so no stream leaves. No stream gets two answers.
    for (Stream* each : streams_) each->SendAnswer();
  }
  void Leave(Stream* stream) {
    MutexLock lock(mutex_);
    streams_.erase(stream);
    if (!tells_loss_ || !answered_) return;
    tells_loss_ = false;
    for (Stream* each : streams_) each->SendLoss();
  }

  void Written(Stream* stream, bool ok) {
    MutexLock lock(mutex_);
    stream->AnswerWritten(ok);
  }

  const size_t wanted_;
  const grpc::ByteBuffer answer_;
  const grpc::ByteBuffer loss_;
  Mutex mutex_;
  bool tells_loss_ ABSL_GUARDED_BY(mutex_);
  bool answered_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<Stream*> streams_ ABSL_GUARDED_BY(mutex_);
};

BareServer::BareServer(bool tls, int streams, size_t answer_bytes,
                       bool tells_loss)
    : service_(std::make_unique<Service>(streams, answer_bytes, tells_loss)) {
  std::shared_ptr<grpc::ServerCredentials> credentials =
      grpc::InsecureServerCredentials();
  if (tls) {
    const auto authority = Authority::Make();
    const auto issued =
        authority.ok() ? authority->Issue(LocalNames())
                       : absl::StatusOr<IssuedCertificate>(authority.status());
    if (!issued.ok()) {
      std::fprintf(stderr, "bench: %s\n", issued.status().ToString().c_str());
      std::exit(1);
    }
    credentials = ServerCredentials(*issued);
    pin_ = authority->pin();
  }
  grpc::ServerBuilder builder;
  // The daemon has this setting, too; it costs less.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddListeningPort("127.0.0.1:0", credentials, &port_);
  builder.RegisterService(service_.get());
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) {
    std::fprintf(stderr, "bench: gRPC cannot start a bare server\n");
    std::exit(1);
  }
}

BareServer::~BareServer() {
  server_->Shutdown(std::chrono::system_clock::now());
}

}  // namespace rollcall::bench
