// Stream and Watcher: what the loop sees of one agent's stream and of one
// `status --watch`, so that it needs to know nothing of gRPC's calls.
//
// Thread rule: all functions from any thread; none blocks.
#ifndef ROLLCALL_DAEMON_SERVER_LOOP_STREAM_H_
#define ROLLCALL_DAEMON_SERVER_LOOP_STREAM_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "rollcall/v1/admin.pb.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class Stream {
 public:
  virtual ~Stream() = default;

  // Queues a message; its bytes are shared, not copied. A stream whose queue
  // passes stream_queue_bytes_max is ended as too slow.
  virtual void Send(const grpc::ByteBuffer& message) = 0;
  // Ends the stream after all that was sent. The first call counts.
  virtual void Close(absl::StatusCode code, const v1::Refusal& refusal) = 0;
  // Ends the stream at once: what was sent and is not read yet is thrown away,
  // and with it, most often, the reason.
  virtual void Cancel(absl::StatusCode code, const v1::Refusal& refusal) = 0;
  // Of what was sent and is not read yet; 0 once it is thrown away.
  virtual size_t UnreadBytes() = 0;
  // The loop has dealt with a message of this size: another may be read.
  virtual void Took(size_t bytes) = 0;
};

class Watcher {
 public:
  virtual ~Watcher() = default;

  // Replaces what was offered before and is not on its way yet. `last`: ends
  // the call with OK after it. False: there was such a status, so that the peer
  // has not read the one before that to its end.
  virtual bool Offer(std::shared_ptr<const v1::JobStatus> status,
                     bool last) = 0;
  // Whether the peer has not read the status before the one offered last.
  virtual bool IsBehind() = 0;
  // After what was offered last.
  virtual void End(const absl::Status& status) = 0;
  // At once, with what is queued thrown away.
  virtual void Cancel() = 0;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_LOOP_STREAM_H_
