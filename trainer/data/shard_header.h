// What a data file is, by its first bytes: any bytes, or a token shard as llm.c
// writes them.
//
// Pure, and made for whatever bytes there are.
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

// `head` are the first kShardHeaderBytes of a file of `bytes`, or all of it if
// it is shorter; `named_shard`: its name ends as a shard's does, so that it
// must be one. INVALID_ARGUMENT: a file of llm.c's that holds something else,
// or a shard that is damaged; the field, what was expected and what was found.
absl::StatusOr<DataHeader> ReadDataHeader(absl::string_view head,
                                          uint64_t bytes, bool named_shard);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_DATA_SHARD_HEADER_H_
