#include "client/cli/completion/shell_scripts.h"

#include <map>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace rollcall {
namespace {

using Value = CommandTree::Value;

// Lists the jobs with a state folder on this machine; for bash and zsh. Only
// folders of this user and valid job names count, because another user may have
// made the folder below /tmp, and bash expands the texts that it completes. A
// name may contain a newline, so `find` removes such names before the names
// become lines.
constexpr char kJobs[] = R"sh(
_rollcall_jobs() {
  local folder
  for folder in "${XDG_STATE_HOME:-$HOME/.local/state}/rollcall" \
      "${TMPDIR:-/tmp}/rollcall-state-$UID"; do
    [[ -O $folder ]] || continue
    LC_ALL=C command find "$folder/" -mindepth 1 -maxdepth 1 \
      ! -name '*[!a-z0-9-]*' -printf '%f\n' | command grep -xE '.{1,63}'
  done
}
)sh";

// %COMMANDS% is replaced by lines `PATH) flags='...' words='...' ;;`, and
// %VALUES% by lines `FLAG|FLAG) ... ;;` that fill COMPREPLY and return.
constexpr char kBash[] = R"sh(
_rollcall_words() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "$current"); }
_rollcall_files() {
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen "$1" -- "$current")
}

_rollcall() {
  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
  local command='' flags='' words='' i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; ++i)); do
    if [[ ${COMP_WORDS[i]} == -- ]]; then
      if declare -F _command_offset >/dev/null; then
        _command_offset $((i + 1))
      elif ((COMP_CWORD == i + 1)); then
        mapfile -t COMPREPLY < <(compgen -c -- "$current")
      else
        _rollcall_files -f
      fi
      return
    fi
    case "$command ${COMP_WORDS[i]}" in
      %PATHS%) command=${command:+$command }${COMP_WORDS[i]} ;;
    esac
  done
  # --flag=value comes as three words.
  if [[ $current == '=' ]]; then
    current=''
  elif [[ $before == '=' ]] && ((COMP_CWORD > 2)); then
    before=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  case $before in
%VALUES%
  esac
  case $command in
%COMMANDS%
  esac
  if [[ $current == -* || -z $words ]]; then words=$flags; fi
  _rollcall_words "$words"
}
complete -F _rollcall rollcall
)sh";

constexpr char kZsh[] = R"sh(
_rollcall() {
  local curcontext=$curcontext state line
  typeset -A opt_args
  local -a words_known
  _arguments -C '1: :->command' '*:: :->arguments'
  case $state in
    command)
      words_known=(
%COMMANDS%
      )
      _describe command words_known
      ;;
    arguments)
      if (( ${words[(I)--]} && ${words[(I)--]} < CURRENT )); then
        local dashes=${words[(i)--]}
        shift $dashes words
        (( CURRENT -= dashes ))
        _normal
        return
      fi
      case $words[1] in
%ARGUMENTS%
      esac
      ;;
  esac
}

if [[ $funcstack[1] == _rollcall ]]; then
  _rollcall "$@"
else
  compdef _rollcall rollcall
fi
)sh";

constexpr char kFish[] = R"sh(
function __rollcall_jobs
    set -l roots ~/.local/state/rollcall /tmp/rollcall-state-(id -u)
    set -q XDG_STATE_HOME; and set roots[1] $XDG_STATE_HOME/rollcall
    set -q TMPDIR; and set roots[2] $TMPDIR/rollcall-state-(id -u)
    for root in $roots
        test -O $root; or continue
        env LC_ALL=C find $root/ -mindepth 1 -maxdepth 1 \
            ! -name '*[!a-z0-9-]*' -printf '%f\n' |
            string match -r '^.{1,63}$'
    end
end

# Whether the words so far name this command, and no `--` follows.
function __rollcall_is
    set -l words (commandline -opc)
    contains -- -- $words; and return 1
    set -l found
    for word in $words[2..-1]
        string match -q -- '-*' $word; or set -a found $word
    end
    set -l wanted (count $argv)
    test "$found[1..$wanted]" = "$argv"
end

# Whether no command has been named yet.
function __rollcall_none
    set -l words (commandline -opc)
    contains -- -- $words; and return 1
    test (count (string match -v -- '-*' $words)) -lt 2
end

function __rollcall_after_dashes
    contains -- -- (commandline -opc)
end

function __rollcall_command
    set -l words (commandline -opc) (commandline -ct)
    set -l at (contains -i -- -- $words)
    set -e words[1..$at]
    complete -C "$words"
