// LiveLine: messages for users on stderr, and one line that is updated while
// something is waited for.
//
// On a terminal the live line is updated in place; otherwise it is printed when
// its substance changes. Thread rule: one thread.
#ifndef ROLLCALL_CLIENT_ADMIN_LIVE_LINE_H_
#define ROLLCALL_CLIENT_ADMIN_LIVE_LINE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "client/admin/messages.h"

namespace rollcall {

class LiveLine {
 public:
  // `to` is borrowed. `terminal`: whether stderr is a terminal.
  LiveLine(Messages& to, bool terminal) : to_(to), terminal_(terminal) {}
  ~LiveLine() { Clear(); }
  LiveLine(const LiveLine&) = delete;
  LiveLine& operator=(const LiveLine&) = delete;

  // Whether this process's stderr is a terminal.
  static bool OnTerminal();

  // `substance`: what is waited for. `elapsed`: the part that changes only with
  // time; shown only on a terminal, and only if earlier output has been
  // written.
  void Show(const std::string& substance, const std::string& elapsed);
  // Removes the live line; the next Show prints it again.
  void Clear();
  // Prints a permanent message: `rollcall: TEXT`. Newlines in it start further
  // lines.
  void Print(absl::string_view text);

  bool terminal() const { return terminal_; }

 private:
  Messages& to_;
  const bool terminal_;
  bool shown_ = false;
  std::string substance_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_ADMIN_LIVE_LINE_H_
