#include "daemon/base/library.h"

#include <dlfcn.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace rollcall {

absl::StatusOr<Library> Library::Open(const std::vector<std::string>& names) {
  std::vector<std::string> why;
  for (const std::string& name : names) {
    void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle != nullptr) return Library(name, handle);
    const char* error = dlerror();
    why.push_back(error == nullptr ? name : error);
  }
  return absl::NotFoundError(absl::StrJoin(why, "; "));
}

absl::Status Library::Symbol(const char* name, void** found) const {
  *found = dlsym(handle_, name);
  if (*found != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(name_, " has no ", name,
                   ": it is too old, or another library "
                   "of that name"));
}

}  // namespace rollcall
