// LiveLine: messages for users on stderr, and one line at the bottom that says
// how a run goes or what it waits for.
//
// On a terminal the live line is updated in place, and is never wider than the
// terminal. Without a terminal it is printed when its substance changes.
//
// Other processes may write to the same terminal: they get the bell's
// descriptor and erase the line themselves (live_bell.h).
//
// Thread rule: one thread.
#ifndef ROLLCALL_CLIENT_ADMIN_LIVE_LINE_H_
#define ROLLCALL_CLIENT_ADMIN_LIVE_LINE_H_

#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/admin/messages.h"
#include "daemon/base/files/fd.h"

namespace rollcall {

class LiveLine {
 public:
  // `to` is borrowed. `terminal`: whether stderr is a terminal.
  LiveLine(Messages& to, bool terminal);
  ~LiveLine() { Clear(); }
  LiveLine(const LiveLine&) = delete;
  LiveLine& operator=(const LiveLine&) = delete;

  // Whether this process's stderr is a terminal that supports escape sequences,
  // and this process is not in the terminal's background.
  static bool OnTerminal();

  // `substance`: what is waited for. `elapsed`: the part that changes only with
  // time; shown only on a terminal, and only if earlier output has been
  // written.
  void Show(const std::string& substance, const std::string& elapsed);
  // A line that is shown only on a terminal, and only if earlier output has
  // been written. `draw` gets the columns that the line may have.
  void ShowOnTerminal(const std::function<std::string(size_t)>& draw);
  // Removes the live line; the next Show prints it again.
  void Clear();
  // Prints a permanent message: `rollcall: TEXT`. Newlines in it start further
  // lines.
  void Print(absl::string_view text);

  // The bell's descriptor for processes that write to this terminal; -1: there
  // is no terminal.
  int bell() const { return bell_.get(); }
  // Readable when such a process has written. -1 from then until the line is
  // drawn again, so that many writes cause only one drawing.
  int fd() const { return overwritten_ ? -1 : bell_.get(); }
  // Call it when `fd` is readable.
  void Rung();
  // Call it when the terminal's size has changed, or another program has used
  // the terminal.
  void Redraw() { overwritten_ = shown_; }
  // When the line must be drawn again.
  absl::Time due() const;

  bool terminal() const { return terminal_; }

 private:
  void Draw(std::string line);

  Messages& to_;
  const bool terminal_;
  const Fd bell_;
  bool shown_ = false;
  bool overwritten_ = false;
  // An overwritten line is not drawn again before this time.
  absl::Time next_draw_ = absl::InfinitePast();
  std::string substance_;
  // The line's text as it was last drawn.
  std::string drawn_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_ADMIN_LIVE_LINE_H_
