#include "client/agent/node_files/remove_entries.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/files/fd.h"
#include "daemon/security/crypto/digest.h"

namespace rollcall {
namespace {

constexpr int kFolderFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
// Limits the work, because a process that escaped the sweep could make folders
// as fast as they are removed.
constexpr size_t kLevelsMax = 1 << 16;

std::vector<std::string> NamesIn(int folder) {
  std::vector<std::string> names;
  // Opened again, because a listing moves the file offset of its descriptor.
  Fd listed(openat(folder, ".", kFolderFlags));
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(fdopendir(listed.get()),
                                                    closedir);
  if (entries == nullptr) return names;
  listed.Release();
  while (const dirent* entry = readdir(entries.get())) {
    std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(std::move(name));
  }
  return names;
}

// Removes a file or an empty folder. False: it is a folder with entries, or
// cannot be removed.
bool RemoveSingle(int folder, const std::string& name) {
  if (unlinkat(folder, name.c_str(), 0) == 0 || errno == ENOENT) return true;
  return unlinkat(folder, name.c_str(), AT_REMOVEDIR) == 0;
}

// Removes the folder `name` of `folder` after it has moved its subfolders into
// `folder`, under new names that it adds to `moved`. The subfolders of a deep
// folder are thus reached without a long path and without a descriptor for each
// level.
bool RemoveLevel(int folder, const std::string& name,
                 std::vector<std::string>& moved) {
  const Fd level(openat(folder, name.c_str(), kFolderFlags));
  if (!level.open()) return false;
  for (const std::string& entry : NamesIn(level.get())) {
    if (RemoveSingle(level.get(), entry)) continue;
    std::string fresh =
        absl::StrCat(".removed-", absl::BytesToHexString(RandomBytes(8)));
    if (renameat(level.get(), entry.c_str(), folder, fresh.c_str()) == 0) {
      moved.push_back(std::move(fresh));
    }
  }
  return unlinkat(folder, name.c_str(), AT_REMOVEDIR) == 0;
}

}  // namespace

bool RemoveEntry(int folder, const std::string& name) {
  bool removed = true;
  std::vector<std::string> left = {name};
  for (size_t levels = 0; !left.empty() && levels < kLevelsMax; ++levels) {
    const std::string next = std::move(left.back());
    left.pop_back();
    if (RemoveSingle(folder, next)) continue;
    if (!RemoveLevel(folder, next, left)) removed = false;
  }
  return removed && left.empty();
}

bool RemoveEntries(int folder, const std::set<std::string>& kept) {
  bool removed = true;
  for (const std::string& name : NamesIn(folder)) {
    if (!kept.contains(name) && !RemoveEntry(folder, name)) removed = false;
  }
  return removed;
}

}  // namespace rollcall
