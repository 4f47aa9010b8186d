// frames: the messages of rank.proto as they stand on the wire between a rank
// and its agent: each after its length, 4 bytes, the highest first.
//
// Both sides use it. Pure: no socket, no thread.
#ifndef ROLLCALL_CLIENT_RANK_FRAMES_H_
#define ROLLCALL_CLIENT_RANK_FRAMES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/core/limits.h"
#include "google/protobuf/message_lite.h"

namespace rollcall {

// RankHello's wire_version.
inline constexpr uint32_t kRankWireVersion = 1;
inline constexpr size_t kFrameHeaderBytes = 4;
// A RankMessage. The largest is an operation on the store.
inline constexpr size_t kRankMessageBytesMax =
    Limits::store_value_bytes_max + (16 << 10);
// An AgentReply. The largest are a world and an exchange's values.
inline constexpr size_t kAgentReplyBytesMax =
    Limits::world_bytes_max + (4 << 20);

static_assert(2 * (Limits::exchange_value_bytes_max +
                   Limits::exchange_key_bytes_max) <=
              kRankMessageBytesMax);
static_assert(2 * Limits::stderr_tail_bytes <= kRankMessageBytesMax);
static_assert(Limits::store_value_bytes_max + 2 * Limits::store_key_bytes_max <
              kRankMessageBytesMax);
// The values of all ranks, and a tag and a length for each.
static_assert(Limits::world_bytes_max +
                  3 * size_t{Limits::nodes_max} * Limits::ranks_per_node_max <
              kAgentReplyBytesMax);

// The message after its length.
std::string FrameOf(const google::protobuf::MessageLite& message);

// Reads a message that a FrameReader has cut. INVALID_ARGUMENT: these bytes are
// no such message.
absl::Status ParseFrame(absl::string_view bytes,
                        google::protobuf::MessageLite& message);

// Cuts a stream of bytes, in whatever pieces they come, into messages. Holds at
// most one message of `bytes_max` and the piece that was added last.
class FrameReader {
 public:
  explicit FrameReader(size_t bytes_max) : bytes_max_(bytes_max) {}

  // The bytes that came next. Call Next until it has no more before the next
  // Add.
  void Add(absl::string_view piece);

  // The next message, without its length; valid until Add. nullopt: more bytes
  // are needed. RESOURCE_EXHAUSTED: the message is larger than the bound; so
  // says every later call too.
  absl::StatusOr<std::optional<absl::string_view>> Next();

  // Bytes of a message that is not whole yet. After the end of the stream: the
  // other side ended in the middle of a message.
  size_t held() const { return bytes_.size() - read_; }

 private:
  const size_t bytes_max_;
  std::string bytes_;
  size_t read_ = 0;  // Of bytes_, what Next has returned.
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_RANK_FRAMES_H_
