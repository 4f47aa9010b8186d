// ToldFacts: whether the daemon knows this node's latest facts.
//
// Thread rule: the loop thread.
#ifndef ROLLCALL_CLIENT_AGENT_TOLD_FACTS_H_
#define ROLLCALL_CLIENT_AGENT_TOLD_FACTS_H_

#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class ToldFacts {
 public:
  // `facts`: the node's latest facts.
  explicit ToldFacts(v1::Facts& facts) : facts_(facts) {}

  // Puts the facts into a Hello, which is sent next. Gathers the network's
  // facts again, because the daemon may have been unreachable since an
  // interface has changed. Of other messages, it keeps what they report.
  void PutInto(v1::AgentMessage& message);

  // Updates the facts from a report of checks, or of the network alone. Returns
  // whether the daemon must be told.
  bool Take(v1::CheckReport& report);

  bool all_told() const;

 private:
  v1::Facts& facts_;
  v1::Facts told_;  // The facts that the daemon was sent last.
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_TOLD_FACTS_H_
