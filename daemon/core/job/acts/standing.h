// A node's standing: whether it may have a seat, why not, and what it and
// people are told of that. Decides nothing about worlds.
//
// Thread rule: as for Job.
#ifndef ROLLCALL_DAEMON_CORE_JOB_ACTS_STANDING_H_
#define ROLLCALL_DAEMON_CORE_JOB_ACTS_STANDING_H_

#include <set>
#include <string>

#include "daemon/core/job/state/job_state.h"
#include "daemon/core/network_plan/facts_change.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// The node stays attended but gets no seat until it attends again.
void Exclude(JobState& job, Node& node, const std::string& reason);

// The same, until the node is probed again: see Probes::Unreached.
void ExcludeForNow(JobState& job, Node& node, const std::string& reason,
                   std::set<std::string> partners);

// Excludes the node until it is repaired and its agent is started again.
void SetQuarantined(JobState& job, Node& node, const std::string& reason);
void Unquarantine(JobState& job, Node& node);

// Nodes whose exclusion has expired may have a seat again.
void TakeBackUnreached(JobState& job);

// A late node reports that its ranks are gone or that it is prepared, so it may
// have a seat again. Exclude has counted a loss, so the delay grows each time.
void TakeBackLate(JobState& job, Node& node);

// Shows the user why a node waits although a seat is free.
void SayHold(JobState& job, Node& node);

// All that can be proven about the node's addresses now is proven.
void SetReached(JobState& job, Node& node);

// Others cannot reach the node, for this reason.
void SetUnreached(JobState& job, Node& node, const std::string& why);

// The node is to be probed by others; after that it may have a seat in the
// running world.
void GrowSoon(JobState& job, Node& node);

// Takes the current facts of an agent that continues. Returns which of the
// facts that worlds are planned with have changed. Probe results for former
// addresses do not apply to new ones. For a member of the running world, new
// facts apply when that world ends; until then others reach it at its former
// addresses.
FactsChange TakeFacts(JobState& job, Node& node, const v1::Facts& facts);

// Applies the facts that members reported while the world ran. The world has
// ended.
void TakeToldFacts(JobState& job);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_JOB_ACTS_STANDING_H_
