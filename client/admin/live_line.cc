#include "client/admin/live_line.h"

#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/admin/text_width.h"
#include "daemon/base/clock.h"
#include "daemon/base/live_bell.h"

namespace rollcall {
namespace {

// The time between two drawings of the line while there is much output.
constexpr absl::Duration kBetweenDraws = absl::Milliseconds(50);
// The time until the line is drawn again while the terminal is stopped, or
// another program uses it.
constexpr absl::Duration kDrawAgain = absl::Seconds(1);
// If a terminal gets narrower while the line is drawn, it must cut the line
// instead of wrapping it, because a wrapped line cannot be erased.
constexpr char kNoWrap[] = "\033[?7l";
constexpr char kWrap[] = "\033[?7h";

// The last column stays empty, because some terminals wrap there.
size_t Columns() {
  winsize size = {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 2) {
    return 79;
  }
  return size.ws_col - 1u;
}

// A process outside of the terminal's session gets no foreground group; it
// counts as in the foreground.
bool InBackground() {
  const pid_t foreground = tcgetpgrp(STDERR_FILENO);
  return foreground > 0 && foreground != getpgrp();
}

}  // namespace

LiveLine::LiveLine(Messages& to, bool terminal)
    : to_(to),
      terminal_(terminal),
      bell_(terminal ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1) {}

bool LiveLine::OnTerminal() {
  const char* term = getenv("TERM");
  return isatty(STDERR_FILENO) == 1 && !InBackground() &&
         (term == nullptr || absl::string_view(term) != "dumb");
}

void LiveLine::Show(const std::string& substance, const std::string& elapsed) {
  if (!terminal_) {
    if (substance == substance_) return;
    substance_ = substance;
    to_.Say(absl::StrCat("rollcall: ", substance, "\n"));
    return;
  }
  // A stopped terminal would later show the queued lines of every second.
  if (substance == substance_ && shown_ && !to_.written()) {
    next_draw_ = MonotonicNow() + kDrawAgain;
    return;
  }
  substance_ = substance;
  Draw(FitText(absl::StrCat("rollcall: ", substance, elapsed), Columns()));
}

void LiveLine::ShowOnTerminal(const std::function<std::string(size_t)>& draw) {
  if (!terminal_) return;
  substance_.clear();
  if (shown_ && !to_.written()) {
    next_draw_ = MonotonicNow() + kDrawAgain;
    return;
  }
  Draw(draw(Columns()));
}

void LiveLine::Draw(std::string line) {
  const absl::Time now = MonotonicNow();
  if (overwritten_ && now < next_draw_) return;
  if (shown_ && !overwritten_ && line == drawn_) return;
  next_draw_ = now + kDrawAgain;
  if (InBackground()) return;
  to_.Say(absl::StrCat("\r", kNoWrap, line, "\033[K", kWrap));
  drawn_ = std::move(line);
  next_draw_ = now + kBetweenDraws;
  shown_ = true;
  overwritten_ = false;
}

void LiveLine::Clear() {
  substance_.clear();
  overwritten_ = false;
  if (!shown_) return;
  shown_ = false;
  to_.Say(kEraseLine);
}

void LiveLine::Print(absl::string_view text) {
  // The erase code and the message are one piece, because a piece may be
  // dropped.
  to_.Say(absl::StrCat(shown_ ? kEraseLine : "", "rollcall: ", text, "\n"));
  shown_ = false;
  overwritten_ = false;
}

void LiveLine::Rung() {
  eventfd_t rung = 0;
  if (eventfd_read(bell_.get(), &rung) == 0) Redraw();
}

absl::Time LiveLine::due() const {
  return overwritten_ ? next_draw_ : absl::InfiniteFuture();
}

}  // namespace rollcall
