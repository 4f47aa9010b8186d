// AdminService: receives the admin calls: status, watch, stop, drain, evict,
// tokens.
//
// It checks the call's grammar and posts the call to the loop, which checks the
// token and answers.
//
// Thread rule: gRPC's threads; the watchers' functions from any thread.
#ifndef ROLLCALL_DAEMON_SERVER_ADMIN_SERVICE_H_
#define ROLLCALL_DAEMON_SERVER_ADMIN_SERVICE_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "daemon/server/leader/current_loop.h"
#include "rollcall/v1/admin.grpc.pb.h"

namespace rollcall {

class AdminService final : public v1::Admin::CallbackService {
 public:
  // `inbox` must outlive the server that serves this.
  explicit AdminService(CurrentLoop& inbox) : inbox_(inbox) {}

  grpc::ServerUnaryReactor* Status(grpc::CallbackServerContext* context,
                                   const v1::StatusRequest* request,
                                   v1::JobStatus* response) override;
  grpc::ServerWriteReactor<v1::JobStatus>* Watch(
      grpc::CallbackServerContext* context,
      const v1::StatusRequest* request) override;
  grpc::ServerUnaryReactor* Events(grpc::CallbackServerContext* context,
                                   const v1::EventsRequest* request,
                                   v1::EventsResponse* response) override;
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context,
                                  const v1::DrainRequest* request,
                                  v1::DrainResponse* response) override;
  grpc::ServerUnaryReactor* Evict(grpc::CallbackServerContext* context,
                                  const v1::EvictRequest* request,
                                  v1::EvictResponse* response) override;
  grpc::ServerUnaryReactor* Stop(grpc::CallbackServerContext* context,
                                 const v1::StopRequest* request,
                                 v1::StopResponse* response) override;
  grpc::ServerUnaryReactor* CreateToken(
      grpc::CallbackServerContext* context,
      const v1::CreateTokenRequest* request,
      v1::CreateTokenResponse* response) override;
  grpc::ServerUnaryReactor* ListTokens(
      grpc::CallbackServerContext* context,
      const v1::ListTokensRequest* request,
      v1::ListTokensResponse* response) override;
  grpc::ServerUnaryReactor* RevokeToken(
      grpc::CallbackServerContext* context,
      const v1::RevokeTokenRequest* request,
      v1::RevokeTokenResponse* response) override;
  grpc::ServerUnaryReactor* RotateToken(
      grpc::CallbackServerContext* context,
      const v1::RotateTokenRequest* request,
      v1::CreateTokenResponse* response) override;

 private:
  class WatchStream;
  class HeldCall;

  // The caller, with the token from the call's metadata. A malformed token
  // counts as no token.
  static Caller CallerOf(const grpc::CallbackServerContext& context);
  // Posts a call to the loop, which answers it. If `admitted` is an error or
  // the inbox is full, the call is answered here with the error.
  template <typename Input, typename Response, typename Request>
  grpc::ServerUnaryReactor* Ask(grpc::CallbackServerContext* context,
                                const absl::Status& admitted, Request request,
                                Response* response);

  CurrentLoop& inbox_;
  std::atomic<uint64_t> last_watch_ = 0;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_ADMIN_SERVICE_H_
