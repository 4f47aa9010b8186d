// LiveLine: messages for a person on stderr, and one line that is rewritten
// while something is waited for.
//
// On a terminal the live line is rewritten in place; elsewhere it is printed
// when its substance changes. Thread rule: one thread.
#ifndef ROLLCALL_CLIENT_ADMIN_LIVE_LINE_H_
#define ROLLCALL_CLIENT_ADMIN_LIVE_LINE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "client/admin/messages.h"

namespace rollcall {

class LiveLine {
 public:
  // Borrowed. `terminal`: stderr is one.
  LiveLine(Messages& to, bool terminal) : to_(to), terminal_(terminal) {}
  ~LiveLine() { Clear(); }
  LiveLine(const LiveLine&) = delete;
  LiveLine& operator=(const LiveLine&) = delete;

  // What stderr of this process is.
  static bool OnTerminal();

  // `substance` is what is waited for, `elapsed` the part that changes with
  // time alone and is shown on a terminal only, where what came before has been
  // written.
  void Show(const std::string& substance, const std::string& elapsed);
  // Takes the live line away; the next Show prints anew.
  void Clear();
  // A message that stays: `rollcall: TEXT`. Newlines in it begin further lines.
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
