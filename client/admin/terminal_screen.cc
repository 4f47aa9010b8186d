#include "client/admin/terminal_screen.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace rollcall {
namespace {

const char* StyleCode(LineStyle style) {
  switch (style) {
    case LineStyle::kPlain:
      return "";
    case LineStyle::kTitle:
      return "\033[1m";
    case LineStyle::kHeading:
      return "\033[2m";
    case LineStyle::kBad:
      return "\033[31m";
  }
  return "";
}

}  // namespace

std::string EnterScreen() {
  return "\033[?1049h\033[?25l\033[?7l\033[0m\033[2J";
}

std::string LeaveScreen() { return "\033[0m\033[?7h\033[?25h\033[?1049l"; }

std::string DrawScreen(const std::vector<ScreenLine>& before,
                       const std::vector<ScreenLine>& after, bool colours) {
  std::string bytes = before.empty() ? "\033[2J" : "";
  for (size_t row = 0; row < std::max(before.size(), after.size()); ++row) {
    const ScreenLine old = row < before.size() ? before[row] : ScreenLine();
    const ScreenLine line = row < after.size() ? after[row] : ScreenLine();
    if (old == line) continue;
    const std::string style = colours ? StyleCode(line.style) : "";
    // Each line is erased before it is written: after a full line the cursor is
    // on its last character, which would then be erased.
    absl::StrAppend(&bytes, "\033[", row + 1, ";1H\033[K", style, line.text,
                    style.empty() ? "" : "\033[0m");
  }
  return bytes;
}

}  // namespace rollcall
