#include "client/launch/spawn/remote_agent.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/launch/spawn/spawn.h"
#include "client/launch/spawn/ssh_process.h"
#include "daemon/base/live_bell.h"
#include "daemon/base/processes/signal_pipe.h"
#include "daemon/base/text/lines.h"
#include "daemon/core/exit_codes.h"
#include "daemon/security/crypto/digest.h"

namespace rollcall {
namespace {

constexpr size_t kErrorBytesMax = 1024;
// The limit for the output of `ssh -G`.
constexpr size_t kConfigBytesMax = 64 << 10;
// A host that drops all packets would delay a run for minutes.
constexpr char kConnectTimeout[] = "ConnectTimeout=10";
// A write of at most this size to a pipe is atomic.
constexpr size_t kPieceBytes = PIPE_BUF;

// Writes `text`. Stops silently at the first error: the process must go on if
// the reader has closed the pipe.
void WriteAll(int fd, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote = write(fd, text.data(), text.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0 && errno == EAGAIN) {
      pollfd writable{fd, POLLOUT, 0};
      poll(&writable, 1, -1);
      continue;
    }
    if (wrote <= 0) return;
    text.remove_prefix(static_cast<size_t>(wrote));
  }
}

// Passes one stream on in whole lines, so that lines of several hosts do not
// mix.
class LineRelay {
 public:
  // `to` -1: the output is not passed on. `kept`: how many bytes of the end
  // Tail returns.
  LineRelay(int from, int to, int bell, size_t kept)
      : from_(from),
        to_(to),
        bell_(IsAboveLiveLine(to, bell) ? bell : -1),
        kept_(kept) {}

  bool open() const { return from_ >= 0; }
  int fd() const { return from_; }

  void Read() {
    char chunk[16 << 10];
    const ssize_t got = read(from_, chunk, sizeof(chunk));
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (got <= 0) {
      from_ = -1;
      Flush(open_.size());
      return;
    }
    open_.append(chunk, static_cast<size_t>(got));
    tail_ = LastBytes(tail_.append(chunk, static_cast<size_t>(got)), kept_);
    const size_t end = open_.rfind('\n');
    if (end != std::string::npos) Flush(end + 1);
    if (open_.size() > kPieceBytes) Flush(open_.size());
  }

  // The last bytes that were read, for a message.
  std::string Tail() const {
    return std::string(absl::StripAsciiWhitespace(tail_));
  }

 private:
  void Flush(size_t bytes) {
    const absl::string_view lines = absl::string_view(open_).substr(0, bytes);
    if (to_ < 0) {
      // The output is only kept for Tail.
    } else if (bell_ < 0) {
      WriteAll(to_, lines);
    } else if (!lines.empty()) {
      WriteAll(to_, absl::StrCat(kEraseLine, lines));
      RingLiveBell(bell_);
    }
    open_.erase(0, bytes);
  }

  int from_;
  const int to_;
  const int bell_;
  const size_t kept_;
  // The incomplete last line.
  std::string open_;
  std::string tail_;
};

// Where --push puts the binary, below the login folder.
std::string PushedPath(const std::string& binary) {
  return absl::StrCat(".cache/rollcall/bin/",
                      absl::BytesToHexString(Sha256(binary)).substr(0, 16),
                      "/rollcall");
}

absl::StatusOr<std::string> ReadBinary() {
  const Fd fd(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  std::string binary;
  std::string chunk(1 << 20, '\0');
  for (;;) {
    const ssize_t got =
        fd.open() ? read(fd.get(), chunk.data(), chunk.size()) : -1;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return absl::UnavailableError(
          absl::StrCat("cannot read this binary: ", strerror(errno)));
    }
    if (got == 0) return binary;
    binary.append(chunk, 0, static_cast<size_t>(got));
  }
}

// Works with any login shell on the host.
std::string ForAnyShell(const std::string& script) {
  return absl::StrCat("exec sh -c ", ShellWord(script));
}

// Runs the binary at this binary's path if the host has one, else `rollcall`
// from PATH.
std::string InstalledCommand() {
  char path[PATH_MAX] = {};
  const ssize_t size = readlink("/proc/self/exe", path, sizeof(path) - 1);
  const std::string here(path, size > 0 ? static_cast<size_t>(size) : 0);
  return ForAnyShell(absl::StrCat(
      "for r in ", ShellWord(here.empty() ? "rollcall" : here),
      " rollcall; do command -v \"$r\" >/dev/null 2>&1 && exec \"$r\" hosted ",
      ROLLCALL_VERSION,
      "; done; echo \"rollcall: on $(hostname): rollcall is not in PATH; "
      "install it, or launch with --push\" >&2; exit ",
      kExitRendezvous));
}

class RemoteAgent {
 public:
  explicit RemoteAgent(RemoteAgentOptions options)
      : options_(std::move(options)), ssh_(SshWords(options_.ssh)) {}

  int Run() {
    BoundConnecting();
    if (ended_) return 128 + SIGTERM;
    std::string command = InstalledCommand();
    if (options_.push) {
      absl::StatusOr<std::string> pushed = Push();
      if (!pushed.ok()) return Fail(pushed.status().message());
      if (ended_) return 128 + SIGTERM;
      command = ForAnyShell(
          absl::StrCat("exec ./", *pushed, " hosted ", ROLLCALL_VERSION));
    }
    auto ended = Converse(command, FormatHandoff(options_.handoff),
                          /*stays_open=*/true);
    if (!ended.ok()) return Fail(ended.status().message());
    if (ended->code != kSshFailed) return ended->code;
    return Fail(SshFailed(*ended).message());
  }

 private:
  struct Ended {
    int code = 0;
    std::string errors;
    std::string output;  // Only if it is not passed on.
  };

