#include "client/doctor/observe.h"

#include <linux/capability.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/facts/system.h"

namespace rollcall {

bool MayLockMemory(absl::string_view status, absl::string_view uid_map) {
  // Only the initial user namespace maps all of them to themselves
  // (user_namespaces(7)); a capability in another one does not lift the limit.
  const std::vector<absl::string_view> mapped =
      absl::StrSplit(uid_map, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  if (mapped != std::vector<absl::string_view>{"0", "0", "4294967295"}) {
    return false;
  }
  for (absl::string_view line : absl::StrSplit(status, '\n')) {
    if (!absl::ConsumePrefix(&line, "CapEff:")) continue;
    uint64_t capabilities = 0;
    return absl::SimpleHexAtoi(absl::StripAsciiWhitespace(line),
                               &capabilities) &&
           (capabilities >> CAP_IPC_LOCK & 1) != 0;
  }
  return false;
}

bool MayLockMemory() {
  return MayLockMemory(ReadSmallFile("/proc/self/status"),
                       ReadSmallFile("/proc/self/uid_map"));
}

void AddFolder(const std::string& folder, v1::Facts& facts) {
  for (const v1::FolderSpace& known : facts.folders()) {
    if (known.path() == folder) return;
  }
  v1::FolderSpace& space = *facts.add_folders();
  space.set_path(folder);
  struct statvfs stat {};
  std::string path = folder;
  int failed = statvfs(path.c_str(), &stat);
  while (failed != 0 && errno == ENOENT && path.find('/') != path.npos &&
         path != "/") {
    const size_t end = path.rfind('/');
    path = end == 0 ? "/" : path.substr(0, end);
    failed = statvfs(path.c_str(), &stat);
  }
  if (failed != 0) {
    v1::MissingFact& missing = *facts.add_missing();
    missing.set_fact(absl::StrCat("folders.", folder));
    missing.set_reason(
        absl::StrCat("statvfs of ", path, ": ", strerror(errno)));
    return;
  }
  space.set_free_bytes(uint64_t{stat.f_bavail} * stat.f_frsize);
  space.set_size_bytes(uint64_t{stat.f_blocks} * stat.f_frsize);
}

}  // namespace rollcall
