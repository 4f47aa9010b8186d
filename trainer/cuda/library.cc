#include "trainer/cuda/library.h"

#include <dlfcn.h>

#include <cstdlib>
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
                   ": it is too old, or another "
                   "library of that name"));
}

std::vector<std::string> CudaLibraryNames(
    const std::vector<std::string>& sonames) {
  std::vector<std::string> names = sonames;
  std::vector<std::string> homes;
  if (const char* home = std::getenv("CUDA_HOME"); home != nullptr) {
    homes.push_back(home);
  }
  homes.push_back("/usr/local/cuda");
  for (const std::string& home : homes) {
    for (const char* folder : {"/lib64/", "/lib/"}) {
      for (const std::string& soname : sonames) {
        names.push_back(absl::StrCat(home, folder, soname));
      }
    }
  }
  return names;
}

}  // namespace rollcall
