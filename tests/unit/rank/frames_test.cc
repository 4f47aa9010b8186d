#include "client/rank/frames.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rollcall/v1/rank.pb.h"

namespace rollcall {
namespace {

using Code = absl::StatusCode;
using std::string_literals::operator""s;

TEST(FrameReader, CutsWhateverPiecesCome) {
  constexpr size_t kMost = 5;
  struct Row {
    std::vector<std::string> pieces;
    std::vector<std::string> expect;
    Code end = Code::kOk;
    size_t held = 0;
  };
  const Row kRows[] = {
      {{}, {}},
      {{""}, {}},
      {{"\0\0\0\2ab"s}, {"ab"}},
      {{"\0\0\0\0"s}, {""}},
      {{"\0\0\0\0\0\0\0\0"s}, {"", ""}},
      {{"\0\0\0\5abcde\0\0\0\1f"s}, {"abcde", "f"}},
      {{"\0"s, "\0\0"s, "\2"s, "a"s, "b\0"s, "\0\0\1c"s}, {"ab", "c"}},
      // These frames are not complete yet.
      {{"\0\0\0"s}, {}, Code::kOk, 3},
      {{"\0\0\0\3ab"s}, {}, Code::kOk, 6},
      {{"\0\0\0\1a\0\0\0\3"s}, {"a"}, Code::kOk, 4},
      // The frame is refused as soon as its length has arrived.
      {{"\0\0\0\6"s}, {}, Code::kResourceExhausted, 4},
      {{"\xff\xff\xff\xff"s}, {}, Code::kResourceExhausted, 4},
      {{"\0\0\0\1a\1\0\0\0"s}, {"a"}, Code::kResourceExhausted, 4},
      {{"\0\0\0\6"s, "abcdef"s}, {}, Code::kResourceExhausted, 10},
  };
  for (const Row& row : kRows) {
    FrameReader reader(kMost);
    std::vector<std::string> got;
    Code end = Code::kOk;
    for (const std::string& piece : row.pieces) {
      reader.Add(piece);
      for (;;) {
        const auto next = reader.Next();
        end = next.status().code();
        if (!next.ok() || !next->has_value()) break;
        got.emplace_back(**next);
      }
    }
    EXPECT_EQ(got, row.expect);
    EXPECT_EQ(end, row.end);
    EXPECT_EQ(reader.held(), row.held);
  }
}

TEST(Frames, ComeBackAsTheyWent) {
  v1::RankMessage message;
  message.mutable_exchange()->set_key("k");
  message.mutable_exchange()->set_value(
      std::string(Limits::exchange_value_bytes_max, '\xff'));
  const std::string frame = FrameOf(message);
  ASSERT_GT(frame.size(), Limits::exchange_value_bytes_max);
  EXPECT_EQ(frame.substr(0, 2), std::string(2, '\0'));
  FrameReader reader(kRankMessageBytesMax);
  reader.Add(frame);
  const auto bytes = reader.Next();
  ASSERT_TRUE(bytes.ok() && bytes->has_value());
  v1::RankMessage again;
  ASSERT_TRUE(ParseFrame(**bytes, again).ok());
  EXPECT_EQ(again.SerializeAsString(), message.SerializeAsString());
  EXPECT_EQ(FrameOf(v1::RankMessage()), "\0\0\0\0"s);
}

TEST(Frames, BytesThatAreNoMessageAreRefused) {
  v1::RankMessage message;
  for (const char* bytes : {"\xff", "\x0a\x05", "\x0a"}) {
    EXPECT_EQ(ParseFrame(bytes, message).code(), Code::kInvalidArgument)
        << bytes;
  }
}

}  // namespace
}  // namespace rollcall
