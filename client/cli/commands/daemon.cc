// `rollcall daemon` (hidden): the daemon of one job; a child of a launcher.
#include <fcntl.h>
#include <google/protobuf/util/json_util.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/job_lookup.h"
#include "client/launch/daemon_child.h"
#include "client/launch/launch_wire.h"
#include "client/launch/spawn/spawn.h"
#include "client/launch/takeover/launch_folder.h"
#include "daemon/base/processes/signal_pipe.h"
#include "daemon/security/given_secrets.h"
#include "daemon/security/kept_tokens.h"
#include "daemon/server/server.h"

namespace rollcall {
namespace {

// A line of this size, in hex, fits into one atomic write to a pipe.
constexpr size_t kNewsBytesMax = PIPE_BUF / 2 - 64;

// The daemon's addresses for other machines; its launcher reports the same.
std::vector<std::string> Endpoints(const std::string& listen,
                                   const TlsFiles& tls, int port) {
  const auto on = ParseHostPort(listen);
  if (!on.ok()) return {};
  LaunchWire wire;
  wire.options.tls = tls;
  return wire.Endpoints(*on, port);
}

// Writes a line to the launcher. If the launcher is gone, the line is lost and
// the daemon goes on.
void Tell(int fd, const std::string& line) {
  size_t sent = 0;
  while (fd >= 0 && sent < line.size()) {
    const ssize_t wrote = write(fd, line.data() + sent, line.size() - sent);
    if (wrote <= 0) return;
    sent += static_cast<size_t>(wrote);
  }
}

// Never blocks: a line that does not fit into the pipe is dropped.
void TellIfRoom(int fd, const std::string& line) {
  pollfd polled{fd, POLLOUT, 0};
  if (line.size() <= PIPE_BUF && poll(&polled, 1, 0) == 1 &&
      (polled.revents & POLLOUT) != 0) {
    Tell(fd, line);
  }
}

// Reports a failure like other commands, and also to the launcher.
int FailAtStart(const DaemonFlags& flags, const absl::Status& status) {
  Tell(flags.ready_fd, FailureLine(status.message()));
  return Fail(status);
}

absl::StatusOr<ServerOptions> MakeOptions(const DaemonFlags& flags) {
  ServerOptions options;
  options.listen = flags.listen;
  options.state_dir = flags.state;
  options.job = flags.job;
  options.resume = flags.resume;
  if (!google::protobuf::util::JsonStringToMessage(flags.settings,
                                                   &options.settings)
           .ok()) {
    return absl::InvalidArgumentError(
        "--settings: expected the JSON of JobSettings");
  }
  options.insecure = flags.insecure;
  options.http = flags.http.listen;
  options.http_insecure = flags.http.insecure;
  // After a restart another process may have taken the HTTP port. The daemon
  // then runs without it, because the run matters more.
  options.http_optional = flags.resume;
  options.tls = {flags.tls.cert, flags.tls.key, flags.tls.ca};
  options.tls_bind_names = flags.tls_bind_names;
  auto secret = GivenSecret("", flags.given.secret);
  if (!secret.ok()) return secret.status();
  options.secret = *std::move(secret);
  const auto tokens = KeptTokens::Keep(flags.state);
  if (!tokens.ok()) return tokens.status();
  options.tokens = tokens->Seeds(options.secret, flags.token_ttl);
  v1::JoinString join;
  join.set_job(flags.job);
  join.set_insecure(flags.insecure);
  // Two callbacks share it; the server calls one after the other.
  const auto files = std::make_shared<JoinFiles>(flags.state, std::move(join));
  if (flags.beat_fd >= 0) {
    options.beat = [fd = flags.beat_fd] { eventfd_write(fd, 1); };
  }
  options.journal_changed = [fd = flags.ready_fd](const absl::Status& written) {
    std::string text = "its journal can be written again";
    if (!written.ok()) {
      text = absl::StrCat(
          "its journal cannot be written; ranks run on, and no new world is "
          "agreed until it can: ",
          written.message());
    }
    text.resize(std::min(text.size(), kNewsBytesMax));
    TellIfRoom(fd, NewsLine(text));
  };
  options.listening = [files, listen = flags.listen, tls = options.tls,
                       worker = tokens->worker](int port,
                                                const std::string& pin) {
    files->Listening(Endpoints(listen, tls, port), pin);
    return files->Write(v1::ROLE_WORKER, worker);
  };
  options.keep_token = [files, folder = flags.state](
                           v1::Role role, const v1::JoinToken& token) {
    const absl::Status wrote = WriteKeptToken(folder, role, token);
    return wrote.ok() ? files->Write(role, token) : wrote;
  };
  return options;
}

// Ends the server on SIGTERM or SIGINT.
class Ender {
 public:
  explicit Ender(Server& server)
      : end_fd_(eventfd(0, EFD_CLOEXEC)), thread_([this, &server] {
          pollfd fds[2] = {{signals_.fd(), POLLIN, 0}, {end_fd_, POLLIN, 0}};
          while (poll(fds, 2, -1) < 0) {
          }
          if (fds[0].revents != 0) server.Shutdown();
        }) {}
  ~Ender() {
    const uint64_t one = 1;
    [[maybe_unused]] ssize_t wrote = write(end_fd_, &one, sizeof(one));
    thread_.join();
    close(end_fd_);
  }

 private:
  SignalPipe signals_{{SIGTERM, SIGINT}};
  const int end_fd_;
  std::thread thread_;
};

}  // namespace

int RunDaemonCommand(DaemonFlags& flags) {
  const pid_t launcher = getppid();
  // SIGPIPE is ignored because the launcher may end before this pipe is closed.
  // A daemon has no children that would inherit the ignored signal. SIGUSR1 and
  // SIGUSR2 are ignored because schedulers send them to every process of a job
  // step.
  for (const int ignored : {SIGPIPE, SIGUSR1, SIGUSR2}) {
    signal(ignored, SIG_IGN);
  }
  if (!AwaitStart(flags.start_fd)) return kExitRendezvous;
  if (flags.secret_fd >= 0) {
    absl::StatusOr<std::string> secret = TakePassedSecret(flags.secret_fd);
    if (!secret.ok()) return FailAtStart(flags, secret.status());
    flags.given.secret.swap(*secret);
  }
  for (const int fd : {flags.ready_fd, flags.beat_fd}) {
    if (fd >= 0) fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
  PrepareGrpc();
  auto options = MakeOptions(flags);
  if (!options.ok()) return FailAtStart(flags, options.status());
  auto server = Server::Start(*std::move(options));
  if (!server.ok()) return FailAtStart(flags, server.status());
  std::optional<v1::End> end;
  {
    Ender ender(**server);
    if ((*server)->http_port() != 0) {
      Tell(flags.ready_fd,
           HttpLine((*server)->http_port(), (*server)->http_url()));
    }
    Tell(flags.ready_fd, ReadyLine((*server)->port()));
    end = (*server)->Wait();
  }
  if (end) Tell(flags.ready_fd, EndLine(*end));
  server->reset();
  // If the launcher has died, only this daemon can clean up.
  if (end && getppid() != launcher)
    ForgetOrphanedRun(flags.state, flags.ephemeral);
  return 0;
}

}  // namespace rollcall
