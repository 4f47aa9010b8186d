#include "client/cli/flags/argv.h"

#include <signal.h>
#include <string.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

// Converts --nproc_per_node=2 to --nproc-per-node=2; values are not changed.
std::string WithDashes(std::string word) {
  if (!absl::StartsWith(word, "--")) return word;
  const size_t name_end = std::min(word.find('='), word.size());
  std::replace(word.begin(),
               word.begin() + static_cast<std::ptrdiff_t>(name_end), '_', '-');
  return word;
}

struct NamedSignal {
  const char* name;
  int number;
};
// Signals that a scheduler or a user is likely to choose.
constexpr NamedSignal kSignals[] = {
    {"HUP", SIGHUP},   {"INT", SIGINT},     {"QUIT", SIGQUIT},
    {"ABRT", SIGABRT}, {"USR1", SIGUSR1},   {"USR2", SIGUSR2},
    {"PIPE", SIGPIPE}, {"ALRM", SIGALRM},   {"TERM", SIGTERM},
    {"CHLD", SIGCHLD}, {"CONT", SIGCONT},   {"TSTP", SIGTSTP},
    {"TTIN", SIGTTIN}, {"TTOU", SIGTTOU},   {"URG", SIGURG},
    {"XCPU", SIGXCPU}, {"XFSZ", SIGXFSZ},   {"VTALRM", SIGVTALRM},
    {"PROF", SIGPROF}, {"WINCH", SIGWINCH}, {"IO", SIGIO},
    {"PWR", SIGPWR},   {"SYS", SIGSYS}};

}  // namespace

Argv SplitArguments(int argc, char** argv) {
  Argv args;
  for (int i = 1; i < argc; ++i) {
    if (args.has_command) {
      args.command.push_back(argv[i]);
    } else if (strcmp(argv[i], "--") == 0) {
      args.has_command = true;
    } else {
      args.flags.push_back(WithDashes(argv[i]));
    }
  }
  return args;
}

bool LooksSecret(const std::string& word) {
  if (absl::StartsWith(word, "rc1.")) return true;
  // The length of the shortest join string. All of its characters must be from
  // the alphabet of join strings.
  constexpr size_t kMin = 48;
  return word.size() >= kMin &&
         std::all_of(word.begin(), word.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
         });
}

void HideSecrets(int argc, char** argv) {
  for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; ++i) {
    // Blanks around it are ignored, as in decoding.
    const absl::string_view word = absl::StripAsciiWhitespace(argv[i]);
    if (!LooksSecret(std::string(word))) continue;
    memset(argv[i] + (word.data() - argv[i]) + 4, 'x', word.size() - 4);
  }
}

std::string WithoutJoinStrings(absl::string_view text) {
  constexpr absl::string_view kBegin = "rc1.";
  std::string shown;
  for (size_t at = 0; at != text.npos;) {
    const size_t begin = text.find(kBegin, at);
    if (begin == text.npos) {
      absl::StrAppend(&shown, text.substr(at));
      break;
    }
    size_t end = begin + kBegin.size();
    absl::StrAppend(&shown, text.substr(at, end - at));
    const size_t secret = end;
    while (end < text.size() &&
           (absl::ascii_isalnum(text[end]) || text[end] == '-' ||
            text[end] == '_' || text[end] == '.')) {
      ++end;
    }
    if (end > secret) shown += "[hidden]";
    at = end;
  }
  return shown;
}

absl::StatusOr<absl::Duration> ParseDurationFlag(const std::string& flag,
                                                 const std::string& text,
                                                 absl::Duration most) {
  absl::Duration duration;
  double seconds = 0;
  if (absl::SimpleAtod(text, &seconds)) {
    // The comparison is false for NaN too.
    duration = seconds > 0 ? absl::Seconds(seconds) : absl::ZeroDuration();
  } else if (!absl::ParseDuration(text, &duration)) {
    duration = absl::ZeroDuration();
  }
  if (duration <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        flag, " takes a duration such as 30s, 10m or 1h30m, not '", text, "'"));
  }
  if (duration > most) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, " takes a duration of at most ",
                     absl::FormatDuration(most), ", not '", text, "'"));
  }
  return duration;
}

absl::StatusOr<int> ParseSignalFlag(const std::string& flag,
                                    const std::string& text) {
  const std::string word = absl::AsciiStrToUpper(text);
  const std::string name(absl::StripPrefix(word, "SIG"));
  int number = 0;
  for (const NamedSignal& one : kSignals) {
    if (name == one.name) number = one.number;
  }
  if (number == 0 && !absl::SimpleAtoi(text, &number)) number = 0;
  // A process cannot handle SIGKILL and SIGSTOP.
  const bool good = number >= 1 && number <= SIGRTMAX && number != SIGKILL &&
                    number != SIGSTOP;
  if (good) return number;
  return absl::InvalidArgumentError(absl::StrCat(
      flag,
      " takes a signal that a process can handle, such as TERM, SIGUSR1 "
      "or 10, not '",
      text, "'"));
}

absl::StatusOr<NodeCount> ParseNodes(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  NodeCount count;
  const bool good = (parts.size() == 1 || parts.size() == 2) &&
                    absl::SimpleAtoi(parts.front(), &count.min) &&
                    absl::SimpleAtoi(parts.back(), &count.max) &&
                    count.min >= 1 && count.min <= count.max &&
                    count.max <= Limits::nodes_max;
  if (!good) {
    return absl::InvalidArgumentError(
        absl::StrCat("--nodes takes N or MIN:MAX with 1 <= MIN <= MAX <= ",
                     Limits::nodes_max, ", not '", text, "'"));
  }
  return count;
}

}  // namespace rollcall
