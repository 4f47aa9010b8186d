// Attendance: whether the agent attends its daemon, from the dial over the
// Welcome to the end of the stream, and when its next heartbeat is due.
//
// When to dial is Redial's decision.
//
// Pure; one thread.
#ifndef ROLLCALL_CLIENT_AGENT_CORE_AGENT_STATE_ATTENDANCE_H_
#define ROLLCALL_CLIENT_AGENT_CORE_AGENT_STATE_ATTENDANCE_H_

#include <algorithm>
#include <utility>

#include "absl/time/time.h"

namespace rollcall {

class Attendance {
 public:
  // No stream, and none is being opened.
  bool down() const { return phase_ == Phase::kDown; }
  // The stream is up and the daemon has welcomed the agent on it.
  bool welcomed() const { return phase_ == Phase::kWelcomed; }

  void Dial() { phase_ = Phase::kDialing; }

  // The daemon welcomes the agent and asks for a heartbeat each `interval`.
  // Returns false if it has done so before on this stream.
  bool Welcome(absl::Duration interval, absl::Time now) {
    if (welcomed()) return false;
    phase_ = Phase::kWelcomed;
    interval_ = std::max(interval, absl::Milliseconds(10));
    heartbeat_due_ = now + interval_;
    return true;
  }

  // The stream, or the attempt to open it, has ended. Returns whether the agent
  // was welcomed on it.
  bool End() {
    heartbeat_due_ = absl::InfiniteFuture();
    return std::exchange(phase_, Phase::kDown) == Phase::kWelcomed;
  }

  // Infinite without a welcomed stream.
  absl::Time heartbeat_due() const { return heartbeat_due_; }
  // Returns whether a heartbeat is due. If so, the next one is due `interval`
  // after `now`: delayed heartbeats are not made up for.
  bool TakeHeartbeat(absl::Time now) {
    if (now < heartbeat_due_) return false;
    heartbeat_due_ = now + interval_;
    return true;
  }

 private:
  enum class Phase {
    kDown,
    kDialing,  // Dial was sent, or Hello awaits its Welcome.
    kWelcomed
  };

  Phase phase_ = Phase::kDown;
  absl::Duration interval_;
  absl::Time heartbeat_due_ = absl::InfiniteFuture();
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_AGENT_STATE_ATTENDANCE_H_
