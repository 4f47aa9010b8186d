// TerminalScreen: what a terminal gets for a full screen of lines, and what
// gives it back.
//
// Pure; any thread.
#ifndef ROLLCALL_CLIENT_ADMIN_TERMINAL_SCREEN_H_
#define ROLLCALL_CLIENT_ADMIN_TERMINAL_SCREEN_H_

#include <string>
#include <vector>

#include "client/admin/job_screen.h"

namespace rollcall {

// Changes to the alternate screen, without a cursor and without wrapping, and
// clears it.
std::string EnterScreen();
// Returns to the screen and the cursor of before. Harmless without EnterScreen.
std::string LeaveScreen();

// Only the lines that differ. `before`: what the screen shows; empty: nothing
// is known of it, and it is cleared. `colours`: lines may have a style.
std::string DrawScreen(const std::vector<ScreenLine>& before,
                       const std::vector<ScreenLine>& after, bool colours);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_ADMIN_TERMINAL_SCREEN_H_
