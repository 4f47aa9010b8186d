#include "client/agent/run_folder.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "daemon/security/join_string.h"

namespace rollcall {
namespace {

// A socket's address holds 108 bytes with its closing zero.
constexpr size_t kSocketPathMax = 107;
constexpr char kSocketName[] = "/agent.sock";

}  // namespace

absl::StatusOr<std::unique_ptr<RunFolder>> RunFolder::Make(
    const std::string& runtime_dir) {
  const std::string random = absl::BytesToHexString(RandomBytes(4));
  std::string failure;
  for (const std::string& path :
       {absl::StrCat(runtime_dir, "/rollcall-", random),
        absl::StrCat("/tmp/rollcall-", getuid(), "-", random)}) {
    if (path.size() + sizeof(kSocketName) - 1 > kSocketPathMax) continue;
    if (runtime_dir.empty() && path.rfind("/tmp/", 0) != 0) continue;
    // Fails where somebody has put something there first.
    if (mkdir(path.c_str(), 0700) == 0) {
      return std::unique_ptr<RunFolder>(new RunFolder(path));
    }
    failure =
        absl::StrCat("cannot make the folder ", path, ": ", strerror(errno),
                     "; set XDG_RUNTIME_DIR to one that can be written");
  }
  return absl::UnavailableError(failure);
}

RunFolder::RunFolder(std::string path) : path_(std::move(path)) {}

RunFolder::~RunFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string RunFolder::socket() const {
  return absl::StrCat(path_, kSocketName);
}

void RunFolder::Remove(uint64_t generation) {
  std::error_code ignored;
  std::filesystem::remove_all(absl::StrCat(path_, "/gen-", generation),
                              ignored);
}

}  // namespace rollcall
