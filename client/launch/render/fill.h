// Fill: a text with places such as @JOB@, for the run specs of render.h.
//
// Pure; any thread.
#ifndef ROLLCALL_CLIENT_LAUNCH_RENDER_FILL_H_
#define ROLLCALL_CLIENT_LAUNCH_RENDER_FILL_H_

#include <map>
#include <string>

#include "absl/strings/string_view.h"

namespace rollcall {

// By name, without the @. A value is never searched for places itself.
using FillValues = std::map<std::string, std::string>;

// `text` with values in their places. If a place is all of a line but its
// indentation, each line of the value gets that indentation, and an empty value
// takes the line away. A place without a value stays.
std::string Fill(absl::string_view text, const FillValues& values);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_RENDER_FILL_H_
