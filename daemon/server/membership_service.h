// MembershipService: receives the agents' streams.
//
// It parses messages, checks their order, size and grammar, and posts them to
// the loop, which checks tokens and credentials. It decides nothing else.
// Messages to agents come here as encoded bytes, so that a broadcast is encoded
// once and shared. No stream has its own thread, and an error of one stream
// does not affect another.
//
// Thread rule: gRPC's threads; the streams' Stream functions from any thread.
#ifndef ROLLCALL_DAEMON_SERVER_MEMBERSHIP_SERVICE_H_
#define ROLLCALL_DAEMON_SERVER_MEMBERSHIP_SERVICE_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <cstddef>

#include "daemon/core/events.h"
#include "daemon/core/limits.h"
#include "daemon/server/leader/current_loop.h"
#include "rollcall/v1/membership.grpc.pb.h"

namespace rollcall {

class MembershipService final
    : public v1::Membership::WithRawCallbackMethod_Attend<
          v1::Membership::Service> {
 public:
  // The most streams at once: those of all agents' connections, those that have
  // not sent Hello, and as many again that have ended and are not removed yet.
  // So this bound never refuses an agent for which UnauthenticatedConnections
  // would make room.
  static constexpr size_t kStreamsMax =
      ConnectionLimits{}.agents_max + 2 * Limits{}.streams_without_hello_max;
  // If this many bytes of a stream are in the inbox, the stream is not read any
  // further. A message counts kMessageBytes more than its length, for the
  // memory and the time that even an empty one takes; so at most 64 of a stream
  // wait.
  static constexpr size_t kUnhandledBytesMax = 256 << 10;
  static constexpr size_t kMessageBytes = 4 << 10;

  // `inbox` must outlive the server that serves this. `bind_names`: see
  // ServerOptions; each Hello is then posted with the names of its connection's
  // certificate.
  explicit MembershipService(CurrentLoop& inbox, bool bind_names = false)
      : inbox_(inbox), bind_names_(bind_names) {}

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Attend(
      grpc::CallbackServerContext* context) override;

 private:
  class AttendStream;

  CurrentLoop& inbox_;
  const bool bind_names_;
  std::atomic<SessionId> last_session_ = 0;
  std::atomic<size_t> streams_ = 0;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_MEMBERSHIP_SERVICE_H_
