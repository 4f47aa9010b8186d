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

std::string BaseName(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

struct NamedSignal {
  const char* name;
  int number;
};
// Signals that a scheduler or a user might choose.
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
  // The length of the shortest join string; all characters are of its alphabet.
  constexpr size_t kMin = 48;
  return word.size() >= kMin &&
         std::all_of(word.begin(), word.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
         });
}

void HideSecrets(int argc, char** argv) {
  for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; ++i) {
    // As decoding reads it: without surrounding blanks.
    const absl::string_view word = absl::StripAsciiWhitespace(argv[i]);
    if (!LooksSecret(std::string(word))) continue;
    memset(argv[i] + (word.data() - argv[i]) + 4, 'x', word.size() - 4);
  }
}

absl::StatusOr<absl::Duration> ParseDurationFlag(const std::string& flag,
                                                 const std::string& text,
                                                 absl::Duration most) {
  absl::Duration duration;
  double seconds = 0;
  if (absl::SimpleAtod(text, &seconds)) {
    // False for NaN too.
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
  // SIGKILL and SIGSTOP reach no handler.
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

std::string ContainerAdvice(const std::vector<std::string>& command) {
  if (command.empty()) return "";
  const std::string program = BaseName(command.front());
  const bool container =
      program == "docker" || program == "nerdctl" ||
      (program == "podman" && command.size() > 1 && command[1] == "run");
  if (!container) return "";
  return absl::StrCat(
      "ranks share the network and the files of their agent, so `", program,
      "` cannot be the command; start rollcall inside the container instead: `",
      program,
      " run --network host ... IMAGE rollcall join JOINSTRING -- "
      "CMD...` (or `rollcall launch ...` for the first node)");
}

namespace {

// The program that starts ranks, or "": the command's own, or the module of
// `python -m MODULE`.
std::string RankStarter(const std::vector<std::string>& command) {
  static constexpr absl::string_view kModules[] = {
      "torch.distributed.run", "torch.distributed.launch",
      "accelerate.commands.launch", "deepspeed.launcher.runner"};
  static constexpr absl::string_view kPrograms[] = {
      "torchrun", "deepspeed", "accelerate", "mpirun", "mpiexec"};
  const std::string program = BaseName(command.front());
  for (const absl::string_view one : kPrograms) {
    if (program == one) return program;
  }
  if (!absl::StartsWith(program, "python")) return "";
  for (size_t i = 1; i + 1 < command.size(); ++i) {
    if (command[i] != "-m") continue;
    for (const absl::string_view one : kModules) {
      if (command[i + 1] == one) return command[i + 1];
    }
    return "";
  }
  return "";
}

}  // namespace

absl::Status CheckRankStarter(const std::vector<std::string>& command,
                              const std::string& nproc_per_node, bool once) {
  if (command.empty() || nproc_per_node == "1" || once) {
    return absl::OkStatus();
  }
  const std::string starter = RankStarter(command);
  if (starter.empty()) return absl::OkStatus();
  const bool mpi = absl::StartsWith(starter, "mpi");
  return absl::InvalidArgumentError(absl::StrCat(
      starter, " starts ranks itself, and with --nproc-per-node ",
      nproc_per_node, " each rank would be a ", starter, " of its own; ",
      mpi ? "give --once, and the hostfile as in `-- mpirun --hostfile "
            "$ROLLCALL_HOSTFILE ...` (within sh -c)"
          : "run the program itself (`-- python train.py`), or give "
            "--nproc-per-node 1 to start one per node"));
}

std::string EmptyValueAdvice(const std::vector<std::string>& command) {
  for (size_t i = 1; i < command.size(); ++i) {
    const std::string& word = command[i];
    const bool assigned =
        absl::StartsWith(word, "-") && absl::EndsWith(word, "=");
    if (!assigned && !(word.empty() && absl::StartsWith(command[i - 1], "-"))) {
      continue;
    }
    return absl::StrCat(
        "the command's flag ", assigned ? word : command[i - 1],
        " has an empty value; if it should be a variable of a rank, such as "
        "$NODE_RANK, the shell has expanded it before rollcall sets it: write "
        "-- sh -c 'CMD ... $NODE_RANK'");
  }
  return "";
}

}  // namespace rollcall
