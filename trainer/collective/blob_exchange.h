// ExchangeBlobs: exchanges values of any size by means of an exchange of small
// values. Each value is cut into pieces, and the longest value determines the
// number of rounds.
//
// Everything that peers send is bounded and checked.
#ifndef ROLLCALL_TRAINER_COLLECTIVE_BLOB_EXCHANGE_H_
#define ROLLCALL_TRAINER_COLLECTIVE_BLOB_EXCHANGE_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rollcall {

// Gives a value of up to 4 KiB for a key. Returns the values of all ranks, by
// rank, once all have arrived (Rank::Exchange with its timeout bound).
using Exchange = std::function<absl::StatusOr<std::vector<std::string>>(
    const std::string& key, const std::string& value)>;

inline constexpr size_t kBlobBytesMax = 16 << 20;

// Every rank must call it with the same key; the rounds use the keys KEY/0,
// KEY/1, ... Errors: the exchange's own; INVALID_ARGUMENT: `blob` is over
// kBlobBytesMax; INTERNAL: a rank sent a value that is not a piece of a blob.
absl::StatusOr<std::vector<std::string>> ExchangeBlobs(const Exchange& exchange,
                                                       absl::string_view key,
                                                       absl::string_view blob);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_COLLECTIVE_BLOB_EXCHANGE_H_
