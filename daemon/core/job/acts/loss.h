// Nodes that go: their streams, leases, and what their loss means for the
// world.
//
// Thread rule: as for Job.
#ifndef ROLLCALL_DAEMON_CORE_JOB_ACTS_LOSS_H_
#define ROLLCALL_DAEMON_CORE_JOB_ACTS_LOSS_H_

#include <string>

#include "daemon/core/job/state/job_state.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Separates the node from its stream.
void Detach(JobState& job, Node& node);

// Gives the node up. Its entry stays for a while, so that messages can name the
// node; `node` may be invalid after the call. `evicted`: the loss does not
// delay newcomers, because the node did not fail: a person evicted it, another
// node took its place, or its set-up command failed.
void GiveUp(JobState& job, Node& node, v1::NodeState state,
            const std::string& reason, bool evicted = false);

// Renews the lease of a node that has sent something.
void Renew(JobState& job, Node& node);

// Gives the node up and ends the world that it is a member of, if it still has
// ranks there.
void Lose(JobState& job, Node& node, v1::ReasonCode code,
          const std::string& reason);

// The isolation ends; the nodes that have not come back during it are lost.
void LoseTheSilent(JobState& job);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_JOB_ACTS_LOSS_H_
