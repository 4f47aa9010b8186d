#include "trainer/collective/blob_exchange.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

constexpr size_t kPiece = Limits::exchange_value_bytes_max;
constexpr size_t kHeader = 8;  // The first piece begins with the blob's size in
                               // hex, in this many bytes.

absl::Status NotABlob(absl::string_view key, size_t rank) {
  return absl::InternalError(absl::StrCat(
      "exchange of \"", key, "\": what rank ", rank,
      " gave is not a piece of a blob of at most ", kBlobBytesMax, " bytes"));
}

// The sizes that the first pieces announce, including the header.
absl::StatusOr<std::vector<size_t>> ReadSizes(
    absl::string_view key, const std::vector<std::string>& first) {
  std::vector<size_t> sizes(first.size());
  for (size_t r = 0; r < first.size(); ++r) {
    uint32_t bytes = 0;
    if (first[r].size() < kHeader ||
        !absl::SimpleHexAtoi(first[r].substr(0, kHeader), &bytes) ||
        bytes > kBlobBytesMax) {
      return NotABlob(key, r);
    }
    sizes[r] = kHeader + bytes;
  }
  return sizes;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExchangeBlobs(const Exchange& exchange,
                                                       absl::string_view key,
                                                       absl::string_view blob) {
  if (blob.size() > kBlobBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("exchange of \"", key, "\": ", blob.size(),
                     " bytes, expected at most ", kBlobBytesMax));
  }
  const std::string mine =
      absl::StrCat(absl::StrFormat("%08x", blob.size()), blob);
  std::vector<std::string> all;
  std::vector<size_t> sizes;
  size_t longest = mine.size();
  for (size_t at = 0; at < longest; at += kPiece) {
    absl::StatusOr<std::vector<std::string>> pieces =
        exchange(absl::StrCat(key, "/", at / kPiece),
                 at < mine.size() ? mine.substr(at, kPiece) : "");
    if (!pieces.ok()) return pieces.status();
    if (at == 0) {
      absl::StatusOr<std::vector<size_t>> read = ReadSizes(key, *pieces);
      if (!read.ok()) return read.status();
      sizes = *std::move(read);
      longest = *std::max_element(sizes.begin(), sizes.end());
      all.resize(sizes.size());
    }
    if (pieces->size() != sizes.size()) return NotABlob(key, pieces->size());
    for (size_t r = 0; r < sizes.size(); ++r) {
      const size_t left = sizes[r] - std::min(sizes[r], at);
      if ((*pieces)[r].size() != std::min(left, kPiece)) {
        return NotABlob(key, r);
      }
      all[r] += (*pieces)[r];
    }
  }
  for (std::string& value : all) value.erase(0, kHeader);
  return all;
}

}  // namespace rollcall
