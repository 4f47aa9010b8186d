// SshProcess: one run of the user's ssh, with pipes to its three streams.
//
// ssh has no terminal and a session of its own, so it cannot ask for a
// password, and a terminal's Ctrl-C does not reach it.
//
// Thread rule: one thread at a time.
#ifndef ROLLCALL_CLIENT_LAUNCH_SPAWN_SSH_PROCESS_H_
#define ROLLCALL_CLIENT_LAUNCH_SPAWN_SSH_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/base/files/fd.h"

namespace rollcall {

// The exit code of ssh if ssh itself failed, not the command.
inline constexpr int kSshFailed = 255;

class SshProcess {
 public:
  // Runs `ssh[0] ssh[1]... TARGET COMMAND`; the host's shell splits COMMAND.
  // UNAVAILABLE: it cannot be started; the message names the program.
  static absl::StatusOr<SshProcess> Start(const std::vector<std::string>& ssh,
                                          const std::string& target,
                                          const std::string& command);

  SshProcess(SshProcess&& other) noexcept;
  SshProcess& operator=(SshProcess&&) = delete;
  // Kills and reaps the process, if it was not reaped.
  ~SshProcess();

  // Non-blocking.
  int in_fd() const { return in_.get(); }
  int out_fd() const { return out_.get(); }
  int err_fd() const { return err_.get(); }
  void CloseIn() { in_.Close(); }

  // Waits for the end; returns the wait status.
  int Wait();

 private:
  SshProcess(pid_t pid, Fd in, Fd out, Fd err);

  pid_t pid_;  // -1: reaped.
  Fd in_;
  Fd out_;
  Fd err_;
};

// The arguments of a --ssh flag, with the options that rollcall adds.
std::vector<std::string> SshWords(absl::string_view flag);

// Whether `words` set ConnectTimeout, in any of ssh's spellings. Pure.
bool SetsConnectTimeout(const std::vector<std::string>& words);

// Whether the configuration that `ssh -G` prints sets it. Pure.
bool ConfiguresConnectTimeout(absl::string_view printed);

// Quotes `text` as one argument for a POSIX shell. Pure.
std::string ShellWord(absl::string_view text);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_SPAWN_SSH_PROCESS_H_
