#include "daemon/server/broadcast.h"

#include <grpcpp/support/slice.h>

#include <cstdint>

#include "daemon/server/world_codec.h"

namespace rollcall {

namespace {

grpc::ByteBuffer ToSlice(const v1::DaemonMessage& message) {
  // Into gRPC's own memory: no copy is made between here and the wire.
  const size_t size = message.ByteSizeLong();
  grpc_slice raw = grpc_slice_malloc(size);
  message.SerializeWithCachedSizesToArray(GRPC_SLICE_START_PTR(raw));
  const grpc::Slice slice(raw, grpc::Slice::STEAL_REF);
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace

grpc::ByteBuffer Encode(const v1::DaemonMessage& message) {
  if (!message.has_proposal()) return ToSlice(message);
  v1::DaemonMessage packed = message;
  CompressWorld(*packed.mutable_proposal());
  return ToSlice(packed);
}

absl::Status Decode(const grpc::ByteBuffer& bytes, v1::AgentMessage& message) {
  grpc::Slice slice;
  if (bytes.Valid() && bytes.DumpToSingleSlice(&slice).ok() &&
      message.ParseFromArray(slice.begin(), static_cast<int>(slice.size()))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "message: expected an AgentMessage, got bytes that are none; is what "
      "dials here a rollcall agent?");
}

}  // namespace rollcall
