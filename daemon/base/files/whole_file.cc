#include "daemon/base/files/whole_file.h"

#include <errno.h>
#include <string.h>

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
  std::string text(bytes_max, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) {
    return absl::UnavailableError(
        absl::StrCat("cannot read ", path, ": ", strerror(errno)));
  }
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() == bytes_max &&
      file.peek() != std::ifstream::traits_type::eof()) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot read ", path, ": expected at most ", bytes_max,
                     " bytes, found more"));
  }
  return text;
}

}  // namespace rollcall
