// Stream and Watcher: interfaces through which the loop uses one agent's stream
// and one `status --watch` call, without gRPC.
//
// Thread rule: all functions from any thread; none blocks.
#ifndef ROLLCALL_DAEMON_SERVER_LOOP_STREAMS_STREAM_H_
#define ROLLCALL_DAEMON_SERVER_LOOP_STREAMS_STREAM_H_

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

  // The order in the queue: all messages with kFirst are sent before those with
  // kLast.
  enum class Order { kFirst, kLast };
  // Queues a message; its bytes are shared, not copied. If the queue exceeds
  // stream_queue_bytes_max, the stream is ended as too slow.
  virtual void Send(const grpc::ByteBuffer& message, Order order) = 0;
  // Ends the stream after all messages that were sent. Only the first call has
  // an effect.
  virtual void Close(absl::StatusCode code, const v1::Refusal& refusal) = 0;
  // Ends the stream at once. Messages that the peer has not read yet are
  // dropped, and usually the reason is lost with them.
  virtual void Cancel(absl::StatusCode code, const v1::Refusal& refusal) = 0;
  // Bytes of sent messages that the peer has not read yet; 0 after they were
  // dropped.
  virtual size_t UnreadBytes() = 0;
  // The loop has processed a message of this size, so another may be read.
  virtual void Took(size_t bytes) = 0;
};

class Watcher {
 public:
  virtual ~Watcher() = default;

  // Queues a status; it replaces one that is queued and not being sent yet.
  // `last`: ends the call with OK after this status. Returns false if a status
  // was queued, so the peer has not read the one before that.
  virtual bool Offer(std::shared_ptr<const v1::JobStatus> status,
                     bool last) = 0;
  // Whether the peer has not yet read the status before the latest one.
  virtual bool IsBehind() = 0;
  // Ends the call after the status that is being sent. A queued status is
  // dropped, unless it was offered as the last one.
  virtual void End(const absl::Status& status) = 0;
  // Ends the call at once; the queued status is dropped.
  virtual void Cancel() = 0;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_LOOP_STREAMS_STREAM_H_
