// CommandTree: the commands and flags of `rollcall` for shell completion. It is
// made from the parser, so that completion offers only what the parser accepts.
#ifndef ROLLCALL_CLIENT_CLI_COMPLETION_COMMAND_TREE_H_
#define ROLLCALL_CLIENT_CLI_COMPLETION_COMMAND_TREE_H_

#include <string>
#include <vector>

namespace rollcall {

struct CommandTree {
  // The kind of a flag's value.
  enum class Value {
    kNone,     // The flag has no value.
    kUnknown,  // Nothing can be suggested.
    kFile,
    kFolder,
    kJob,    // A job that has a state folder on this machine.
    kWords,  // Usually one of `words`.
  };
  struct Flag {
    std::vector<std::string> names;  // With dashes, as "--nodes" or "-x".
    std::string help;                // One line.
    Value value = Value::kNone;
    std::vector<std::string> words;
  };

  std::string name;
  std::string help;  // One line.
  std::vector<Flag> flags;
  // Possible values of the first positional argument.
  std::vector<std::string> words;
  std::vector<CommandTree> commands;
};

// Leaves out hidden commands and flags.
CommandTree MakeCommandTree();

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_CLI_COMPLETION_COMMAND_TREE_H_
