#include "client/admin/live_line.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace rollcall {
namespace {

// A line that wraps cannot be removed.
size_t Columns() {
  winsize size = {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 20) {
    return 79;
  }
  return size.ws_col - 1u;
}

}  // namespace

bool LiveLine::OnTerminal() {
  const char* term = getenv("TERM");
  return isatty(STDERR_FILENO) == 1 &&
         (term == nullptr || absl::string_view(term) != "dumb");
}

void LiveLine::Show(const std::string& substance, const std::string& elapsed) {
  if (!terminal_) {
    if (substance == substance_) return;
    substance_ = substance;
    to_.Say(absl::StrCat("rollcall: ", substance, "\n"));
    return;
  }
  // A held terminal would later show the line for every second.
  if (substance == substance_ && shown_ && !to_.written()) return;
  substance_ = substance;
  std::string line = absl::StrCat("rollcall: ", substance, elapsed);
  if (line.size() > Columns()) line.resize(Columns());
  to_.Say(absl::StrCat("\r\033[K", line));
  shown_ = true;
}

void LiveLine::Clear() {
  substance_.clear();
  if (!shown_) return;
  shown_ = false;
  to_.Say("\r\033[K");
}

void LiveLine::Print(absl::string_view text) {
  // In one piece, because it may be dropped.
  to_.Say(absl::StrCat(shown_ ? "\r\033[K" : "", "rollcall: ", text, "\n"));
  shown_ = false;
}

}  // namespace rollcall
