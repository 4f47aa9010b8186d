// Fill: replaces placeholders such as @JOB@ in the texts of render.h's run
// specs.
//
// Pure; any thread.
#ifndef ROLLCALL_CLIENT_LAUNCH_RENDER_FILL_H_
#define ROLLCALL_CLIENT_LAUNCH_RENDER_FILL_H_

#include <map>
#include <string>

#include "absl/strings/string_view.h"

namespace rollcall {

// By name, without the @. Placeholders inside a value are not replaced.
using FillValues = std::map<std::string, std::string>;

// `text` with values in place of its placeholders. If a line consists only of
// indentation and a placeholder, each line of the value gets that indentation,
// and an empty value removes the line. A placeholder without a value stays.
std::string Fill(absl::string_view text, const FillValues& values);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_RENDER_FILL_H_
