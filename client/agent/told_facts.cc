#include "client/agent/told_facts.h"

#include "client/facts/facts.h"
#include "client/facts/system/network.h"
#include "client/facts/system/system.h"

namespace rollcall {

void ToldFacts::PutInto(v1::AgentMessage& message) {
  if (message.has_hello()) {
    v1::Facts now;
    GatherNetwork(now);
    TakeNetwork(now, facts_);
    SetWallClock(facts_);
    *message.mutable_hello()->mutable_facts() = facts_;
  }
  if (message.has_hello() || message.check_report().has_facts()) told_ = facts_;
}

bool ToldFacts::Take(v1::CheckReport& report) {
  const bool asked = report.request() != 0;
  (asked ? TakeChecked : TakeNetwork)(report.facts(), facts_);
  *report.mutable_facts() = facts_;
  return asked || !all_told();
}

bool ToldFacts::all_told() const {
  return told_.SerializeAsString() == facts_.SerializeAsString();
}

}  // namespace rollcall
