#include "client/agent/nccl/nccl_mint.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace rollcall {
namespace {

// Enough for an error's text, and for all ids of the largest world.
constexpr size_t kAnswerBytesMax = 4 << 20;

bool IsWhole(const std::string& answer) {
  if (absl::StartsWith(answer, "error ")) return absl::EndsWith(answer, "\n");
  return absl::EndsWith(answer, "\nend\n");
}

absl::Status Named(const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat("mint-nccl-id: ", status.message()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<NcclMint>> NcclMint::Start(
    const Options& options) {
  std::vector<std::string> argv = {"rollcall",   "mint-nccl-id",
                                   "--count",    absl::StrCat(options.count),
                                   "--nccl-lib", options.library};
  if (options.user) {
    argv.insert(argv.end(), {"--user", FormatIds(*options.user)});
  }
  std::vector<std::string> environment;
  for (const std::string& entry : options.environment) {
    if (!absl::StartsWith(entry, "NCCL_COMM_ID=") &&
        !absl::StartsWith(entry, "LD_PRELOAD=")) {
      environment.push_back(entry);
    }
  }
  auto child = ChildProcess::Spawn(options.self, argv, environment);
  if (!child.ok()) return Named(child.status());
  return std::unique_ptr<NcclMint>(
      new NcclMint(*std::move(child), options.count));
}

absl::StatusOr<NcclIds> NcclMint::Await(absl::Duration timeout, int cancel_fd) {
  std::string answer;
  const absl::Status read =
      child_.Read(timeout, kAnswerBytesMax, IsWhole, cancel_fd, answer);
  if (absl::IsAborted(read)) {
    // The child has closed its stdout, so it is ending or broken.
    return absl::FailedPreconditionError(
        absl::StrCat("mint-nccl-id ended ", child_.End().Text()));
  }
  if (!read.ok()) return Named(read);
  auto minted = ParseMintedIds(answer);
  if (minted.ok() && minted->ids.size() != count_) {
    return absl::InvalidArgumentError(absl::StrCat(
        "mint-nccl-id: expected ", count_, " ids, got ", minted->ids.size()));
  }
  return minted;
}

}  // namespace rollcall