  static std::string Suffix(const std::string& errors) {
    return errors.empty() ? "" : absl::StrCat(": ", errors);
  }

  absl::Status SshFailed(const Ended& ended) const {
    return absl::UnavailableError(
        absl::StrCat("ssh failed", Suffix(ended.errors), "; `", options_.ssh,
                     " -o BatchMode=yes ", options_.target,
                     " true` must work without a question"));
  }

  int Fail(absl::string_view why) {
    WriteAll(STDERR_FILENO, absl::StrCat("rollcall: ", options_.name, " (",
                                         options_.target, "): ", why, "\n"));
    return kExitRendezvous;
  }

  // Adds a limit on the time to connect, unless the user has set one. An option
  // on the command line would override the configuration, so `ssh -G` is asked
  // for the configured limit first. If the --ssh program does not know -G, it
  // runs `true`, which is harmless.
  void BoundConnecting() {
    if (SetsConnectTimeout(ssh_)) return;
    std::vector<std::string> asks = ssh_;
    asks.push_back("-G");
    asks.swap(ssh_);
    const auto said = Converse("true", "", /*stays_open=*/false,
                               /*quiet=*/true);
    asks.swap(ssh_);
    if (said.ok() && ConfiguresConnectTimeout(said->output)) return;
    ssh_.insert(ssh_.end(), {"-o", kConnectTimeout});
  }

  // Copies this binary to the host; returns its path there.
  absl::StatusOr<std::string> Push() {
    auto binary = ReadBinary();
    if (!binary.ok()) return binary.status();
    const std::string path = PushedPath(*binary);
    // An incomplete copy must never be started.
    const auto whole = [&binary](absl::string_view file) {
      return absl::StrCat("[ $(wc -c <", file, ") -eq ", binary->size(), " ]");
    };
    auto there = Converse(
        ForAnyShell(absl::StrCat("test -x ", path, " && ", whole(path))), "",
        /*stays_open=*/false);
    if (!there.ok() || there->code == 0) {
      return there.ok() ? absl::StatusOr<std::string>(path) : there.status();
    }
    if (there->code == kSshFailed) return SshFailed(*there);
    const std::string folder = path.substr(0, path.rfind('/'));
    auto copied =
        Converse(ForAnyShell(absl::StrCat(
                     "umask 077; unset t; mkdir -p ", folder, " && t=$(mktemp ",
                     path, ".XXXXXX) && cat >$t && { ", whole("$t"),
                     " || { echo the copy is not whole >&2; false; }; } && "
                     "chmod 700 $t && mv $t ",
                     path, " || { [ -z \"$t\" ] || rm -f $t; exit 1; }")),
                 *binary, /*stays_open=*/false);
    if (!copied.ok()) return copied.status();
    if (copied->code == 0) return path;
    if (copied->code == kSshFailed) return SshFailed(*copied);
    return absl::UnavailableError(absl::StrCat("cannot copy rollcall to ~/",
                                               path, Suffix(copied->errors)));
  }

  // Sends `input`, passes the output on, and waits for the end. `stays_open`:
  // this is the agent's own connection, whose stdin carries signals after the
  // input. `quiet`: the output is returned instead of passed on.
  absl::StatusOr<Ended> Converse(const std::string& command, std::string input,
                                 bool stays_open, bool quiet = false) {
    auto ssh = SshProcess::Start(ssh_, options_.target, command);
    if (!ssh.ok()) return ssh.status();
    LineRelay out(ssh->out_fd(), quiet ? -1 : STDOUT_FILENO, options_.live_bell,
                  quiet ? kConfigBytesMax : kErrorBytesMax);
    LineRelay err(ssh->err_fd(), quiet ? -1 : STDERR_FILENO, options_.live_bell,
                  kErrorBytesMax);
    bool writes = true;
    if (stays_open && usr2_) input.push_back(kHandoffUsr2);
    while (out.open() || err.open()) {
      if (writes && input.empty() && !stays_open) {
        ssh->CloseIn();
        writes = false;
      }
      pollfd fds[] = {
          {signals_.fd(), POLLIN, 0},
          {writes && !input.empty() ? ssh->in_fd() : -1, POLLOUT, 0},
          {out.fd(), POLLIN, 0},
          {err.fd(), POLLIN, 0}};
      poll(fds, 4, -1);
      while (const int signal = signals_.Read()) {
        if (signal == SIGUSR2 && !stays_open) {
          usr2_ = true;
        } else if (signal == SIGUSR2) {
          input.push_back(kHandoffUsr2);
        } else if (stays_open) {
          input.push_back(kHandoffTerm);
        } else {
          ended_ = true;
          return Ended{128 + signal, "", ""};
        }
      }
      if (fds[1].revents != 0) writes = Write(ssh->in_fd(), input);
      if (fds[2].revents != 0) out.Read();
      if (fds[3].revents != 0) err.Read();
    }
    return Ended{ExitCodeOf(ssh->Wait()), err.Tail(), out.Tail()};
  }

  // Returns false if ssh has closed its stdin.
  static bool Write(int fd, std::string& input) {
    const ssize_t wrote = write(fd, input.data(), input.size());
    if (wrote < 0) return errno == EINTR || errno == EAGAIN;
    input.erase(0, static_cast<size_t>(wrote));
    return true;
  }

  const RemoteAgentOptions options_;
  std::vector<std::string> ssh_;
  SignalPipe signals_{{SIGTERM, SIGINT, SIGHUP, SIGUSR2}};
  // SIGTERM came before the agent was started.
  bool ended_ = false;
  // SIGUSR2 came before the agent was started. It is sent after the handoff.
  bool usr2_ = false;
};

}  // namespace

int RunRemoteAgent(RemoteAgentOptions options) {
  return RemoteAgent(std::move(options)).Run();
}

}  // namespace rollcall
