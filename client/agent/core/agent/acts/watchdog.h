// The watchdog, which finds ranks that make no progress and reports them.
//
// The clock of a rank starts when progress may be expected: for an elastic rank
// when it attends or gets a new world, for other ranks at their first progress.
// The clock stops when the rank reaches a boundary, ends, unlinks, or is
// between two worlds. The daemon decides which rank stalled first, because all
// ranks of a world stall soon after one of them does.
//
// A rank that has neither linked nor published a step has another clock. It
// starts at the rank's start, and only in worlds for which the daemon has sent
// RanksLink: ranks of over half of the nodes link or publish steps. No progress
// is expected of a plain command that does neither, even if other ranks of this
// node do.
//
// Free functions over AgentState; one thread.
#ifndef ROLLCALL_CLIENT_AGENT_CORE_AGENT_ACTS_WATCHDOG_H_
#define ROLLCALL_CLIENT_AGENT_CORE_AGENT_ACTS_WATCHDOG_H_

#include <cstdint>

#include "absl/time/time.h"
#include "client/agent/core/agent/state/agent_state.h"
#include "client/agent/core/agent_events.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Starts the rank's clock: it has made progress, or progress may be expected
// from now on.
void Watch(AgentState& agent, uint32_t local_rank, RankProcess& rank);

// Starts the clock of a rank that is expected to link or to publish a step.
void WatchStart(AgentState& agent, RankProcess& rank);

// The rank has linked or published a step; only the first call counts.
void NoteBegun(AgentState& agent, uint32_t local_rank, RankProcess& rank);

// Stops the rank's clock. If the daemon was told of a stall, it is told that
// the rank goes on.
void Unwatch(AgentState& agent, uint32_t local_rank, RankProcess& rank);

void UnwatchAll(AgentState& agent);

// While the loop was delayed it read no messages of its ranks, so their
// deadlines are moved by the delay.
void Forgive(AgentState& agent, absl::Duration late);

// Examines the ranks whose clock has run out.
void LookForHangs(AgentState& agent);

// Called for a new stream. A rank that has begun and has published no step may
// have waited for the daemon, so its clock gets the time without a stream, and
// once the time for which a dead stream may go unnoticed. It does not start
// again: otherwise streams that break often would keep it from running out.
void SayStallsAgain(AgentState& agent);

void OnRanksLink(AgentState& agent, const v1::RanksLink& link);

void On(AgentState& agent, const RankIsHere& here);

void On(AgentState& agent, const RankLooked& looked);

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_AGENT_ACTS_WATCHDOG_H_
