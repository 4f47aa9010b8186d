// LineFile: a file that only grows by whole lines, within a bound.
//
// When a line does not fit, the file is renamed, replaces an older file of that
// name, and a new one begins. A line that cannot be written (because the disk
// is full) leaves no part behind; a part that a killed daemon left is ended, so
// that the next line is a line of its own.
//
// Thread rule: one thread at a time.
#ifndef ROLLCALL_DAEMON_SERVER_EVENTS_LINE_FILE_H_
#define ROLLCALL_DAEMON_SERVER_EVENTS_LINE_FILE_H_

#include <cstddef>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "daemon/base/files/fd.h"

namespace rollcall {

class LineFile {
 public:
  // Returns the lines that a new file begins with after a rename; each ends
  // with a newline. If they cannot be written, it is asked again for the next
  // line.
  using FirstLines = std::function<std::string()>;

  // `path` is made at the first line, and only its owner may read it. `older`:
  // its name once it has `bytes_max` bytes.
  LineFile(std::string path, std::string older, size_t bytes_max,
           FirstLines first_lines = nullptr);

  // `lines` ends with a newline. Returns whether all of it was written;
  // otherwise nothing of it was.
  bool Append(absl::string_view lines);

 private:
  bool Open();
  bool Rotate();
  bool WriteFirstLines();
  bool Write(absl::string_view lines);

  const std::string path_;
  const std::string older_;
  const size_t bytes_max_;
  const FirstLines first_lines_;
  Fd file_;
  size_t bytes_ = 0;
  bool lacks_first_lines_ = false;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_EVENTS_LINE_FILE_H_
