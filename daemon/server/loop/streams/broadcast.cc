#include "daemon/server/loop/streams/broadcast.h"

#include <grpcpp/support/slice.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "daemon/codec/world_codec.h"

namespace rollcall {

namespace {

// The memory of a slice. It exists as long as gRPC references the slice.
struct Encoded {
  Encoded(size_t size, UnreadBytes unread)
      : bytes(new uint8_t[size]), size(size), unread(std::move(unread)) {
    if (this->unread != nullptr) *this->unread += size;
  }
  ~Encoded() {
    if (unread != nullptr) *unread -= size;
  }

  const std::unique_ptr<uint8_t[]> bytes;
  const size_t size;
  const UnreadBytes unread;
};

grpc::ByteBuffer ToSlice(const v1::DaemonMessage& message, UnreadBytes unread) {
  // gRPC takes ownership of the memory, so no copy is made before the bytes are
  // sent.
  auto* const encoded = new Encoded(message.ByteSizeLong(), std::move(unread));
  message.SerializeWithCachedSizesToArray(encoded->bytes.get());
  const grpc::Slice slice(
      encoded->bytes.get(), encoded->size,
      [](void* done) { delete static_cast<Encoded*>(done); }, encoded);
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace

grpc::ByteBuffer Encode(const v1::DaemonMessage& message, UnreadBytes unread) {
  if (!message.has_proposal()) return ToSlice(message, std::move(unread));
  v1::DaemonMessage packed = message;
  CompressWorld(*packed.mutable_proposal());
  return ToSlice(packed, std::move(unread));
}

absl::Status Decode(const grpc::ByteBuffer& bytes, v1::AgentMessage& message) {
  grpc::Slice slice;
  if (bytes.Valid() && bytes.DumpToSingleSlice(&slice).ok() &&
      message.ParseFromArray(slice.begin(), static_cast<int>(slice.size()))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "message: expected an AgentMessage, got other bytes; is the client a "
      "rollcall agent?");
}

}  // namespace rollcall
