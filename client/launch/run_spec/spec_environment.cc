#include "client/launch/run_spec/spec_environment.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/text/printable.h"

namespace rollcall {
namespace {

constexpr size_t kNameBytesMax = 256;

// The agent sets these for each rank, so a value from a run spec would be lost.
constexpr absl::string_view kOfTheRank[] = {
    "GROUP_RANK",  "GROUP_WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
    "MASTER_ADDR", "MASTER_PORT",      "NNODES",     "NODE_RANK",
    "RANK",        "ROLE_NAME",        "ROLE_RANK",  "ROLE_WORLD_SIZE",
    "WORLD_SIZE",
};

// The C library or OpenSSL reads these in every process, including the agent.
// Each names files whose code is then executed, or changes the memory layout.
bool LoadsCode(absl::string_view name) {
  return absl::StartsWith(name, "LD_") || name == "GCONV_PATH" ||
         name == "GLIBC_TUNABLES" || absl::StartsWith(name, "OPENSSL_");
}

bool IsName(absl::string_view name) {
  return !name.empty() && name.size() <= kNameBytesMax &&
         !absl::ascii_isdigit(static_cast<unsigned char>(name.front())) &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '_';
         });
}

}  // namespace

absl::Status CheckSpecVariable(const std::string& name) {
  const std::string shown = Printable(name, 60);
  if (!IsName(name)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected a name of letters, digits and _, found '", shown, "'"));
  }
  const bool of_the_rank =
      absl::StartsWith(name, "ROLLCALL_") ||
      absl::StartsWith(name, "TORCHELASTIC_") ||
      std::find(std::begin(kOfTheRank), std::end(kOfTheRank), name) !=
          std::end(kOfTheRank);
  if (of_the_rank) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a variable of your own, found ", shown,
                     ", which rollcall sets"));
  }
  if (!LoadsCode(name)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "expected a variable that loads no code, found ", shown,
      ", which agents would follow as well; begin the command with `env ",
      shown, "=VALUE`"));
}

}  // namespace rollcall
