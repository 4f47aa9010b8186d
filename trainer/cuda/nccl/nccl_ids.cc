#include "trainer/cuda/nccl/nccl_ids.h"

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

constexpr int kRanksPerId = Limits::ranks_per_nccl_id;

absl::Status OtherVersion(absl::string_view who, uint32_t theirs,
                          const NcclLibrary& mine) {
  return absl::FailedPreconditionError(absl::StrCat(
      who, " has NCCL ", theirs, ", this rank ", mine.version, " (", mine.name,
      "): their bootstrap messages differ; install the same version on every "
      "node"));
}

absl::StatusOr<nccl::UniqueId> IdFrom(absl::string_view bytes,
                                      absl::string_view who) {
  nccl::UniqueId id;
  if (bytes.size() != sizeof(id.bytes)) {
    return absl::InternalError(absl::StrCat(who, " sent an NCCL id of ",
                                            bytes.size(), " bytes, expected ",
                                            sizeof(id.bytes)));
  }
  std::memcpy(id.bytes, bytes.data(), bytes.size());
  return id;
}

// The value that a rank sends to all others: its version of NCCL, and an id if
// this rank makes one.
absl::StatusOr<std::string> Mine(const NcclLibrary& library, int rank) {
  const auto version = static_cast<uint32_t>(library.version);
  std::string value(reinterpret_cast<const char*>(&version), sizeof(version));
  if (rank % kRanksPerId != 0) return value;
  nccl::UniqueId id;
  const int code = library.get_unique_id(&id);
  if (code != nccl::kSuccess) {
    return absl::Status(NcclStatusCode(code),
                        absl::StrCat(library.name, ": ncclGetUniqueId: ",
                                     library.error_string(code), ": ",
                                     library.last_error(nullptr)));
  }
  return value + std::string(id.bytes, sizeof(id.bytes));
}

}  // namespace

absl::StatusOr<std::vector<nccl::UniqueId>> AgreeOnNcclIds(
    const NcclLibrary& library, const NcclOptions& options) {
  std::vector<nccl::UniqueId> ids;
  if (!options.ids.empty()) {
    if (options.ids_version != static_cast<uint32_t>(library.version)) {
      return OtherVersion("the process that made the world's ids",
                          options.ids_version, library);
    }
    for (const std::string& bytes : options.ids) {
      const absl::StatusOr<nccl::UniqueId> id = IdFrom(bytes, "the world");
      if (!id.ok()) return id.status();
      ids.push_back(*id);
    }
    return ids;
  }
  const absl::StatusOr<std::string> mine = Mine(library, options.rank);
  if (!mine.ok()) return mine.status();
  const auto all = options.exchange("nccl", *mine);
  if (!all.ok()) return all.status();
  for (size_t rank = 0; rank < all->size(); ++rank) {
    absl::string_view value = (*all)[rank];
    const std::string who = options.name(static_cast<int>(rank));
    uint32_t version = 0;
    if (value.size() < sizeof(version)) {
      return absl::InternalError(
          absl::StrCat(who, ": expected its version of NCCL, 4 bytes, got ",
                       value.size(), "; run one rollcall-train on all nodes"));
    }
    std::memcpy(&version, value.data(), sizeof(version));
    value.remove_prefix(sizeof(version));
    if (version != static_cast<uint32_t>(library.version)) {
      return OtherVersion(who, version, library);
    }
    if (rank % kRanksPerId != 0) continue;
    const absl::StatusOr<nccl::UniqueId> id = IdFrom(value, who);
    if (!id.ok()) return id.status();
    ids.push_back(*id);
  }
  return ids;
}

}  // namespace rollcall
