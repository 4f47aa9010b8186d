#include "client/rank/frames.h"

#include "absl/strings/str_cat.h"

namespace rollcall {
namespace {

constexpr int kBitsPerByte = 8;

void PutLength(std::string& frame, size_t size) {
  for (size_t i = 0; i < kFrameHeaderBytes; ++i) {
    frame[kFrameHeaderBytes - 1 - i] = static_cast<char>(size & 0xff);
    size >>= kBitsPerByte;
  }
}

size_t LengthIn(absl::string_view header) {
  size_t size = 0;
  for (const char c : header) {
    size = size << kBitsPerByte | static_cast<unsigned char>(c);
  }
  return size;
}

}  // namespace

std::string FrameOf(const google::protobuf::MessageLite& message) {
  std::string frame(kFrameHeaderBytes, '\0');
  message.AppendToString(&frame);
  PutLength(frame, frame.size() - kFrameHeaderBytes);
  return frame;
}

absl::Status ParseFrame(absl::string_view bytes,
                        google::protobuf::MessageLite& message) {
  if (message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("expected a message ", message.GetTypeName(), ", got ",
                   bytes.size(), " bytes that are none"));
}

void FrameReader::Add(absl::string_view piece) {
  bytes_.erase(0, read_);
  read_ = 0;
  bytes_.append(piece.data(), piece.size());
}

absl::StatusOr<std::optional<absl::string_view>> FrameReader::Next() {
  const absl::string_view rest = absl::string_view(bytes_).substr(read_);
  if (rest.size() < kFrameHeaderBytes) return std::nullopt;
  const size_t size = LengthIn(rest.substr(0, kFrameHeaderBytes));
  if (size > bytes_max_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a message of ", size, " bytes; expected at most ",
                     bytes_max_, ", after its length in 4 bytes"));
  }
  if (rest.size() < kFrameHeaderBytes + size) return std::nullopt;
  read_ += kFrameHeaderBytes + size;
  return rest.substr(kFrameHeaderBytes, size);
}

}  // namespace rollcall
