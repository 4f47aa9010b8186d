// TerminalScreen: the bytes that show a full screen of lines on a terminal, and
// the bytes that restore the terminal.
//
// Pure; any thread.
#ifndef ROLLCALL_CLIENT_ADMIN_TERMINAL_SCREEN_H_
#define ROLLCALL_CLIENT_ADMIN_TERMINAL_SCREEN_H_

#include <string>
#include <vector>

#include "client/admin/job_screen.h"

namespace rollcall {

// Switches to the alternate screen, hides the cursor, turns wrapping off, and
// clears the screen.
std::string EnterScreen();
// Returns to the previous screen and cursor. Harmless without EnterScreen.
std::string LeaveScreen();

// Writes only the lines that differ. `before`: what the screen shows; empty:
// unknown, so the screen is cleared. `colours`: lines may have a style.
std::string DrawScreen(const std::vector<ScreenLine>& before,
                       const std::vector<ScreenLine>& after, bool colours);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_ADMIN_TERMINAL_SCREEN_H_
