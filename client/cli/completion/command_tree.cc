#include "client/cli/completion/command_tree.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "client/cli/flags/flag_grammar.h"

namespace rollcall {
namespace {

// The lower-case alternatives of a type such as "N|auto" or "boundary|never".
// Upper-case ones are placeholders for values and are left out.
std::vector<std::string> WordsOf(const std::string& type) {
  std::vector<std::string> words = absl::StrSplit(type, '|', absl::SkipEmpty());
  words.erase(std::remove_if(words.begin(), words.end(),
                             [](const std::string& word) {
                               return !std::all_of(
                                   word.begin(), word.end(), [](char c) {
                                     return absl::ascii_islower(c) || c == '-';
                                   });
                             }),
              words.end());
  return words;
}

CommandTree::Value ValueOf(const CLI::Option& option,
                           const std::vector<std::string>& words) {
  if (option.get_items_expected_max() == 0) return CommandTree::Value::kNone;
  const std::string type = option.get_type_name();
  if (type == "FILE" || type == "PATH") return CommandTree::Value::kFile;
  if (type == "DIR") return CommandTree::Value::kFolder;
  if (type == "ID") return CommandTree::Value::kJob;
  return words.empty() ? CommandTree::Value::kUnknown
                       : CommandTree::Value::kWords;
}

CommandTree::Flag FlagOf(const CLI::Option& option) {
  CommandTree::Flag flag;
  for (const std::string& name : option.get_lnames()) {
    flag.names.push_back("--" + name);
  }
  for (const std::string& name : option.get_snames()) {
    flag.names.push_back("-" + name);
  }
  flag.help = absl::StrReplaceAll(option.get_description(), {{"\n", " "}});
  flag.words = WordsOf(option.get_type_name());
  flag.value = ValueOf(option, flag.words);
  return flag;
}

CommandTree TreeOf(const CLI::App& app) {
  CommandTree tree;
  tree.name = app.get_name();
  const std::string help = app.get_description();
  tree.help = help.substr(0, help.find('\n'));
  bool first = true;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional()) {
      if (!option->get_group().empty()) tree.flags.push_back(FlagOf(*option));
    } else if (std::exchange(first, false)) {
      tree.words = WordsOf(option->get_type_name());
    }
  }
  for (const CLI::App* command : app.get_subcommands({})) {
    if (!command->get_group().empty()) {
      tree.commands.push_back(TreeOf(*command));
    }
  }
  return tree;
}

}  // namespace

CommandTree MakeCommandTree() {
  TypedFlags typed;
  return TreeOf(*MakeParser(typed));
}

}  // namespace rollcall
