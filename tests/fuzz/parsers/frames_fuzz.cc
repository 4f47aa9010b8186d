// Bytes on a Unix socket between a rank and its agent, in pieces of any size,
// as either side reads them.
//
// Oracle: the messages are those that a second implementation finds in all
// bytes at once. No message above the bound is returned, or kept for long. A
// message that is read and framed again has the same bytes.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/rank/frames.h"
#include "rollcall/v1/rank.pb.h"
#include "tests/fuzz/feed.h"
#include "tests/fuzz/oracle.h"

namespace rollcall {
namespace {

// All messages of `bytes`, up to the first one above the bound. `over`: there
// is one.
std::vector<std::string> Cut(const std::string& bytes, size_t most,
                             bool& over) {
  std::vector<std::string> all;
  size_t at = 0;
  over = false;
  while (bytes.size() - at >= 4) {
    size_t size = 0;
    for (size_t i = 0; i < 4; ++i) {
      size = size * 256 + static_cast<uint8_t>(bytes[at + i]);
    }
    over = size > most;
    if (over || bytes.size() - at - 4 < size) break;
    all.push_back(bytes.substr(at + 4, size));
    at += 4 + size;
  }
  return all;
}

template <typename Message>
void Read(absl::string_view bytes) {
  Message message;
  const absl::Status parsed = ParseFrame(bytes, message);
  Expect(parsed.ok() || absl::IsInvalidArgument(parsed),
         "bytes are a message or are refused", parsed.ToString());
  if (!parsed.ok()) return;
  const std::string frame = FrameOf(message);
  FrameReader reader(frame.size());
  reader.Add(frame);
  const auto again = reader.Next();
  Expect(again.ok() && again->has_value(), "a frame is whole");
  Message twice;
  Expect(ParseFrame(**again, twice).ok(), "what is framed can be read");
  Expect(FrameOf(twice) == frame, "and comes back the same");
}

void Pieces(Feed& feed, bool from_rank) {
  // The bound is small, so that inputs reach it.
  const size_t most =
      std::min<size_t>(static_cast<size_t>(feed.Number()), 1 << 10);
  FrameReader reader(most);
  std::string sent;
  std::vector<std::string> got;
  bool refused = false;
  while (!feed.empty() && !refused) {
    const std::string piece = feed.String();
    sent += piece;
    reader.Add(piece);
    for (;;) {
      const auto next = reader.Next();
      refused = !next.ok();
      if (refused || !next->has_value()) break;
      Expect((*next)->size() <= most, "a message has a bound");
      got.emplace_back(**next);
      from_rank ? Read<v1::RankMessage>(**next) : Read<v1::AgentReply>(**next);
    }
    Expect(refused || reader.held() < kFrameHeaderBytes + most + 1,
           "what is held has a bound");
  }
  bool over = false;
  const std::vector<std::string> expect = Cut(sent, most, over);
  Expect(got == expect, "pieces change nothing",
         absl::StrCat(got.size(), " and ", expect.size()));
  Expect(refused == over, "what is too large is refused");
  Expect(!refused || !reader.Next().ok(), "a refusal is final");
}

}  // namespace
}  // namespace rollcall

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  rollcall::Feed feed(data, size);
  const bool from_rank = feed.Flag();
  rollcall::Pieces(feed, from_rank);
  return 0;
}