end

complete -c rollcall -f
complete -c rollcall -n __rollcall_after_dashes -a '(__rollcall_command)'
)sh";

// `text` in single quotes, in a form that all three shells accept.
std::string Quoted(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

std::vector<std::string> NamesOf(const std::vector<CommandTree>& commands) {
  std::vector<std::string> names;
  for (const CommandTree& command : commands) names.push_back(command.name);
  return names;
}

// Calls `visit(command, path)` for each command. A path is, for example, "token
// create".
template <typename Visit>
void ForEach(const CommandTree& tree, const std::string& path,
             const Visit& visit) {
  for (const CommandTree& command : tree.commands) {
    const std::string below =
        path.empty() ? command.name : absl::StrCat(path, " ", command.name);
    visit(command, below);
    ForEach(command, below, visit);
  }
}

std::string BashAction(const CommandTree::Flag& flag) {
  switch (flag.value) {
    case Value::kNone:
      break;
    case Value::kUnknown:
      return "return";
    case Value::kFile:
      return "_rollcall_files -f; return";
    case Value::kFolder:
      return "_rollcall_files -d; return";
    case Value::kJob:
      return "_rollcall_words \"$(_rollcall_jobs)\"; return";
    case Value::kWords:
      return absl::StrCat("_rollcall_words '", absl::StrJoin(flag.words, " "),
                          "'; return");
  }
  return "";
}

// A `case` line for each action, with the flags whose values it completes.
std::string BashValues(const CommandTree& tree) {
  std::map<std::string, std::set<std::string>> names_by_action;
  ForEach(tree, "", [&](const CommandTree& command, const std::string&) {
    for (const CommandTree::Flag& flag : command.flags) {
      const std::string action = BashAction(flag);
      if (action.empty()) continue;
      names_by_action[action].insert(flag.names.begin(), flag.names.end());
    }
  });
  std::vector<std::string> lines;
  for (const auto& [action, names] : names_by_action) {
    lines.push_back(
        absl::StrCat("    ", absl::StrJoin(names, "|"), ") ", action, " ;;"));
  }
  return absl::StrJoin(lines, "\n");
}

// A flag for _arguments of zsh: `--grow=[help]:value:(boundary never)`.
std::string ZshFlag(const std::string& name, const CommandTree::Flag& flag) {
  const std::string help = absl::StrReplaceAll(
      flag.help, {{"\\", "\\\\"}, {"[", "\\["}, {"]", "\\]"}, {":", "\\:"}});
  // `*`: the flag may be given several times.
  const std::string head = absl::StrCat("*", name,
                                        flag.value == Value::kNone ? ""
                                        : name.size() == 2         ? "+"
                                                                   : "=",
                                        "[", help, "]");
  switch (flag.value) {
    case Value::kNone:
      return head;
    case Value::kUnknown:
      return absl::StrCat(head, ":value: ");
    case Value::kFile:
      return absl::StrCat(head, ":file:_files");
    case Value::kFolder:
      return absl::StrCat(head, ":folder:_files -/");
    case Value::kJob:
      return absl::StrCat(head, ":job:( $(_rollcall_jobs) )");
    case Value::kWords:
      return absl::StrCat(head, ":value:(", absl::StrJoin(flag.words, " "),
                          ")");
  }
  return head;
}

// The lines of one command in the `case $words[1]` of its parent.
std::string ZshCase(const CommandTree& command, const std::string& indent) {
  std::string text = absl::StrCat(indent, command.name, ")\n");
  std::string arguments = absl::StrCat(indent, "  _arguments -S");
  for (const CommandTree::Flag& flag : command.flags) {
    for (const std::string& name : flag.names) {
      absl::StrAppend(&arguments, " \\\n", indent, "    ",
                      Quoted(ZshFlag(name, flag)));
    }
  }
  if (command.commands.empty()) {
    absl::StrAppend(&arguments, " \\\n", indent, "    ",
                    command.words.empty()
                        ? "'*: : '"
                        : Quoted(absl::StrCat(
                              "1: :(", absl::StrJoin(command.words, " "), ")")),
                    "\n");
    return absl::StrCat(text, arguments, indent, "  ;;");
  }
  // A subcommand's arguments begin one word later.
  absl::StrAppend(
      &text, indent, "  if (( CURRENT == 2 )); then\n", indent,
      "    compadd -- ", absl::StrJoin(NamesOf(command.commands), " "), "\n",
      indent, "    return\n", indent, "  fi\n", indent, "  shift words\n",
      indent, "  (( CURRENT -= 1 ))\n", indent, "  case $words[1] in\n");
  for (const CommandTree& below : command.commands) {
    absl::StrAppend(&text, ZshCase(below, indent + "    "), "\n");
  }
  return absl::StrCat(text, indent, "  esac\n", indent, "  ;;");
}

std::string FishFlag(const CommandTree::Flag& flag) {
  std::string text;
  for (const std::string& name : flag.names) {
    absl::StrAppend(&text, name.size() == 2 ? " -s " : " -l ",
                    name.substr(name.find_first_not_of('-')));
  }
  absl::StrAppend(&text, " -d ", Quoted(flag.help));
  switch (flag.value) {
    case Value::kNone:
      return text;
    case Value::kUnknown:
      return absl::StrCat(text, " -x");
    case Value::kFile:
      return absl::StrCat(text, " -r -F");
    case Value::kFolder:
      return absl::StrCat(text, " -x -a '(__fish_complete_directories)'");
    case Value::kJob:
      return absl::StrCat(text, " -x -a '(__rollcall_jobs)'");
    case Value::kWords:
      return absl::StrCat(text, " -x -a '", absl::StrJoin(flag.words, " "),
                          "'");
  }
  return text;
}

}  // namespace

