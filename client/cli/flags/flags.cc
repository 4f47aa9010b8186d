#include "client/cli/flags/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/flags/flag_grammar.h"
#include "client/cli/flags/flag_values.h"
#include "client/cli/flags/flags_text.h"
#include "daemon/base/text/nearest.h"

namespace rollcall {
namespace {

std::vector<std::string> FlagNames(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      names.push_back("--" + name);
    }
  }
  return names;
}

std::vector<std::string> CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) {
    if (!command->get_group().empty()) names.push_back(command->get_name());
  }
  return names;
}

std::set<std::string> GivenFlags(const CLI::App& command) {
  std::set<std::string> given;
  for (const CLI::Option* option : command.get_options()) {
    if (option->empty()) continue;
    for (const std::string& name : option->get_lnames()) {
      given.insert("--" + name);
    }
  }
  return given;
}

absl::Status Unknown(const std::string& kind, const std::string& word,
                     const std::vector<std::string>& known,
                     const std::string& help) {
  const std::string name = word.substr(0, word.find('='));
  const auto nearest = Nearest(name, known);
  return absl::InvalidArgumentError(
      absl::StrCat("unknown ", kind, " ", name,
                   nearest ? absl::StrCat("; did you mean ", *nearest, "?")
                           : absl::StrCat("; see `", help, "`")));
}

absl::Status WithoutCommand(const CLI::App& app) {
  const std::vector<std::string> extras = app.remaining();
  if (extras.empty()) {
    return absl::InvalidArgumentError(
        "expected a command: run, launch, join, status, drain, evict, stop, "
        "token, doctor, detect, render, completion or version; see `rollcall "
        "--help`");
  }
  return Unknown(absl::StartsWith(extras[0], "-") ? "flag" : "command",
                 extras[0], CommandNames(app), "rollcall --help");
}

absl::Status CheckExtras(const CLI::App& app, const CLI::App& command) {
  const std::string help =
      absl::StrCat("rollcall ", command.get_name(), " --help");
  std::vector<std::string> extras = command.remaining();
  if (extras.empty()) extras = app.remaining();
  for (const std::string& extra : extras) {
    if (absl::StartsWith(extra, "-")) {
      return Unknown("flag", extra, FlagNames(command), help);
    }
  }
  if (extras.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("unexpected word '", extras[0],
                   "'; the command to run goes after `--`, as in `rollcall ",
                   command.get_name(), " ... -- ", extras[0], "`"));
}

// Refuses empty values. An empty value is usually an unset variable, as in
// --job "$JOB", so the user does not mean the default.
absl::Status CheckEmpty(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    // A reason or a description may be empty.
    if (option->get_type_name() == "TEXT") continue;
    for (const std::string& value : option->results()) {
      if (!value.empty()) continue;
      const std::string name = option->get_positional()
                                   ? option->get_name(/*positional=*/true)
                                   : option->get_name();
      const std::string type = option->get_type_name();
      return absl::InvalidArgumentError(absl::StrCat(
          name, ": expected ", type.empty() ? "a value" : type,
          ", got an empty one; is the variable that it comes from set? Leave ",
          name, " out for its default"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

void Fill(Invocation& invocation, const GivenSecrets& given) {
  std::visit(
      [&given](auto& flags) {
        if constexpr (requires { flags.where; }) flags.where.given = given;
        if constexpr (requires { flags.given; }) flags.given = given;
        if constexpr (requires { flags.launch; }) flags.launch.given = given;
      },
      invocation);
}

absl::StatusOr<Invocation> ParseFlags(const Argv& args) {
  // Like other programs, rollcall also has --version as a flag.
  if (args.flags == std::vector<std::string>{"--version"}) {
    return Invocation(VersionFlags{});
  }
  TypedFlags typed;
  const std::unique_ptr<CLI::App> app = MakeParser(typed);
  std::vector<std::string> reversed(args.flags.rbegin(), args.flags.rend());
  try {
    app->parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    return Invocation(HelpText{app->help()});
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(error.what());
  }
  const std::vector<CLI::App*> chosen = app->get_subcommands();
  if (chosen.empty()) return WithoutCommand(*app);
  const CLI::App& command = *chosen.front();
  const bool token = command.get_name() == "token";
  const CLI::App* verb = token && !command.get_subcommands().empty()
                             ? command.get_subcommands().front()
                             : nullptr;
  const CLI::App& last = verb != nullptr ? *verb : command;
  if (absl::Status good = CheckExtras(*app, last); !good.ok()) return good;
  if (absl::Status good = CheckEmpty(last); !good.ok()) return good;
  if (!typed.launch_spec.empty() && !args.with_spec) {
    return Invocation(SpecFlags{typed.launch_spec, args, GivenFlags(command)});
  }
  if (token && !args.has_command) return ReadToken(verb, typed);
  return ReadCommand(command.get_name(), args, typed);
}

}  // namespace rollcall
