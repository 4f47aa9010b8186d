// CommandTree: the commands and flags of `rollcall`, as shell completion needs
// them. Made from the parser, so that completion offers what is accepted.
#ifndef ROLLCALL_CLIENT_CLI_COMPLETION_COMMAND_TREE_H_
#define ROLLCALL_CLIENT_CLI_COMPLETION_COMMAND_TREE_H_

#include <string>
#include <vector>

namespace rollcall {

struct CommandTree {
  // What a flag's value is.
  enum class Value {
    kNone,     // The flag has no value.
    kUnknown,  // Nothing can be suggested.
    kFile,
    kFolder,
    kJob,    // A job that has a state folder on this machine.
    kWords,  // Mostly one of `words`.
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
  // What its first positional argument may be.
  std::vector<std::string> words;
  std::vector<CommandTree> commands;
};

// Without hidden commands and flags.
CommandTree MakeCommandTree();

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_CLI_COMPLETION_COMMAND_TREE_H_
