#include "client/doctor/observe.h"

#include <sys/statvfs.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace rollcall {

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
