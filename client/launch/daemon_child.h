// DaemonChild: the daemon as the launcher's child: started, listened to over a
// pipe, and started again on its port when it has died. One that an earlier
// launcher has started is taken back: it is watched and ended the same way, but
// its pipe and its exit code went with its parent.
//
// The pipe (`--ready-fd`) carries lines from the daemon: `port N` once it
// listens, and `end HEX`, a serialized End, when the job has ended; `failure
// HEX`, why it cannot begin, and `news HEX`, what the user should know, since
// its log may lie on a disk that takes nothing more. No secret
// goes through argv or the environment: tokens and keys are read from the state
// folder, a shared secret from an inherited socket. An eventfd (`--beat-fd`)
// counts the beats of the daemon's loop.
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
#include "client/launch/known_process.h"
#include "client/launch/spawn.h"
#include "daemon/core/limits.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// When a daemon that has died is started again, and when no longer.
//
// One that served for a while was killed from outside: it is started again at
// once, however often. One that dies as soon as it serves, or before, finds
// something that may pass: a full disk, a port that is taken, a file system
// that does not answer. Ranks run on meanwhile, so it is started again after
// pauses that grow to 5 s, until none has served for `patience`. Agents wait
// for a daemon no longer than that.
class DaemonRestarts {
 public:
  explicit DaemonRestarts(absl::Duration patience) : patience_(patience) {}

  // A daemon has died, or could not be started. `served`: how long it has
  // listened. `hopeless`: the next one would fail as it did. When to start
  // another; nothing: never.
  std::optional<absl::Time> Another(absl::Time now, absl::Duration served,
                                    bool hopeless);

 private:
  const absl::Duration patience_;
  // Since when none has served for a while; InfiniteFuture: the last one did.
  absl::Time unserved_since_ = absl::InfiniteFuture();
  int early_ = 0;  // Deaths since then.
};

// Whether a daemon that lives stands still: stopped, or stuck on a disk that
// does not answer. Its loop beats every 2 s (Loop::kBeatEvery); three looks in
// a row, 5 s apart, that find no beat are enough. A launcher that is late
// itself may have been stopped together with it, and begins anew.
class DaemonBeats {
 public:
  void Begin(absl::Time now);
  void End() { due_ = absl::InfiniteFuture(); }
  // When to look; InfiniteFuture: not.
  absl::Time due() const { return due_; }
  // `heard`: it has beaten since the last look. True, once: it stands still.
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
  // Nobody will look for this job again: its daemon removes the folder at its
  // end, should the launcher be gone by then.
  bool ephemeral = false;
  // As --token-ttl has it.
  absl::Duration token_ttl = absl::InfiniteDuration();
  // How the wire is closed: flags, and what no flag may hold.
  std::vector<std::string> wire_flags;
  std::string secret_text;
  std::vector<std::string> environment;
};

class DaemonChild {
 public:
  explicit DaemonChild(DaemonChildOptions options);
  ~DaemonChild();
  DaemonChild(const DaemonChild&) = delete;
  DaemonChild& operator=(const DaemonChild&) = delete;

  // The first start: a new run. Like Restart, holds the daemon back until
  // Release: who it is should be written down before.
  absl::Status Start();
  // The first start: goes on with the journaled run on the port that it had.
  absl::Status Resume(int port);
  // Instead of a start.
  void Adopt(KnownProcess daemon, int port);
  // Lets a started daemon begin.
  void Release() { gate_.Open(); }

  // Reads what the pipe has. True: it has begun to listen.
  bool Read();

  // It was reaped, or an adopted one has ended, and `end` is how the job did
  // where the pipe could not say it. Where the job has not ended it is to be
  // started again, at restart_at; false: DaemonRestarts has no hope, or none
  // has ever listened. `hopeless`: see there.
  bool Died(absl::Time now, std::optional<v1::End> end, bool hopeless);
  // When Restart is due; InfiniteFuture: not.
  absl::Time restart_at() const { return restart_at_; }
  void CancelRestart() { restart_at_ = absl::InfiniteFuture(); }
  // Goes on with the journaled run on the same port. Where no process can be
  // made it is as one that has died: Died is to be called.
  absl::Status Restart();

  // When StandsStill is to be asked.
  absl::Time beats_due() const { return beats_.due(); }
  // True, once: it is to be killed.
  bool StandsStill(absl::Time now);

  void Kill(int signal) const;

  // -1: none runs.
  pid_t pid() const { return pid_; }
  // {}: none runs.
  ProcessId id() const { return pid_ > 0 ? id_ : ProcessId{}; }
  // The one that runs is not our child: to be polled for its end; -1: it is.
  int exit_fd() const { return adopted_ ? adopted_->fd() : -1; }
  bool listened() const { return listened_; }
  // The latest one has.
  bool latest_listened() const {
    return listens_since_ != absl::InfiniteFuture();
  }
  // To be polled; -1: nothing to read.
  int fd() const { return fd_; }
  // 0: it has not listened yet.
  int port() const { return port_; }
  const std::optional<v1::End>& end() const { return end_; }
  // Why the latest one could not begin, as it said itself; empty: it has not.
  const std::string& failure() const { return failure_; }
  // What it has for the user since the last call, a text each.
  std::vector<std::string> TakeNews() { return std::exchange(news_, {}); }

 private:
  absl::Status Spawn(bool resume);
  void Hear(const std::string& line);
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
  bool listened_ = false;  // Any that we have had.
  // Since when the one that runs now has listened.
  absl::Time listens_since_ = absl::InfiniteFuture();
  std::string partial_;
  std::optional<v1::End> end_;
  std::string failure_;
  std::vector<std::string> news_;
  absl::Time restart_at_ = absl::InfiniteFuture();
  DaemonRestarts restarts_{Limits{}.daemon_grace};
};

// The daemon's side of the pipe.
std::string ReadyLine(int port);
std::string EndLine(const v1::End& end);
// Why it cannot begin.
std::string FailureLine(absl::string_view why);
// What the user should know while it runs.
std::string NewsLine(absl::string_view text);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_LAUNCH_DAEMON_CHILD_H_
