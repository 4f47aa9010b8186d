// Frames: the messages of rank.proto in the form in which a rank and its agent
// send them. Each message follows its length, which has 4 bytes, the most
// significant first.
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
// The bound for a RankMessage. The largest is an operation on the store.
inline constexpr size_t kRankMessageBytesMax =
    Limits::store_value_bytes_max + (16 << 10);
// The bound for an AgentReply. The largest are a world and an exchange's
// values.
inline constexpr size_t kAgentReplyBytesMax =
    Limits::world_bytes_max + (4 << 20);

static_assert(2 * (Limits::exchange_value_bytes_max +
                   Limits::exchange_key_bytes_max) <=
              kRankMessageBytesMax);
static_assert(2 * Limits::stderr_tail_bytes <= kRankMessageBytesMax);
static_assert(Limits::store_value_bytes_max + 2 * Limits::store_key_bytes_max <
              kRankMessageBytesMax);
// An exchange's reply fits: the values of all ranks, with a tag and a length
// for each.
static_assert(Limits::world_bytes_max +
                  3 * size_t{Limits::nodes_max} * Limits::ranks_per_node_max <
              kAgentReplyBytesMax);

// The message, with its length before it.
std::string FrameOf(const google::protobuf::MessageLite& message);

// Parses a message that FrameReader::Next has returned. INVALID_ARGUMENT: the
// bytes are not such a message.
absl::Status ParseFrame(absl::string_view bytes,
                        google::protobuf::MessageLite& message);

// Splits a stream of bytes, which may arrive in pieces of any size, into
// messages. Holds at most one message of `bytes_max` and the piece that was
// added last.
class FrameReader {
 public:
  explicit FrameReader(size_t bytes_max) : bytes_max_(bytes_max) {}

  // Adds the next bytes of the stream. Before the next Add, call Next until it
  // returns nullopt.
  void Add(absl::string_view piece);

  // The next message, without its length; valid until Add. nullopt: more bytes
  // are needed. RESOURCE_EXHAUSTED: the message is larger than the bound; every
  // later call returns this too.
  absl::StatusOr<std::optional<absl::string_view>> Next();

  // The number of bytes of an incomplete message. If it is not 0 at the end of
  // the stream, the other side ended in the middle of a message.
  size_t held() const { return bytes_.size() - read_; }

 private:
  const size_t bytes_max_;
  std::string bytes_;
  size_t read_ = 0;  // How much of bytes_ Next has returned.
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_RANK_FRAMES_H_
