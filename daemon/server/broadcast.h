// Broadcast: a message encoded once, whose bytes all streams share.
//
// A copy of the buffer takes a reference to the same bytes, so that a world
// for thousands of nodes lies in memory once. Thread rule: any thread.
#ifndef ROLLCALL_DAEMON_SERVER_BROADCAST_H_
#define ROLLCALL_DAEMON_SERVER_BROADCAST_H_

#include <grpcpp/support/byte_buffer.h>

#include "absl/status/status.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// A proposal's world is compressed on the way.
grpc::ByteBuffer Encode(const v1::DaemonMessage& message);

// INVALID_ARGUMENT: the bytes are no AgentMessage.
absl::Status Decode(const grpc::ByteBuffer& bytes, v1::AgentMessage& message);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_BROADCAST_H_
