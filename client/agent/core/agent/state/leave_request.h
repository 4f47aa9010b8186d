// LeaveRequest: the request that this node leaves, by signals to the agent and
// to its linked ranks, and how long the agent waits for the daemon to act on
// it.
//
// Pure; one thread.
#ifndef ROLLCALL_CLIENT_AGENT_CORE_AGENT_STATE_LEAVE_REQUEST_H_
#define ROLLCALL_CLIENT_AGENT_CORE_AGENT_STATE_LEAVE_REQUEST_H_

#include <utility>

#include "absl/time/time.h"

namespace rollcall {

class LeaveRequest {
 public:
  enum class Meaning {
    kFirst,   // Ask the daemon.
    kSame,    // The request that a rank has made already.
    kAtOnce,  // A second request: leave without waiting for anything.
  };

  // A signal has reached the agent. `leaves`: the agent leaves already;
  // `lingers`: it keeps ranks of an ended job.
  //
  // A signal to the whole node reaches both its ranks and its agent; the two
  // count as one request.
  Meaning Take(int signal, bool leaves, bool lingers) {
    if (std::exchange(by_rank_, false) && !lingers) {
      signal_ = signal;
      return Meaning::kSame;
    }
    if (made() || leaves) return Meaning::kAtOnce;
    signal_ = signal;
    return Meaning::kFirst;
  }
  // The request that was just taken is a linked rank's; no signal has reached
  // the agent yet.
  void IsOfRank() { by_rank_ = true; }

  bool made() const { return signal_ != 0; }
  int signal() const { return signal_; }  // 0: there was none.

  // How long to wait for the daemon.
  void WaitUntil(absl::Time until) { until_ = until; }
  void WaitNoLonger() { until_ = absl::InfiniteFuture(); }
  absl::Time due() const { return until_; }
  // Returns whether the daemon has not acted in time; true only once.
  bool TakeDue(absl::Time now) {
    if (now < until_) return false;
    WaitNoLonger();
    return true;
  }

 private:
  int signal_ = 0;
  bool by_rank_ = false;
  absl::Time until_ = absl::InfiniteFuture();
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_AGENT_STATE_LEAVE_REQUEST_H_
