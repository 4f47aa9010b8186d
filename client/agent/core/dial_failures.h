// DialFailures: what an agent says of a daemon that it cannot reach, and when.
//
// It says why within 5 s, once, and again when the reason changes. The first
// second is silent, since a daemon that starts, or starts again, refuses
// connections that long. Each endpoint has a reason of its own; what changes
// oftener than every 5 s is said every 5 s.
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
  // Until a daemon lets us in, from `now` on.
  explicit DialFailures(absl::Time now) : since_(now) {}

  // The stream has broken; and a daemon lets us in.
  void Lost(absl::Time now);
  void LetIn();

  // An attempt at `endpoint` (empty: none was dialled) has ended, with this
  // reason. Whether to say it.
  bool Failed(const std::string& endpoint, const std::string& reason,
              absl::Time now);

  // When to say that attempts have not even ended; InfiniteFuture: never.
  absl::Time silent_until() const;
  // At silent_until(): it was said.
  void SaidNothing(absl::Time now) { said_at_ = now; }

 private:
  // InfiniteFuture: we are in.
  absl::Time since_;
  absl::Time said_at_ = absl::InfinitePast();
  // What was said of each endpoint; at most kEndpointsMax.
  std::map<std::string, std::string> said_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_DIAL_FAILURES_H_
