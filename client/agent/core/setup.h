// Setup: the node's set-up command (--setup), from its first try until it has
// succeeded or failed for good.
//
// The command runs once in the life of an agent: a new stream and a new
// incarnation do not repeat it. A try ends when none of its processes is left.
// All tries together have one time limit.
//
// A pure value; any thread. It reads no clock.
#ifndef ROLLCALL_CLIENT_AGENT_CORE_SETUP_H_
#define ROLLCALL_CLIENT_AGENT_CORE_SETUP_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "daemon/core/limits.h"
#include "rollcall/v1/checks.pb.h"

namespace rollcall {

class Setup {
 public:
  // `wanted`: the agent has a set-up command. `retries`: how often it may be
  // run again.
  Setup(bool wanted, uint32_t retries)
      : phase_(wanted ? Phase::kWaiting : Phase::kOver), retries_(retries) {}

  // The command has not succeeded (yet), so the node gets no seat.
  bool pending() const {
    return phase_ != Phase::kOver || (ended_.has_value() && failed());
  }
  // Processes of the command may be left.
  bool running() const { return phase_ == Phase::kRunning; }
  // How often the command was started.
  uint32_t tries() const { return tries_; }
  // The result, once no try follows; nullopt: none yet, or none is wanted.
  const std::optional<v1::SetupEnded>& ended() const { return ended_; }
  bool failed() const;

  // A Hello is sent. Returns pending(): the daemon then awaits the result on
  // this stream.
  bool Announce() { return awaited_ = pending(); }
  // The daemon of this stream awaits the result.
  bool awaited() const { return awaited_; }
  // It is of an older version, which does not.
  void NotAwaited() { awaited_ = false; }
  // Returns the result if it is to be sent now on this stream.
  std::optional<v1::SetupEnded> TakeResult();

  // A daemon waits for the node. Returns whether the command must be started
  // now; true only once.
  bool Begin(absl::Time now, const Limits& limits);
  // The shell of the running try has ended; its children may not have.
  void ShellEnded(int code, int signal, std::string stderr_tail);
  // No process of the try is left.
  void Gone(absl::Time now, const Limits& limits);

  enum class Due {
    kNothing,
    kStart,  // Start the command again.
    kStop,   // Its time is over: stop its processes.
  };
  Due Tick(absl::Time now);
  // The latest time of the next Tick.
  absl::Time due() const;

  // Its processes get at most `grace` from now on. Returns whether that is news
  // for the running try. No try follows.
  bool Stop(absl::Duration grace, absl::Time now);
  // No try follows; the running one goes on.
  void Abandon();

 private:
  enum class Phase { kWaiting, kRunning, kPausing, kOver };

  Phase phase_;
  uint32_t retries_;
  uint32_t tries_ = 0;
  // The end of the time limit.
  absl::Time until_ = absl::InfiniteFuture();
  absl::Time again_at_ = absl::InfiniteFuture();
  absl::Time kill_at_ = absl::InfiniteFuture();
  bool timed_out_ = false;
  bool abandoned_ = false;
  bool awaited_ = false;
  // How the running try's shell has ended.
  std::optional<v1::SetupEnded> shell_;
  std::optional<v1::SetupEnded> ended_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_SETUP_H_
