// MembershipService: the agents' streams, at the edge.
//
// It parses, checks order, size and grammar, and posts to the loop, which
// checks tokens and credentials; it decides nothing else. Raw bytes go through
// it, so that a broadcast is encoded once and shared. No thread a stream, and
// no stream's error touches another.
//
// Thread rule: gRPC's threads; the streams' Stream functions from any.
#ifndef ROLLCALL_DAEMON_SERVER_MEMBERSHIP_SERVICE_H_
#define ROLLCALL_DAEMON_SERVER_MEMBERSHIP_SERVICE_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <cstddef>

#include "daemon/core/job/events.h"
#include "daemon/core/limits.h"
#include "daemon/server/leader/loop_door.h"
#include "rollcall/v1/membership.grpc.pb.h"

namespace rollcall {

class MembershipService final
    : public v1::Membership::WithRawCallbackMethod_Attend<
          v1::Membership::Service> {
 public:
  // Streams at once: those of all agents' connections, those that have not said
  // Hello, and as many again that have been ended and are still there. So this
  // is never what keeps an agent out that Guests would make room for.
  static constexpr size_t kStreamsMax =
      DoorLimits{}.agents_max + 2 * Limits{}.strangers_max;
  // What one stream may have in the inbox before it is not read on.
  static constexpr size_t kUnhandledBytesMax = 256 << 10;

  // `inbox` must outlive the server that serves this.
  // `bind_names`: see ServerOptions; each Hello then comes with the names of
  // its connection's certificate.
  explicit MembershipService(LoopDoor& inbox, bool bind_names = false)
      : inbox_(inbox), bind_names_(bind_names) {}

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Attend(
      grpc::CallbackServerContext* context) override;

 private:
  class AttendStream;

  LoopDoor& inbox_;
  const bool bind_names_;
  std::atomic<SessionId> last_session_ = 0;
  std::atomic<size_t> streams_ = 0;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_MEMBERSHIP_SERVICE_H_
