#include "daemon/server/calls/unary_call.h"

#include <grpcpp/support/slice.h>

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/server/loop/streams/refusal.h"

namespace rollcall {

absl::Status DecodeRequest(const grpc::ByteBuffer* bytes,
                           google::protobuf::MessageLite& request) {
  grpc::Slice slice;
  if (bytes != nullptr && bytes->Valid() &&
      bytes->DumpToSingleSlice(&slice).ok() &&
      request.ParseFromArray(slice.begin(), static_cast<int>(slice.size()))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("request: expected a ", request.GetTypeName(), ", got ",
                   bytes == nullptr ? "none" : "other bytes"));
}

grpc::ByteBuffer EncodeResponse(const google::protobuf::MessageLite& response) {
  grpc::Slice bytes(response.ByteSizeLong());
  // gRPC has no other way to fill a slice that owns its memory.
  response.SerializeWithCachedSizesToArray(const_cast<uint8_t*>(bytes.begin()));
  return grpc::ByteBuffer(&bytes, 1);
}

UnaryCall::UnaryCall(const grpc::CallbackServerContext& context,
                     OnRequest on_request)
    : context_(context), on_request_(std::move(on_request)) {
  StartRead(&message_);
}

void UnaryCall::OnReadDone(bool ok) {
  on_request_(*this, ok ? &message_ : nullptr);
}

void UnaryCall::Answer(const google::protobuf::MessageLite& response) {
  message_ = EncodeResponse(response);
  StartWriteAndFinish(&message_, grpc::WriteOptions(), grpc::Status::OK);
}

void UnaryCall::Fail(const absl::Status& status) { Finish(WireStatus(status)); }

}  // namespace rollcall
