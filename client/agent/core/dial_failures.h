// DialFailures: when the agent reports why it cannot reach its daemon.
//
// The reason is reported once within 5 s, and again when it changes. The first
// second is silent, because a daemon that is starting refuses connections for
// that long. Each endpoint has its own reason. A reason that changes more often
// than every 5 s is reported every 5 s.
//
// Pure: no clock. One thread.
#ifndef ROLLCALL_CLIENT_AGENT_CORE_DIAL_FAILURES_H_
#define ROLLCALL_CLIENT_AGENT_CORE_DIAL_FAILURES_H_

#include <map>
#include <string>

#include "absl/time/time.h"

namespace rollcall {

class DialFailures {
 public:
  // Counts from `now`, the start of the agent, until a daemon welcomes it.
  explicit DialFailures(absl::Time now) : since_(now) {}

  // Lost: the stream has broken. LetIn: a daemon has welcomed the agent.
  void Lost(absl::Time now);
  void LetIn();

  // An attempt at `endpoint` (empty: none was dialed) has ended with this
  // reason. Returns whether to report the reason.
  bool Failed(const std::string& endpoint, const std::string& reason,
              absl::Time now);

  // The time at which to report that no attempt has ended yet; InfiniteFuture:
  // no report is due.
  absl::Time silent_until() const;
  // The report that was due at silent_until() was made.
  void SaidNothing(absl::Time now) { said_at_ = now; }

 private:
  // The start or the break of the stream; InfiniteFuture: the agent is
  // welcomed.
  absl::Time since_;
  absl::Time said_at_ = absl::InfinitePast();
  // The reason reported for each endpoint; at most kEndpointsMax.
  std::map<std::string, std::string> said_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_DIAL_FAILURES_H_
