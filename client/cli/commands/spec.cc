// `rollcall launch --spec FILE`: converts the file's settings to flags. Flags
// on the command line override them.
#include <map>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/job_lookup.h"
#include "client/launch/run_spec/exclusive_flags.h"
#include "client/launch/run_spec/run_spec.h"
#include "client/launch/takeover/launch_folder.h"
#include "daemon/base/files/whole_file.h"

namespace rollcall {
namespace {

absl::Status CheckFlag(const std::string& flag, const std::string& value) {
  Argv args;
  args.flags = {"launch", absl::StrCat(flag, "=", value)};
  args.command = {"true"};
  args.has_command = true;
  args.with_spec = args.one_of_many = true;
  return ParseFlags(args).status();
}

// Whether the command line has this flag, or a flag that excludes it.
bool Overridden(const std::string& flag, const std::set<std::string>& given) {
  for (const std::string& one : given) {
    if (one == flag || ExcludesFlag(one, flag)) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<Invocation> ReadSpec(const SpecFlags& flags) {
  const auto text = ReadWholeFile(flags.file, kYamlBytesMax);
  if (!text.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--spec: ", text.status().message()));
  }
  const std::string path = AbsolutePath(flags.file);
  auto spec = ParseRunSpec(*text, flags.file, path.substr(0, path.rfind('/')),
                           CheckFlag);
  if (!spec.ok()) return spec.status();
  Argv args = flags.args;
  args.with_spec = true;
  // The place of each flag in the spec, for messages about files that the
  // launcher reads later.
  std::map<std::string, std::string> from;
  // They come before those of the command line, because the later one of two
  // variables with the same name counts.
  std::vector<std::string> variables;
  for (const SpecFlag& flag : spec->flags) {
    if (flag.name == "--env") {
      variables.push_back(absl::StrCat(flag.name, "=", flag.value));
      continue;
    }
    if (Overridden(flag.name, flags.on_command_line)) continue;
    from[flag.name] = absl::StrCat(flags.file, ":", flag.place.line, ":",
                                   flag.place.column, ":");
    args.flags.push_back(absl::StrCat(flag.name, "=", flag.value));
  }
  // flags[0] is `launch`, and --spec follows.
  args.flags.insert(args.flags.begin() + 1, variables.begin(), variables.end());
  if (!args.has_command) args.command = std::move(spec->command);
  if (args.command.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(flags.file,
                     ": expected the key command, or a command after `--`, "
                     "found neither"));
  }
  args.has_command = true;
  auto invocation = ParseFlags(args);
  if (!invocation.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(flags.file, ": ", invocation.status().message()));
  }
  if (auto* launch = std::get_if<LaunchFlags>(&*invocation)) {
    launch->environment = std::move(spec->environment);
    if (from.contains("--hostfile")) {
      launch->hostfile_from = from["--hostfile"];
    }
    if (from.contains("--worker-template")) {
      launch->template_from = from["--worker-template"];
    }
  }
  return invocation;
}

}  // namespace rollcall
