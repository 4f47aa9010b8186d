// DaemonChild: the daemon as the launcher's child: starts it, reads messages
// from its pipe, and restarts it on its port when it has died. A daemon that an
// earlier launcher started is adopted: it is watched and ended in the same way,
// but it has no pipe to this launcher, and its exit code cannot be read.
//
// The pipe (`--ready-fd`) carries lines from the daemon: `port N` once it
// listens, and before that `http N URL` for its HTTP port; `end HEX`, a
// serialized End, when the job has ended; `failure HEX`, why the daemon cannot
// start; and `news HEX`, messages for the user, because the log may be on a
// full disk. No secret goes through argv or the environment: tokens and keys
// are read from the state folder, a shared secret from an inherited socket. An
// eventfd (`--beat-fd`) counts the beats of the daemon's loop.
//
// Thread rule: the launcher's loop thread.
#ifndef ROLLCALL_CLIENT_LAUNCH_DAEMON_CHILD_H_
#define ROLLCALL_CLIENT_LAUNCH_DAEMON_CHILD_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/admin/addresses.h"
#include "client/launch/spawn/spawn.h"
#include "client/launch/takeover/known_process.h"
#include "daemon/core/limits.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// When a dead daemon is restarted, and when to stop trying.
//
// A daemon that has served for a while was probably killed from outside, so it
// is restarted at once, any number of times. A daemon that dies early may have
// met a temporary fault: a full disk, a taken port, a file system that does not
// answer. Ranks run on meanwhile, so it is restarted after pauses that grow to
// 5 s, until no daemon has served for `patience`. Agents wait no longer than
// that for a daemon.
class DaemonRestarts {
 public:
  explicit DaemonRestarts(absl::Duration patience) : patience_(patience) {}

  // A daemon has died or could not be started. `served`: how long it has
  // listened. `hopeless`: the next one would fail in the same way. Returns when
  // to start another; nullopt: never.
  std::optional<absl::Time> Another(absl::Time now, absl::Duration served,
                                    bool hopeless);

 private:
  const absl::Duration patience_;
  // The time since which no daemon has served for a while; InfiniteFuture: the
  // latest daemon did.
  absl::Time unserved_since_ = absl::InfiniteFuture();
  int early_ = 0;  // Early deaths since then.
};

// Detects a running daemon that makes no progress: it is stopped, or blocked by
// a disk that does not answer. Its loop beats every 2 s (Loop::kBeatEvery).
// Three checks in a row, 5 s apart, without a beat mean that it makes no
// progress. If the launcher itself was late, it may have been stopped together
// with the daemon, so the count starts again.
class DaemonBeats {
 public:
  void Begin(absl::Time now);
  void End() { due_ = absl::InfiniteFuture(); }
  // When to check; InfiniteFuture: never.
  absl::Time due() const { return due_; }
  // `heard`: a beat has come since the last check. Returns true once the daemon
  // makes no progress, and only once.
  bool StandsStill(absl::Time now, bool heard);

 private:
  absl::Time due_ = absl::InfiniteFuture();
  int silent_ = 0;
};

struct DaemonChildOptions {
  std::string job;
  v1::JobSettings settings;
  HostPort listen;
  std::string state_dir;
  std::string log_file;
  // The job's name was generated, so no later launcher uses the folder. The
  // daemon removes it at its end if the launcher is gone by then.
  bool ephemeral = false;
  // From --token-ttl.
  absl::Duration token_ttl = absl::InfiniteDuration();
  // Flags for TLS, and the secret that must not appear in a flag.
  std::vector<std::string> wire_flags;
  std::string secret_text;
  // The HTTP port; nullopt: none.
  std::optional<HostPort> http;
  bool http_insecure = false;
  std::vector<std::string> environment;
};

class DaemonChild {
 public:
  explicit DaemonChild(DaemonChildOptions options);
  ~DaemonChild();
  DaemonChild(const DaemonChild&) = delete;
  DaemonChild& operator=(const DaemonChild&) = delete;

  // The first start, with a new run. Start, Resume and Restart hold the daemon
  // back until Release, so that the record names it before it acts.
  absl::Status Start();
  // The first start of this launcher: continues the journaled run on its port.
  absl::Status Resume(int port);
  // Takes a running daemon instead of starting one.
  void Adopt(KnownProcess daemon, int port);
  // Lets a started daemon run.
  void Release() { gate_.Open(); }

  // Reads the pipe. True: the daemon has begun to listen.
  bool Read();

  // Call when the child was reaped, or an adopted daemon has ended. `end`: how
  // the job ended, if the pipe could not carry it. If the job has not ended,
  // call Restart at restart_at. Returns false if DaemonRestarts gives up, or no
  // daemon has ever listened. `hopeless`: see DaemonRestarts.
  bool Died(absl::Time now, std::optional<v1::End> end, bool hopeless);
  // When Restart is due; InfiniteFuture: not.
  absl::Time restart_at() const { return restart_at_; }
  void CancelRestart() { restart_at_ = absl::InfiniteFuture(); }
  // Continues the journaled run on the same port. If no process can be made,
  // that counts as a death: call Died.
  absl::Status Restart();

  // When to call StandsStill.
  absl::Time beats_due() const { return beats_.due(); }
  // True, once: the daemon must be killed.
  bool StandsStill(absl::Time now);

  void Kill(int signal) const;

  // -1: none runs.
  pid_t pid() const { return pid_; }
  // {}: none runs.
  ProcessId id() const { return pid_ > 0 ? id_ : ProcessId{}; }
  // For poll: readable at the end of an adopted daemon; -1: the daemon is our
  // child.
  int exit_fd() const { return adopted_ ? adopted_->fd() : -1; }
  bool listened() const { return listened_; }
  // Whether the latest daemon has listened.
  bool latest_listened() const {
    return listens_since_ != absl::InfiniteFuture();
  }
  // For poll; -1: nothing to read.
  int fd() const { return fd_; }
  // 0: it has not listened yet.
  int port() const { return port_; }
  const std::optional<v1::End>& end() const { return end_; }
  // Why the latest daemon could not start, by its own message; empty: none.
  const std::string& failure() const { return failure_; }
  // The messages for the user since the last call.
  std::vector<std::string> TakeNews() { return std::exchange(news_, {}); }

 private:
  absl::Status Spawn(bool resume);
  void Hear(const std::string& line);
  void HearHttp(absl::string_view line);
  void CloseFd();

  const DaemonChildOptions options_;
  pid_t pid_ = -1;
  ProcessId id_;
  std::optional<KnownProcess> adopted_;
  StartGate gate_;
  int fd_ = -1;
  Fd beat_fd_;
  DaemonBeats beats_;
  int port_ = 0;
  // The HTTP port and its URL; 0 and empty: not known.
  int http_port_ = 0;
  std::string http_url_;
  bool listened_ = false;  // Whether any daemon of this launcher has.
  // Since when the running daemon has listened.
  absl::Time listens_since_ = absl::InfiniteFuture();
  std::string partial_;
  std::optional<v1::End> end_;
  std::string failure_;
  std::vector<std::string> news_;
  absl::Time restart_at_ = absl::InfiniteFuture();
  DaemonRestarts restarts_{Limits{}.daemon_grace};
};

// The daemon's side of the pipe: the line for each message.
std::string ReadyLine(int port);
std::string HttpLine(int port, absl::string_view url);
std::string EndLine(const v1::End& end);
// The reason why the daemon cannot start.
std::string FailureLine(absl::string_view why);
// A message for the user while the daemon runs.
std::string NewsLine(absl::string_view text);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_DAEMON_CHILD_H_
