// UnaryCall: a call with one request and one response, as CallService serves
// it.
//
// Thread rule: Answer and Fail from any thread; one of them, once.
#ifndef ROLLCALL_DAEMON_SERVER_CALLS_UNARY_CALL_H_
#define ROLLCALL_DAEMON_SERVER_CALLS_UNARY_CALL_H_

#include <google/protobuf/message_lite.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>

#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "daemon/server/loop/state/call_quota.h"

namespace rollcall {

// INVALID_ARGUMENT: there is no message (`bytes` is null), or it is not a
// message of this type.
absl::Status DecodeRequest(const grpc::ByteBuffer* bytes,
                           google::protobuf::MessageLite& request);
grpc::ByteBuffer EncodeResponse(const google::protobuf::MessageLite& response);

// Valid until Answer or Fail is called; then it deletes itself when gRPC is
// done with it.
class UnaryCall final : public grpc::ServerGenericBidiReactor {
 public:
  // `request` is null if none came: the peer has ended its side or the call, or
  // the message was too large.
  using OnRequest =
      std::function<void(UnaryCall&, const grpc::ByteBuffer* request)>;

  UnaryCall(const grpc::CallbackServerContext& context, OnRequest on_request);

  const grpc::CallbackServerContext& context() const { return context_; }
  // The hold is released when the answer has been sent. At most once, before
  // the answer.
  void Keep(CallQuota::Hold hold) { hold_ = std::move(hold); }
  void Answer(const google::protobuf::MessageLite& response);
  // `status` must be an error.
  void Fail(const absl::Status& status);

 private:
  void OnReadDone(bool ok) override;
  void OnDone() override { delete this; }

  const grpc::CallbackServerContext& context_;
  const OnRequest on_request_;
  // The request, and then the response.
  grpc::ByteBuffer message_;
  CallQuota::Hold hold_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_CALLS_UNARY_CALL_H_
