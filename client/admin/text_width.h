// Text width: how many columns of a terminal a text takes.
//
// Each terminal decides this itself. If terminals differ, the larger width is
// returned, so that a text that is cut to a width never wraps.
//
// Pure; any thread.
#ifndef ROLLCALL_CLIENT_ADMIN_TEXT_WIDTH_H_
#define ROLLCALL_CLIENT_ADMIN_TEXT_WIDTH_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace rollcall {

// The number of columns of a text that is valid UTF-8 without control
// characters.
size_t TextWidth(absl::string_view text);

// Any text, without control characters and cut to `columns`.
std::string FitText(absl::string_view text, size_t columns);

// The result of FitText, filled with spaces to exactly `columns`.
std::string PadText(absl::string_view text, size_t columns);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_ADMIN_TEXT_WIDTH_H_
