// ExchangeBlobs: an exchange of values of any size, over one that takes small
// ones: cut into pieces, as many rounds as the longest needs.
//
// What peers send is bounded and checked before it is believed.
#ifndef ROLLCALL_TRAINER_COLLECTIVE_BLOB_EXCHANGE_H_
#define ROLLCALL_TRAINER_COLLECTIVE_BLOB_EXCHANGE_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rollcall {

// Gives a value of up to 4 KiB for a key and gets those of all ranks, by rank,
// once all are in (Rank::Exchange with its timeout bound).
using Exchange = std::function<absl::StatusOr<std::vector<std::string>>(
    const std::string& key, const std::string& value)>;

inline constexpr size_t kBlobBytesMost = 16 << 20;

// Every rank must call it with the same key; the rounds are KEY/0, KEY/1, ...
// Errors: the exchange's own; INVALID_ARGUMENT: `blob` is over kBlobBytesMost;
// INTERNAL: a rank gave what is not a piece of a blob.
absl::StatusOr<std::vector<std::string>> ExchangeBlobs(const Exchange& exchange,
                                                       absl::string_view key,
                                                       absl::string_view blob);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_COLLECTIVE_BLOB_EXCHANGE_H_
