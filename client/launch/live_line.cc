#include "client/launch/live_line.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace rollcall {
namespace {

// A line that wraps cannot be taken back.
size_t Columns() {
  winsize size = {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 20) {
    return 79;
  }
  return size.ws_col - 1u;
}

void Write(const std::string& text) {
  // One write a message: lines of several processes do not mix.
  [[maybe_unused]] ssize_t wrote =
      write(STDERR_FILENO, text.data(), text.size());
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
    Write(absl::StrCat("rollcall: ", substance, "\n"));
    return;
  }
  substance_ = substance;
  std::string line = absl::StrCat("rollcall: ", substance, elapsed);
  if (line.size() > Columns()) line.resize(Columns());
  Write(absl::StrCat("\r\033[K", line));
  shown_ = true;
}

void LiveLine::Clear() {
  substance_.clear();
  if (!shown_) return;
  shown_ = false;
  Write("\r\033[K");
}

void LiveLine::Print(absl::string_view text) {
  if (shown_) {
    shown_ = false;
    Write("\r\033[K");
  }
  Write(absl::StrCat("rollcall: ", text, "\n"));
}

}  // namespace rollcall
