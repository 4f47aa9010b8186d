// The footer of `rollcall launch --help`: limits and defaults. Pure.
#ifndef ROLLCALL_CLIENT_CLI_FLAGS_FLAGS_TEXT_H_
#define ROLLCALL_CLIENT_CLI_FLAGS_FLAGS_TEXT_H_

#include <string>

namespace rollcall {

std::string LimitsText();

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_CLI_FLAGS_FLAGS_TEXT_H_