std::string BashCompletion(const CommandTree& tree) {
  std::vector<std::string> paths;
  std::vector<std::string> commands = {
      absl::StrCat("    '') flags=--help words='",
                   absl::StrJoin(NamesOf(tree.commands), " "), "' ;;")};
  ForEach(tree, "", [&](const CommandTree& command, const std::string& path) {
    // In the form that the script compares: a top-level command has a leading
    // blank.
    const bool top = path.find(' ') == std::string::npos;
    paths.push_back(Quoted(top ? absl::StrCat(" ", path) : path));
    std::vector<std::string> flags;
    for (const CommandTree::Flag& flag : command.flags) {
      flags.insert(flags.end(), flag.names.begin(), flag.names.end());
    }
    std::vector<std::string> words = NamesOf(command.commands);
    words.insert(words.end(), command.words.begin(), command.words.end());
    commands.push_back(absl::StrCat(
        "    ", Quoted(path), ")\n      flags='", absl::StrJoin(flags, " "),
        "'\n      words='", absl::StrJoin(words, " "), "'\n      ;;"));
  });
  return absl::StrCat(
      "# bash completion of rollcall; made by `rollcall completion bash`.\n",
      kJobs,
      absl::StrReplaceAll(kBash,
                          {{"%PATHS%", absl::StrJoin(paths, "|")},
                           {"%VALUES%", BashValues(tree)},
                           {"%COMMANDS%", absl::StrJoin(commands, "\n")}}));
}

std::string ZshCompletion(const CommandTree& tree) {
  std::vector<std::string> commands;
  std::vector<std::string> arguments;
  for (const CommandTree& command : tree.commands) {
    commands.push_back(absl::StrCat(
        "        ", Quoted(absl::StrCat(command.name, ":", command.help))));
    arguments.push_back(ZshCase(command, "        "));
  }
  return absl::StrCat(
      "#compdef rollcall\n"
      "# zsh completion of rollcall; made by `rollcall completion zsh`.\n",
      kJobs,
      absl::StrReplaceAll(kZsh,
                          {{"%COMMANDS%", absl::StrJoin(commands, "\n")},
                           {"%ARGUMENTS%", absl::StrJoin(arguments, "\n")}}));
}

std::string FishCompletion(const CommandTree& tree) {
  std::string text = absl::StrCat(
      "# fish completion of rollcall; made by `rollcall completion fish`.\n",
      kFish);
  for (const CommandTree& command : tree.commands) {
    absl::StrAppend(&text, "complete -c rollcall -n __rollcall_none -a ",
                    command.name, " -d ", Quoted(command.help), "\n");
  }
  ForEach(tree, "", [&](const CommandTree& command, const std::string& path) {
    const std::string head =
        absl::StrCat("complete -c rollcall -n '__rollcall_is ", path, "'");
    std::vector<std::string> words = NamesOf(command.commands);
    words.insert(words.end(), command.words.begin(), command.words.end());
    if (!words.empty()) {
      absl::StrAppend(&text, head, " -a '", absl::StrJoin(words, " "), "'\n");
    }
    for (const CommandTree::Flag& flag : command.flags) {
      absl::StrAppend(&text, head, FishFlag(flag), "\n");
    }
  });
  return text;
}

}  // namespace rollcall
