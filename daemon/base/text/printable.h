// Makes text from people and other programs safe for terminals, logs and files.
//
// Pure; any thread.
#ifndef ROLLCALL_DAEMON_BASE_TEXT_PRINTABLE_H_
#define ROLLCALL_DAEMON_BASE_TEXT_PRINTABLE_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace rollcall {

// `text` with invalid UTF-8, control characters, Unicode's line separators,
// direction marks and invisible characters replaced by '?', at most `bytes_max`
// bytes. For text that people wrote (reasons, stderr tails), which is cleaned
// and not refused. If `multiline`, newlines and tabs stay.
std::string Printable(std::string_view text, size_t bytes_max,
                      bool multiline = false);

// `text` in quotes for a log line. Characters that could end the quotes or
// forge a line are escaped.
std::string Quoted(std::string_view text);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_BASE_TEXT_PRINTABLE_H_
