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

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "daemon/server/calls/call_service.h"
#include "daemon/server/calls/unary_call.h"
#include "daemon/server/leader/current_loop.h"
#include "rollcall/v1/admin.pb.h"

namespace rollcall {

class AdminService final {
 public:
  // `inbox` must outlive the server that serves this.
  explicit AdminService(CurrentLoop& inbox) : inbox_(inbox) {}

  // This must outlive the server that serves `calls`.
  void AddTo(CallService& calls);

 private:
  class WatchStream;

  // The caller, with the token from the call's metadata. A malformed token
  // counts as no token.
  static Caller CallerOf(const grpc::CallbackServerContext& context);

  template <typename Request>
  void Add(CallService& calls, const char* method,
           void (AdminService::*answer)(UnaryCall&, Request));
  // Posts a call to the loop, which answers it. If `admitted` is an error or
  // the inbox is full, the call is answered here with the error.
  template <typename Input, typename Request>
  void Ask(UnaryCall& call, const absl::Status& admitted, Request request);
  // Asks with the only condition that the job's name is one, or empty.
  template <typename Input, typename Request>
  void AskOfJob(UnaryCall& call, Request request);
  // The same with the name of a node.
  template <typename Input, typename Request>
  void AskOfNode(UnaryCall& call, Request request);
  void Events(UnaryCall& call, v1::EventsRequest request);
  void Stop(UnaryCall& call, v1::StopRequest request);

  CurrentLoop& inbox_;
  std::atomic<uint64_t> last_watch_ = 0;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_ADMIN_SERVICE_H_
