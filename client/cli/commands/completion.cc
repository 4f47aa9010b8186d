// `rollcall completion`: prints the completion script of a shell.
#include <cstdio>

#include "client/cli/commands.h"
#include "client/cli/completion/command_tree.h"
#include "client/cli/completion/shell_scripts.h"

namespace rollcall {

int RunCompletionCommand(const CompletionFlags& flags) {
  const CommandTree tree = MakeCommandTree();
  const std::string script = flags.shell == "bash"  ? BashCompletion(tree)
                             : flags.shell == "zsh" ? ZshCompletion(tree)
                                                    : FishCompletion(tree);
  std::fwrite(script.data(), 1, script.size(), stdout);
  return 0;
}

}  // namespace rollcall
