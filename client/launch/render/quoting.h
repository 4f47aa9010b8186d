// Quotes arguments for YAML, for a line of a shell, and for both.
//
// Pure; any thread. All arguments are valid UTF-8 without zero bytes.
#ifndef ROLLCALL_CLIENT_LAUNCH_RENDER_QUOTING_H_
#define ROLLCALL_CLIENT_LAUNCH_RENDER_QUOTING_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace rollcall {

// `text` as a YAML value that every version of YAML reads as this text: without
// quotes if that is certainly safe, else in double quotes.
std::string YamlText(absl::string_view text);

// Like YamlText in double quotes, with `<` escaped, because << begins a
// placeholder in a worker template.
std::string YamlTextInTemplate(absl::string_view text);

// The lines of a block list, `- WORD`.
std::string YamlList(const std::vector<std::string>& words);

// The words with each $ doubled. Kubernetes expands $(NAME) in a command, and
// compose expands $NAME everywhere; both read $$ as $.
std::vector<std::string> DollarsDoubled(std::vector<std::string> words);

// A line for a POSIX shell.
std::string ShellLine(const std::vector<std::string>& words);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_RENDER_QUOTING_H_
