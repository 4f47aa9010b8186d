// Stream and Watcher: the loop's view of one agent's stream and of one `status
// --watch`, without gRPC.
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

  // The order of messages in the queue: all first ones go before all others.
  enum class Order { kFirst, kLast };
  // Queues a message; its bytes are shared, not copied. A stream whose queue
  // passes stream_queue_bytes_max is ended as too slow.
  virtual void Send(const grpc::ByteBuffer& message, Order order) = 0;
  // Ends the stream after everything that was sent. Only the first call counts.
  virtual void Close(absl::StatusCode code, const v1::Refusal& refusal) = 0;
  // Ends the stream at once. Sent messages that are not read yet are dropped,
  // and most often the reason is lost with them.
  virtual void Cancel(absl::StatusCode code, const v1::Refusal& refusal) = 0;
  // Bytes of sent messages that are not read yet; 0 after they are dropped.
  virtual size_t UnreadBytes() = 0;
  // The loop has processed a message of this size, so another may be read.
  virtual void Took(size_t bytes) = 0;
};

class Watcher {
 public:
  virtual ~Watcher() = default;

  // Replaces the status that is queued and not being sent yet. `last`: ends the
  // call with OK after it. False: a status was queued, so the peer has not read
  // the one before it.
  virtual bool Offer(std::shared_ptr<const v1::JobStatus> status,
                     bool last) = 0;
  // Whether the peer has not yet read the status before the latest one.
  virtual bool IsBehind() = 0;
  // Ends the call after the latest status.
  virtual void End(const absl::Status& status) = 0;
  // Ends the call at once; the queued status is dropped.
  virtual void Cancel() = 0;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_LOOP_STREAM_H_
