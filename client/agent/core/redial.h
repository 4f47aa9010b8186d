// Redial: when the agent dials its daemon again, when it gives up, and what it
// reports of failed attempts.
//
// Pure: no clock. One thread.
#ifndef ROLLCALL_CLIENT_AGENT_CORE_REDIAL_H_
#define ROLLCALL_CLIENT_AGENT_CORE_REDIAL_H_

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "client/agent/core/agent_events.h"
#include "client/agent/core/dial_failures.h"
#include "client/agent/core/redial_delay.h"
#include "daemon/core/limits.h"

namespace rollcall {

class Redial {
 public:
  // `join_timeout`: how long to redial a daemon that has never welcomed the
  // agent. The first dial is due at once.
  Redial(const Limits& limits, absl::Duration join_timeout, absl::Time now);

  // A daemon has welcomed the agent.
  void Welcomed();
  bool welcomed() const { return welcomed_; }  // Since the agent started.

  // A stream or an attempt has ended. `attended`: the agent was welcomed on
  // this stream, so from now on it redials for daemon_grace.
  void Ended(const StreamDown& down, bool attended, const Limits& limits,
             absl::Time now);
  // When the latest stream on which the agent was welcomed ended; InfinitePast:
  // none has.
  absl::Time lost_at() const { return lost_at_; }
  // Why the latest stream or attempt ended; printable.
  const std::string& last_error() const { return last_error_; }

  // Sets the time of the next dial. `jitter` is uniform in [0, 1).
  void Schedule(double jitter, const Limits& limits, absl::Time now);
  // A standby daemon has answered, so the leader is dialed soon.
  void SeekLeader(const Limits& limits);
  absl::Time dial_at() const { return dial_at_; }

  absl::Time give_up_at() const { return give_up_at_; }
  std::string GiveUpReason() const;

  // Another agent has this agent's name. It may be this node's previous agent,
  // whose lease has not ended yet. Returns whether to keep trying. `news`: what
  // to report, set at the first call.
  bool AwaitName(const Limits& limits, absl::Time now,
                 std::optional<Report>& news);

  // What to report after Ended. A daemon that cannot work (a full disk, for
  // example) ends the stream again and again until the cause is removed; this
  // is reported once.
  std::optional<Report> TurnedAway(const StreamDown& down,
                                   const Limits& limits);
  std::optional<Report> Unreachable(const StreamDown& down, absl::Time now);
  // What to report if no attempt has ended yet; due at silent_until().
  std::optional<Report> Silence(absl::Time now);
  absl::Time silent_until() const { return failures_.silent_until(); }

 private:
  absl::Time dial_at_;
  RedialDelay delay_;
  // A standby daemon has answered since the last Welcome.
  bool leader_sought_ = false;
  absl::Time give_up_at_;
  absl::Time lost_at_ = absl::InfinitePast();
  bool welcomed_ = false;
  std::string last_error_;
  // Why the daemon last ended the stream of an attending agent.
  std::string turned_away_;
  DialFailures failures_;
  absl::Time name_taken_until_ = absl::InfiniteFuture();
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_REDIAL_H_
