// CallService: all calls to the daemon except Membership.Attend.
//
// gRPC announces a unary call to a server only after it has received the whole
// request. While a peer sends an endless request, gRPC keeps its bytes and the
// server does not know of the call. Therefore this server treats every method
// as a stream and reads one message from it: then gRPC announces the call when
// its header has come (see CallCounter in server.cc). On the wire nothing
// changes.
//
// Thread rule: Add before the server starts; then gRPC's threads.
#ifndef ROLLCALL_DAEMON_SERVER_CALLS_CALL_SERVICE_H_
#define ROLLCALL_DAEMON_SERVER_CALLS_CALL_SERVICE_H_

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server_context.h>

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "daemon/server/calls/unary_call.h"

namespace rollcall {

class CallService final : public grpc::CallbackGenericService {
 public:
  // Makes the object that serves one call; gRPC has a raw pointer to it until
  // its OnDone.
  using MakeReactor = std::function<grpc::ServerGenericBidiReactor*(
      grpc::CallbackServerContext*)>;

  // `path`: "/SERVICE/METHOD". Calls of other paths end with UNIMPLEMENTED.
  void Add(std::string path, MakeReactor make) {
    methods_[std::move(path)] = std::move(make);
  }
  // A method with one request and one response. `answer` has to end the call,
  // now or later. A request that cannot be decoded ends the call with
  // INVALID_ARGUMENT.
  template <typename Request>
  void AddUnary(std::string path,
                std::function<void(UnaryCall&, Request)> answer) {
    Add(std::move(path), [answer = std::move(answer)](
                             grpc::CallbackServerContext* context) {
      return new UnaryCall(
          *context, [&answer](UnaryCall& call, const grpc::ByteBuffer* bytes) {
            Request request;
            const absl::Status decoded = DecodeRequest(bytes, request);
            if (!decoded.ok()) return call.Fail(decoded);
            answer(call, std::move(request));
          });
    });
  }

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    const auto at = methods_.find(context->method());
    if (at != methods_.end()) return at->second(context);
    return CallbackGenericService::CreateReactor(context);
  }

 private:
  std::map<std::string, MakeReactor> methods_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_CALLS_CALL_SERVICE_H_
