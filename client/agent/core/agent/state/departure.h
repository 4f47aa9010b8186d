// Departure: how the agent ends: with which exit, after how long a linger, and
// when it has ended.
//
// It stops no rank: the caller says when nothing is left.
//
// Invariants:
//   1. The first reason to leave counts. Only the first End of the job replaces
//      a reason that is not an End.
//   2. The agent lingers only for the End of a job.
//   3. It exits once.
//
// Pure; one thread.
#ifndef ROLLCALL_CLIENT_AGENT_CORE_AGENT_STATE_DEPARTURE_H_
#define ROLLCALL_CLIENT_AGENT_CORE_AGENT_STATE_DEPARTURE_H_

#include <optional>
#include <utility>

#include "absl/time/time.h"
#include "client/agent/core/agent_events.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class Departure {
 public:
  // Returns whether the agent leaves with this exit from now on.
  bool Leave(Exit exit) {
    if (leaves() && (job_ended() || !exit.end.has_value())) return false;
    exit_ = std::move(exit);
    return true;
  }

  // As Leave, with exit.end; the ranks and files are kept until `until`.
  bool Linger(Exit exit, absl::Time until) {
    if (!Leave(std::move(exit))) return false;
    linger_until_ = until;
    return true;
  }
  // Returns whether the agent lingered.
  bool EndLinger() {
    return std::exchange(linger_until_, absl::InfiniteFuture()) !=
           absl::InfiniteFuture();
  }

  bool leaves() const { return exit_.has_value(); }
  bool job_ended() const { return leaves() && exit_->end.has_value(); }
  bool lingers() const { return linger_until_ != absl::InfiniteFuture(); }
  absl::Time linger_until() const { return linger_until_; }
  const Exit& exit() const { return *exit_; }  // Requires leaves().

  // No rank and no process is left. Returns whether to exit now; true only
  // once. After a set-up that failed, an agent lingers although no rank runs.
  bool TakeExit() {
    if (!leaves() || exited_) return false;
    if (lingers() && exit_->end->code() == v1::REASON_CODE_SETUP) return false;
    exited_ = true;
    return true;
  }
  bool exited() const { return exited_; }

 private:
  std::optional<Exit> exit_;
  absl::Time linger_until_ = absl::InfiniteFuture();
  bool exited_ = false;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_AGENT_STATE_DEPARTURE_H_
