#include "client/cli/completion/command_tree.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace rollcall {
namespace {

TEST(CommandTree, HasWhatTheParserHas) {
  const CommandTree tree = MakeCommandTree();
  std::map<std::string, const CommandTree*> commands;
  for (const CommandTree& command : tree.commands) {
    commands[command.name] = &command;
  }
  EXPECT_FALSE(commands.contains("agent"));
  ASSERT_TRUE(commands.contains("token"));
  EXPECT_EQ(commands["token"]->commands.size(), 5u);
  ASSERT_TRUE(commands.contains("completion"));
  EXPECT_EQ(commands["completion"]->words,
            (std::vector<std::string>{"bash", "zsh", "fish"}));
}

// The bash script finds out what values a flag takes by the flag's name only.
TEST(CommandTree, AFlagHasTheSameKindOfValueInAllCommands) {
  using Kind = std::pair<CommandTree::Value, std::vector<std::string>>;
  std::map<std::string, Kind> kinds;
  const std::function<void(const CommandTree&)> visit =
      [&](const CommandTree& command) {
        for (const CommandTree::Flag& flag : command.flags) {
          for (const std::string& name : flag.names) {
            const Kind kind(flag.value, flag.words);
            EXPECT_EQ(kinds.try_emplace(name, kind).first->second, kind)
                << command.name << " " << name;
          }
        }
        for (const CommandTree& below : command.commands) visit(below);
      };
  visit(MakeCommandTree());
  EXPECT_EQ(kinds.at("--grow").second,
            (std::vector<std::string>{"boundary", "never"}));
  EXPECT_EQ(kinds.at("--log-dir").first, CommandTree::Value::kFolder);
  EXPECT_EQ(kinds.at("--job").first, CommandTree::Value::kJob);
  EXPECT_EQ(kinds.at("--json").first, CommandTree::Value::kNone);
  EXPECT_EQ(kinds.at("--listen").first, CommandTree::Value::kUnknown);
}

}  // namespace
}  // namespace rollcall
