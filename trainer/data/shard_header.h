// The kind of a data file, from its first bytes: arbitrary bytes, or a token
// shard in llm.c's format.
//
// Pure, and safe for arbitrary input.
#ifndef ROLLCALL_TRAINER_DATA_SHARD_HEADER_H_
#define ROLLCALL_TRAINER_DATA_SHARD_HEADER_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rollcall {

enum class DataKind { kBytes, kShard };

inline constexpr size_t kShardHeaderBytes = 1024;
inline constexpr int kShardVocabulary = 50257;  // GPT-2's.

struct DataHeader {
  DataKind kind = DataKind::kBytes;
  uint64_t tokens = 0;
};

// `head` has the first kShardHeaderBytes of a file of `bytes` bytes, or the
// whole file if it is shorter. `named_shard`: the file's name ends like a
// shard's, so the file must be a shard. INVALID_ARGUMENT: another kind of llm.c
// file, or a damaged shard; the message has the field, what was expected and
// what was found.
absl::StatusOr<DataHeader> ReadDataHeader(absl::string_view head,
                                          uint64_t bytes, bool named_shard);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_DATA_SHARD_HEADER_H_
