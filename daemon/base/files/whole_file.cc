#include "daemon/base/files/whole_file.h"

#include <errno.h>
#include <string.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace rollcall {

absl::StatusOr<std::string> ReadWholeFile(const std::string& path,
                                          size_t bytes_max) {
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown)) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot read ", path,
                     ": expected a file, found a "
                     "directory"));
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return absl::UnavailableError(
        absl::StrCat("cannot read ", path, ": ", strerror(errno)));
  }
  // In blocks, because most files are much smaller than `bytes_max`.
  std::string text;
  char block[16 << 10];
  while (text.size() < bytes_max && file) {
    file.read(block, static_cast<std::streamsize>(
                         std::min(sizeof(block), bytes_max - text.size())));
    text.append(block, static_cast<size_t>(file.gcount()));
  }
  if (file.bad()) {
    return absl::UnavailableError(
        absl::StrCat("cannot read ", path, ": ", strerror(errno)));
  }
  if (text.size() == bytes_max &&
      file.peek() != std::ifstream::traits_type::eof()) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot read ", path, ": expected at most ", bytes_max,
                     " bytes, found more"));
  }
  return text;
}

}  // namespace rollcall
