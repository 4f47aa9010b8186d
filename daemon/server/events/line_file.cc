#include "daemon/server/events/line_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

namespace rollcall {

LineFile::LineFile(std::string path, std::string older, size_t bytes_max,
                   FirstLines first_lines)
    : path_(std::move(path)),
      older_(std::move(older)),
      bytes_max_(bytes_max),
      first_lines_(std::move(first_lines)) {}

bool LineFile::Append(absl::string_view lines) {
  if (!file_.open() && !Open()) return false;
  if (bytes_ + lines.size() > bytes_max_ && !Rotate()) return false;
  return WriteFirstLines() && Write(lines);
}

bool LineFile::Open() {
  file_ = Fd(open(path_.c_str(),
                  O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  struct stat info;
  if (!file_.open() || fstat(file_.get(), &info) != 0) {
    file_.Close();
    return false;
  }
  bytes_ = static_cast<size_t>(info.st_size);
  char last = '\n';
  if (bytes_ > 0 && pread(file_.get(), &last, 1, info.st_size - 1) == 1 &&
      last != '\n') {
    Write("\n");
  }
  return true;
}

bool LineFile::Rotate() {
  if (std::rename(path_.c_str(), older_.c_str()) != 0) return false;
  file_.Close();
  lacks_first_lines_ = first_lines_ != nullptr;
  return Open();
}

bool LineFile::WriteFirstLines() {
  if (!lacks_first_lines_) return true;
  lacks_first_lines_ = !Write(first_lines_());
  return !lacks_first_lines_;
}

bool LineFile::Write(absl::string_view lines) {
  if (lines.empty()) return true;
  const ssize_t wrote = write(file_.get(), lines.data(), lines.size());
  if (wrote == static_cast<ssize_t>(lines.size())) {
    bytes_ += lines.size();
    return true;
  }
  // A disk that fills may have room for a part. If it cannot be removed, the
  // next Open ends the line.
  if (wrote > 0 && ftruncate(file_.get(), static_cast<off_t>(bytes_)) != 0) {
    file_.Close();
  }
  return false;
}

}  // namespace rollcall
