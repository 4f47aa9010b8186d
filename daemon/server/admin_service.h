// AdminService: looking at jobs and stopping them, at the edge.
//
// Checks the call's token and grammar and posts to the loop, which answers.
// Draining and further tokens are answered with FAILED_PRECONDITION and what to
// do instead.
//
// Thread rule: gRPC's threads; the watchers' functions from any.
#ifndef ROLLCALL_DAEMON_SERVER_ADMIN_SERVICE_H_
#define ROLLCALL_DAEMON_SERVER_ADMIN_SERVICE_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "daemon/server/loop.h"
#include "rollcall/v1/admin.grpc.pb.h"

namespace rollcall {

class AdminService final : public v1::Admin::CallbackService {
 public:
  // `inbox` must outlive the server that serves this.
  AdminService(v1::JoinToken token, Inbox<LoopInput>& inbox)
      : token_(std::move(token)), inbox_(inbox) {}

  grpc::ServerUnaryReactor* Status(grpc::CallbackServerContext* context,
                                   const v1::StatusRequest* request,
                                   v1::JobStatus* response) override;
  grpc::ServerWriteReactor<v1::JobStatus>* Watch(
      grpc::CallbackServerContext* context,
      const v1::StatusRequest* request) override;
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context,
                                  const v1::DrainRequest* request,
                                  v1::DrainResponse* response) override;
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

 private:
  class WatchStream;

  // UNAUTHENTICATED: the call's metadata do not carry the right token.
  absl::Status CheckToken(const grpc::CallbackServerContext& context) const;
  // CheckToken, and then FAILED_PRECONDITION with what to do instead.
  grpc::ServerUnaryReactor* NotYet(grpc::CallbackServerContext* context,
                                   const char* instead) const;

  const v1::JoinToken token_;
  Inbox<LoopInput>& inbox_;
  std::atomic<uint64_t> last_watch_ = 0;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_ADMIN_SERVICE_H_
