// Command lines, split into arguments at zero bytes, and the values in them:
// durations, node counts.
//
// Oracle: nothing throws. The arguments after `--` are passed on unchanged.
// Accepted values are within their bounds. Join strings are removed from argv.
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "client/cli/flags/argv.h"
#include "client/cli/flags/flags.h"
#include "daemon/base/text/nearest.h"
#include "daemon/core/admission/admission.h"
#include "daemon/core/limits.h"
#include "tests/fuzz/feed.h"
#include "tests/fuzz/oracle.h"

namespace rollcall {
namespace {

constexpr size_t kWordsMax = 64;

struct Arguments {
  std::vector<std::string> words = {"rollcall"};
  std::vector<char*> argv;

  explicit Arguments(std::string_view text) {
    while (!text.empty() && words.size() < kWordsMax) {
      const size_t end = std::min(text.find('\0'), text.size());
      words.emplace_back(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
  }
  int argc() const { return static_cast<int>(words.size()); }
};

void CheckSettings(const v1::JobSettings& settings) {
  const absl::Status admitted = AdmitSettings(settings);
  Expect(admitted.ok(), "settings that were typed are admitted",
         std::string(admitted.message()));
}

void Check(const Invocation& invocation, const Argv& args) {
  if (const auto* launch = std::get_if<LaunchFlags>(&invocation)) {
    CheckSettings(launch->settings);
    Expect(launch->command == args.command && !args.command.empty(),
           "a command comes through as it is");
    Expect(launch->job.empty() || AdmitJobId(launch->job).ok(), "a job id",
           launch->job);
  } else if (const auto* join = std::get_if<JoinFlags>(&invocation)) {
    CheckSettings(join->settings);
    Expect(join->command == args.command && !args.command.empty(),
           "a command comes through as it is");
    Expect(join->local.name.empty() || AdmitNodeName(join->local.name).ok(),
           "a node name", join->local.name);
  } else if (const auto* stop = std::get_if<StopFlags>(&invocation)) {
    Expect(stop->exit_code >= 0 && stop->exit_code <= 255, "an exit code");
  }
}

void CommandLine(std::string_view text) {
  Arguments arguments(text);
  const Argv args = SplitArguments(arguments.argc(), arguments.argv.data());
  size_t dashes = 1;
  while (dashes < arguments.words.size() && arguments.words[dashes] != "--") {
    ++dashes;
  }
  Expect(args.has_command == (dashes < arguments.words.size()),
         "a command follows the first --");
  for (size_t i = 0; i < args.command.size(); ++i) {
    Expect(args.command[i] == arguments.words[dashes + 1 + i],
           "what follows -- stays as it is", args.command[i]);
  }
  const absl::StatusOr<Invocation> invocation = ParseFlags(args);
  if (invocation.ok()) Check(*invocation, args);
  HideSecrets(arguments.argc(), arguments.argv.data());
  for (size_t i = 1; i < dashes; ++i) {
    // Blanks around a join string stay.
    const absl::string_view word =
        absl::StripAsciiWhitespace(arguments.words[i]);
    const bool join = absl::StartsWith(word, "rc1.");
    Expect(!join || word.find_first_not_of('x', 4) == word.npos,
           "a join string is gone from argv", {word.data(), word.size()});
  }
}

void Values(std::string_view text) {
  const std::string word(text);
  const auto duration = ParseDurationFlag("--join-timeout", word);
  if (duration.ok()) {
    Expect(
        *duration > absl::ZeroDuration() && *duration <= absl::Hours(24 * 366),
        "a duration is more than zero and less than a year", word);
  }
  const auto nodes = ParseNodes(word);
  if (nodes.ok()) {
    Expect(nodes->min >= 1 && nodes->min <= nodes->max &&
               nodes->max <= Limits::nodes_max,
           "a node count is within its bounds", word);
  }
  if (word.size() < 256) Nearest(word, {"--nodes", "--grow", "--job"});
}

}  // namespace
}  // namespace rollcall

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  rollcall::Feed feed(data, size);
  if (feed.Byte() < 0xC0) {
    rollcall::CommandLine(feed.Rest());
  } else {
    rollcall::Values(feed.Rest());
  }
  return 0;
}
