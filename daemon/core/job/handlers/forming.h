// Gathering and the first phase of a world: probes, checks and the proposal.
//
// Thread rule: as for Job.
#ifndef ROLLCALL_DAEMON_CORE_JOB_HANDLERS_FORMING_H_
#define ROLLCALL_DAEMON_CORE_JOB_HANDLERS_FORMING_H_

#include "daemon/core/job/state/job_state.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Carries out what Vetting decided. Returns whether a world may be proposed.
// Without a node that the decision leaves out, another world may be proposed
// during the call.
bool CarryOutVetting(JobState& job, Vetting::Decision decision);

// Whether the next world waits for nodes with a seat whose streams broke.
bool AwaitsSuspects(const JobState& job);

// Proposes a world if the job gathers and Gathering says that it is time.
void MaybeForm(JobState& job);

// Begins a round of probes if one is due while a world runs. Newcomers are
// probed before a world is ended for them. A few spares are probed too, so that
// a free seat is taken without a round of probes.
void MaybeProbe(JobState& job);

// The node's probe results are outdated. `moved`: its addresses have changed.
void ProbeAgain(JobState& job, Node& node, bool moved);

void OnRefused(JobState& job, Node& node, const v1::Refused& refused);

// prepare_timeout is over: excludes the members that have not prepared;
// requires that there are any.
void DropLaggards(JobState& job);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_JOB_HANDLERS_FORMING_H_
