// How words stand in YAML, in a shell's line, and in both.
//
// Pure; any thread. All words are valid UTF-8 without zero bytes.
#ifndef ROLLCALL_CLIENT_LAUNCH_RENDER_QUOTING_H_
#define ROLLCALL_CLIENT_LAUNCH_RENDER_QUOTING_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace rollcall {

// A text as a YAML value that every version of YAML reads as this text: plain
// where that is certain, else in double quotes.
std::string YamlText(absl::string_view text);

// The same in double quotes, with `<` escaped: in the text of a worker
// template,
// << begins a placeholder.
std::string YamlTextInTemplate(absl::string_view text);

// The lines of a block list, `- WORD`.
std::string YamlList(const std::vector<std::string>& words);

// With each $ doubled: Kubernetes expands $(NAME) in a command, and compose
// $NAME everywhere; both read $$ as $.
std::vector<std::string> DollarsDoubled(std::vector<std::string> words);

// A line for a POSIX shell.
std::string ShellLine(const std::vector<std::string>& words);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_RENDER_QUOTING_H_
