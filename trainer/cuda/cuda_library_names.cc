#include "trainer/cuda/cuda_library_names.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace rollcall {

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
