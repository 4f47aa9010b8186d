// Broadcast: a message that is encoded once; all streams share its bytes.
//
// A copy of the buffer references the same bytes, so a world for thousands of
// nodes is in memory once. Thread rule: any thread.
#ifndef ROLLCALL_DAEMON_SERVER_LOOP_STREAMS_BROADCAST_H_
#define ROLLCALL_DAEMON_SERVER_LOOP_STREAMS_BROADCAST_H_

#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Total bytes of encoded messages. A message counts until the last copy of its
// buffer is destroyed, including gRPC's.
using UnreadBytes = std::shared_ptr<std::atomic<size_t>>;

// Encodes a message; compresses the world of a Proposal. `unread` may be null.
grpc::ByteBuffer Encode(const v1::DaemonMessage& message,
                        UnreadBytes unread = nullptr);

// INVALID_ARGUMENT: the bytes are not an AgentMessage.
absl::Status Decode(const grpc::ByteBuffer& bytes, v1::AgentMessage& message);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_LOOP_STREAMS_BROADCAST_H_
