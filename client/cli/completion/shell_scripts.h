// The completion scripts of bash, zsh and fish. Pure.
#ifndef ROLLCALL_CLIENT_CLI_COMPLETION_SHELL_SCRIPTS_H_
#define ROLLCALL_CLIENT_CLI_COMPLETION_SHELL_SCRIPTS_H_

#include <string>

#include "client/cli/completion/command_tree.h"

namespace rollcall {

// Each script completes commands, flags and their values, and after `--` the
// user's own command. The scripts start no rollcall process. They assume that a
// flag has the same kind of value in all commands.
std::string BashCompletion(const CommandTree& tree);
std::string ZshCompletion(const CommandTree& tree);
std::string FishCompletion(const CommandTree& tree);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_CLI_COMPLETION_SHELL_SCRIPTS_H_
