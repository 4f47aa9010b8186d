#include "client/agent/nccl/nccl.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "daemon/base/processes/system_user.h"
#include "daemon/base/text/hex.h"
#include "daemon/core/limits.h"

extern char** environ;

namespace rollcall {
namespace {

constexpr uint32_t kIdsMax =
    Limits::nodes_max * Limits::ranks_per_node_max / Limits::ranks_per_nccl_id;

// The part of NCCL's interface that is used; its header is not needed to build.
struct UniqueId {
  char bytes[Limits::nccl_id_bytes];
};
using GetVersion = int (*)(int*);
using GetUniqueId = int (*)(UniqueId*);
using GetErrorString = const char* (*)(int);

template <typename Function>
Function Symbol(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

}  // namespace

absl::StatusOr<NcclIds> MintNcclIds(const std::string& library,
                                    uint32_t count) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    return absl::NotFoundError(
        absl::StrCat("NCCL cannot be opened: ", why == nullptr ? library : why,
                     "; name its libnccl.so.2 with --nccl-lib"));
  }
  const auto get_version = Symbol<GetVersion>(handle, "ncclGetVersion");
  const auto get_id = Symbol<GetUniqueId>(handle, "ncclGetUniqueId");
  const auto get_error = Symbol<GetErrorString>(handle, "ncclGetErrorString");
  if (get_version == nullptr || get_id == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(library, ": expected NCCL, found a library without ",
                     get_id == nullptr ? "ncclGetUniqueId" : "ncclGetVersion"));
  }
  const auto refused = [&](const char* what, int code) {
    return absl::FailedPreconditionError(
        absl::StrCat(library, ": ", what, ": ",
                     get_error == nullptr ? "NCCL error" : get_error(code),
                     " (", code, "); NCCL_DEBUG=WARN tells more"));
  };
  NcclIds minted;
  int version = 0;
  if (const int code = get_version(&version); code != 0) {
    return refused("ncclGetVersion", code);
  }
  minted.version = static_cast<uint32_t>(version);
  for (uint32_t i = 0; i < count; ++i) {
    UniqueId id{};
    if (const int code = get_id(&id); code != 0) {
      return refused("ncclGetUniqueId", code);
    }
    minted.ids.emplace_back(id.bytes, sizeof(id.bytes));
  }
  return minted;
}

std::string FormatMintedIds(const absl::StatusOr<NcclIds>& minted) {
  if (!minted.ok()) {
    std::string text(minted.status().message());
    std::replace(text.begin(), text.end(), '\n', ' ');
    return absl::StrCat("error ", text, "\n");
  }
  std::string text = absl::StrCat("version ", minted->version, "\n");
  for (const std::string& id : minted->ids) {
    absl::StrAppend(&text, absl::BytesToHexString(id), "\n");
  }
  return text + "end\n";
}

absl::StatusOr<NcclIds> ParseMintedIds(absl::string_view text) {
  if (absl::ConsumePrefix(&text, "error ")) {
    return absl::FailedPreconditionError(text.substr(0, text.find('\n')));
  }
  const auto bad = absl::InvalidArgumentError(
      "mint-nccl-id: expected a version, ids and `end`, found something else");
  NcclIds minted;
  if (!absl::ConsumePrefix(&text, "version ")) return bad;
  std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  if (lines.size() < 3 || !lines.back().empty() ||
      lines[lines.size() - 2] != "end" ||
      !absl::SimpleAtoi(lines[0], &minted.version)) {
    return bad;
  }
  for (size_t i = 1; i + 2 < lines.size(); ++i) {
    const bool is_hex =
        std::all_of(lines[i].begin(), lines[i].end(),
                    [](unsigned char c) { return absl::ascii_isxdigit(c); });
    if (!is_hex || lines[i].size() != 2 * Limits::nccl_id_bytes) return bad;
    minted.ids.push_back(FromHex(lines[i]));
  }
  return minted;
}

int MintNcclIdMain(const std::vector<std::string>& arguments) {
  uint32_t count = 0;
  std::string library;
  for (size_t i = 0; i + 1 < arguments.size(); i += 2) {
    if (arguments[i] == "--count") {
      if (!absl::SimpleAtoi(arguments[i + 1], &count)) count = 0;
    } else if (arguments[i] == "--nccl-lib") {
      library = arguments[i + 1];
    } else if (arguments[i] == "--user") {
      const std::optional<SystemUser> user = ParseIds(arguments[i + 1]);
      const int error = user ? BecomeUser(*user) : EINVAL;
      if (error != 0) {
        std::printf("error cannot become user %s: %s\n",
                    arguments[i + 1].c_str(), strerror(error));
        std::fflush(stdout);
        return 1;
      }
    }
  }
  if (arguments.size() % 2 != 0 || count == 0 || count > kIdsMax) {
    std::fprintf(stderr,
                 "rollcall: mint-nccl-id: expected --count N (1 to %u) "
                 "[--nccl-lib PATH]\n",
                 kIdsMax);
    return 2;
  }
  // If the variable is set, NCCL derives an id from an address instead of
  // minting one.
  unsetenv("NCCL_COMM_ID");
  // NCCL prints its messages to stdout; they must not mix with the answer.
  const int answer_fd = dup(STDOUT_FILENO);
  if (answer_fd < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) return 1;
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    environment.emplace_back(*entry);
  }
  const auto minted = MintNcclIds(FindNcclLibrary(library, environment), count);
  const std::string answer = FormatMintedIds(minted);
  for (size_t at = 0; at < answer.size();) {
    const ssize_t n = write(answer_fd, answer.data() + at, answer.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) _exit(1);
    at += static_cast<size_t>(n);
  }
  if (!minted.ok()) return 1;
  char ignored[64];
  while (true) {
    const ssize_t n = read(STDIN_FILENO, ignored, sizeof(ignored));
    if (n == 0 || (n < 0 && errno != EINTR)) _exit(0);
  }
}

}  // namespace rollcall
