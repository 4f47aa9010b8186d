// Broadcast: a message encoded once, whose bytes all streams share.
//
// A copy of the buffer takes a reference to the same bytes, so that a world
// for thousands of nodes lies in memory once. Thread rule: any thread.
#ifndef ROLLCALL_DAEMON_SERVER_LOOP_BROADCAST_H_
#define ROLLCALL_DAEMON_SERVER_LOOP_BROADCAST_H_

#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// How many bytes of encoded messages there are: each message counts until the
// last copy of its buffer is gone, gRPC's own included.
using UnreadBytes = std::shared_ptr<std::atomic<size_t>>;

// A proposal's world is compressed on the way. `unread` may be null.
grpc::ByteBuffer Encode(const v1::DaemonMessage& message,
                        UnreadBytes unread = nullptr);

// INVALID_ARGUMENT: the bytes are no AgentMessage.
absl::Status Decode(const grpc::ByteBuffer& bytes, v1::AgentMessage& message);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_LOOP_BROADCAST_H_
