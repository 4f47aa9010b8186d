// rollcalld: a standing daemon for many jobs.
//
// A job gathers here from the first Hello that brings --nodes. The daemon ends
// on SIGTERM or SIGINT; its jobs' ranks run on and wait for it to come back.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "daemon/core/exit_codes.h"
#include "daemon/journal/state_folder.h"
#include "daemon/security/join_string.h"
#include "daemon/server/server.h"

namespace rollcall {
namespace {

constexpr size_t kTokenTextBytesMax = 4 << 10;
constexpr char kTokenVariable[] = "ROLLCALL_TOKEN";

struct Flags {
  std::string listen = "[::]:29400";
  std::string state;
  std::string token_file;
  std::string log_level = "info";
};

// $XDG_STATE_HOME/rollcall/rollcalld, or the same under ~/.local/state.
std::string DefaultState() {
  const char* state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && state[0] == '/') {
    return absl::StrCat(state, "/rollcall/rollcalld");
  }
  const char* home = std::getenv("HOME");
  return absl::StrCat(home != nullptr && home[0] == '/' ? home : "/root",
                      "/.local/state/rollcall/rollcalld");
}

absl::StatusOr<v1::JoinToken> ReadToken(const std::string& file) {
  std::FILE* stream = std::fopen(file.c_str(), "re");
  if (stream == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot read the token file ", file, ": ",
                     std::strerror(errno), "; check --token-file"));
  }
  std::string text(kTokenTextBytesMax, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), stream));
  std::fclose(stream);
  absl::StatusOr<v1::JoinToken> token = ParseTokenText(text);
  if (token.ok()) return token;
  return absl::FailedPreconditionError(absl::StrCat(
      "token file ", file, ": ", std::string(token.status().message())));
}

absl::Status WriteToken(const std::string& file, const v1::JoinToken& token) {
  const int fd =
      open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  const std::string text = absl::StrCat(TokenText(token), "\n");
  bool written = fd >= 0 && write(fd, text.data(), text.size()) ==
                                static_cast<ssize_t>(text.size());
  const int error = errno;
  if (fd >= 0) written = close(fd) == 0 && written;
  if (written) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "cannot write the token file ", file, ": ", std::strerror(error)));
}

// The flag's file, else the environment's token, else the one kept with the
// state, made at the first start. `file`: where it can be read; empty: nowhere.
absl::StatusOr<v1::JoinToken> FindToken(const Flags& flags, std::string& file) {
  file = flags.token_file;
  if (!file.empty()) return ReadToken(file);
  if (const char* text = std::getenv(kTokenVariable)) {
    absl::StatusOr<v1::JoinToken> token = ParseTokenText(text);
    // Nothing that we might start shall see it.
    unsetenv(kTokenVariable);
    if (token.ok()) return token;
    return absl::FailedPreconditionError(absl::StrCat(
        kTokenVariable, ": ", std::string(token.status().message())));
  }
  const absl::StatusOr<StateFolder> folder = StateFolder::Open(flags.state);
  if (!folder.ok()) return folder.status();
  file = folder->File("token");
  if (access(file.c_str(), F_OK) == 0) return ReadToken(file);
  const v1::JoinToken token = MakeToken();
  if (absl::Status s = WriteToken(file, token); !s.ok()) return s;
  return token;
}

Log::Level LevelOf(const std::string& name) {
  if (name == "warning") return Log::Level::kWarning;
  if (name == "error") return Log::Level::kError;
  return Log::Level::kInfo;
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "rollcalld: %s\n",
               std::string(status.message()).c_str());
  return absl::IsInvalidArgument(status) ? kExitUsage : kExitRendezvous;
}

int Serve(const Flags& flags) {
  // Before any thread is there, so that all of them leave these to sigwait.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);

  std::string token_file;
  const absl::StatusOr<v1::JoinToken> token = FindToken(flags, token_file);
  if (!token.ok()) return Fail(token.status());
  ServerOptions options;
  options.listen = flags.listen;
  options.state_dir = flags.state;
  options.token = *token;
  options.resume = true;
  options.log_level = LevelOf(flags.log_level);
  absl::StatusOr<std::unique_ptr<Server>> server =
      Server::Start(std::move(options));
  if (!server.ok()) return Fail(server.status());
  std::fprintf(stderr,
               "rollcalld: listening on port %d, state in %s\n"
               "rollcalld: join with: rollcall join --endpoint HOST:%d --job "
               "JOB --nodes N --token-file %s -- CMD...\n",
               (*server)->port(), flags.state.c_str(), (*server)->port(),
               token_file.empty() ? "FILE" : token_file.c_str());
  int signal_number = 0;
  sigwait(&signals, &signal_number);
  (*server)->Shutdown();
  return 0;
}

int Main(int argc, char** argv) {
  Flags flags;
  flags.state = DefaultState();
  CLI::App app("rollcalld: the rendezvous daemon of rollcall, for many jobs");
  app.set_version_flag("--version", "rollcalld " ROLLCALL_VERSION);
  app.add_option("--listen", flags.listen, "ADDRESS:PORT to listen on")
      ->capture_default_str();
  app.add_option("--state", flags.state,
                 "folder of the journal and the token, 0700")
      ->capture_default_str();
  app.add_option("--token-file", flags.token_file,
                 "file with the token, ID.SECRET (else $ROLLCALL_TOKEN, else "
                 "one made and kept as STATE/token)");
  app.add_option("--log-level", flags.log_level, "what is logged to stderr")
      ->check(CLI::IsMember({"info", "warning", "error"}))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  return Serve(flags);
}

}  // namespace
}  // namespace rollcall

int main(int argc, char** argv) {
  // gRPC's own prints are for its developers; who wants them sets it.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  return rollcall::Main(argc, argv);
}
