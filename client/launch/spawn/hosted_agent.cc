#include "client/launch/spawn/hosted_agent.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/launch/spawn/handoff.h"
#include "client/launch/spawn/spawn.h"
#include "client/launch/spawn/ssh_process.h"
#include "daemon/base/processes/signal_pipe.h"
#include "daemon/core/exit_codes.h"
#include "daemon/security/crypto/wipe.h"

extern char** environ;

namespace rollcall {
namespace {

int FailHere(const std::string& why) {
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  std::fprintf(stderr, "rollcall: on %s: %s\n", host, why.c_str());
  return kExitRendezvous;
}

// Bytes that were read after the handoff's end go into `rest`.
absl::StatusOr<Handoff> ReadHandoff(std::string& rest) {
  std::string text;
  char chunk[4096];
  size_t end = std::string::npos;
  while ((end = text.find(absl::StrCat("\n", kHandoffEnd))) ==
         std::string::npos) {
    const ssize_t got = read(STDIN_FILENO, chunk, sizeof(chunk));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      return absl::InvalidArgumentError(
          "the launcher's side has ended before it said what to start");
    }
    text.append(chunk, static_cast<size_t>(got));
    if (text.size() > kHandoffBytesMax) {
      return absl::InvalidArgumentError("the command line is too long");
    }
  }
  end += 1 + kHandoffEnd.size();
  rest = text.substr(end);
  auto handoff = ParseHandoff(absl::string_view(text).substr(0, end));
  Wipe(text);
  return handoff;
}

// The handoff's variables replace the host's variables of the same name.
std::vector<std::string> Environment(const Handoff& handoff) {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string name(*entry, strcspn(*entry, "="));
    bool replaced = false;
    for (const std::string& one : handoff.environment) {
      replaced = replaced || absl::StartsWith(one, absl::StrCat(name, "="));
    }
    if (!replaced) environment.push_back(*entry);
  }
  environment.insert(environment.end(), handoff.environment.begin(),
                     handoff.environment.end());
  return environment;
}

absl::StatusOr<pid_t> Start(Handoff& handoff) {
  if (chdir(handoff.folder.c_str()) != 0) {
    // Stays in the login folder, as mpirun does.
    FailHere(absl::StrCat("WARNING: cannot enter the launcher's folder ",
                          handoff.folder, " (", strerror(errno),
                          "); ranks start in the login folder"));
  }
  SpawnOptions spawn;
  spawn.environment = Environment(handoff);
  spawn.arguments = std::move(handoff.arguments);
  const absl::StatusOr<Fd> secret = PassSecret(handoff.join_string, spawn);
  Wipe(handoff.join_string);
  if (!secret.ok()) return secret.status();
  return SpawnSelf(spawn);
}

// Passes signals on until the agent has ended.
class Relay {
 public:
  Relay(pid_t agent, SignalPipe& signals) : agent_(agent), signals_(signals) {}

  void Take(const std::string& bytes) {
    for (const char byte : bytes) {
      if (byte == kHandoffTerm) Send(SIGTERM);
      if (byte == kHandoffUsr2) Send(SIGUSR2);
    }
  }

  // Returns the agent's exit code. ssh's own code (255) is replaced by 1; the
  // launcher learns from the daemon how a rank has ended.
  int Run() {
    pollfd fds[2] = {{signals_.fd(), POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
    for (;;) {
      int status = 0;
      if (waitpid(agent_, &status, WNOHANG) == agent_) {
        const int code = ExitCodeOf(status);
        return code == kSshFailed ? 1 : code;
      }
      poll(fds, 2, -1);
      while (const int signal = signals_.Read()) {
        if (signal != SIGCHLD) Send(signal);
      }
      if (fds[1].revents != 0) ReadInput(fds[1]);
    }
  }

 private:
  void Send(int signal) {
    told_to_end_ = told_to_end_ || signal == SIGTERM;
    kill(agent_, signal);
  }

  void ReadInput(pollfd& input) {
    char bytes[64];
    const ssize_t got = read(STDIN_FILENO, bytes, sizeof(bytes));
    if (got > 0) return Take(std::string(bytes, static_cast<size_t>(got)));
    if (got < 0 && errno == EINTR) return;
    input.fd = -1;
    if (told_to_end_) kill(agent_, SIGKILL);
  }

  const pid_t agent_;
  SignalPipe& signals_;
  bool told_to_end_ = false;
};

}  // namespace

int RunHostedAgent(const std::string& launcher_version) {
  if (launcher_version != ROLLCALL_VERSION) {
    return FailHere(absl::StrCat("this rollcall is version ", ROLLCALL_VERSION,
                                 ", the launcher's is ", launcher_version,
                                 "; install the same one here, or launch with "
                                 "--push"));
  }
  std::string rest;
  auto handoff = ReadHandoff(rest);
  if (!handoff.ok()) return FailHere(std::string(handoff.status().message()));
  SignalPipe signals({SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD});
  const auto agent = Start(*handoff);
  if (!agent.ok()) return FailHere(std::string(agent.status().message()));
  Relay relay(*agent, signals);
  relay.Take(rest);
  return relay.Run();
}

}  // namespace rollcall
