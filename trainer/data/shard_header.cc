#include "trainer/data/shard_header.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace rollcall {
namespace {

constexpr uint32_t kMagic = 20240520;
constexpr uint32_t kVersion = 1;

// Other kinds of llm.c files, by the number with which they begin.
struct Foreign {
  uint32_t magic;
  const char* what;
};
constexpr Foreign kForeign[] = {
    {20240801, "tokens of 32 bits (Llama 3's, version 7)"},
    {20240522, "an evaluation set"},
    {20240326, "a model's weights"},
    {20240527, "an optimizer's state"},
};

uint32_t Word(absl::string_view head, size_t which) {
  uint32_t word = 0;
  for (int i = 3; i >= 0; --i) {
    word = word << 8 | static_cast<unsigned char>(head[4 * which + i]);
  }
  return word;
}

absl::Status Refused(absl::string_view field, absl::string_view expected,
                     absl::string_view found) {
  return absl::InvalidArgumentError(absl::StrCat(
      "token shard: ", field, ": expected ", expected, ", found ", found));
}

}  // namespace

absl::StatusOr<DataHeader> ReadDataHeader(absl::string_view head,
                                          uint64_t bytes, bool named_shard) {
  const uint32_t magic = head.size() >= 4 ? Word(head, 0) : 0;
  for (const Foreign& foreign : kForeign) {
    if (magic != foreign.magic) continue;
    return Refused("magic", absl::StrCat(kMagic, " (tokens of 16 bits)"),
                   absl::StrCat(magic, ": ", foreign.what));
  }
  if (magic != kMagic) {
    if (!named_shard) return DataHeader{DataKind::kBytes, bytes};
    return Refused("magic",
                   absl::StrCat(kMagic,
                                ", as its name ends in .bin (a file "
                                "of text must have another name)"),
                   head.size() >= 4 ? absl::StrCat(magic)
                                    : absl::StrCat(head.size(), " bytes"));
  }
  if (head.size() < kShardHeaderBytes) {
    return Refused("header", absl::StrCat(kShardHeaderBytes, " bytes"),
                   absl::StrCat(head.size()));
  }
  if (Word(head, 1) != kVersion) {
    return Refused("version", absl::StrCat(kVersion),
                   absl::StrCat(Word(head, 1)));
  }
  const uint64_t tokens = Word(head, 2);
  if (tokens > INT32_MAX) {
    return Refused("token count", absl::StrCat("0 to ", INT32_MAX),
                   absl::StrCat(static_cast<int32_t>(Word(head, 2))));
  }
  if (bytes != kShardHeaderBytes + 2 * tokens) {
    return Refused("size",
                   absl::StrCat(kShardHeaderBytes + 2 * tokens, " bytes for ",
                                tokens, " tokens"),
                   absl::StrCat(bytes));
  }
  return DataHeader{DataKind::kShard, tokens};
}

}  // namespace rollcall
