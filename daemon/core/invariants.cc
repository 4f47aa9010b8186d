#include "daemon/core/invariants.h"

namespace rollcall {

const std::vector<InvariantRow> kInvariants = {
    {Invariant::kOneWorld, "one world",
     "A generation has one world and one world commit, the same for every "
     "receiver at "
     "every time."},
    {Invariant::kSameBytes, "same bytes",
     "All members of a generation start from the same bytes."},
    {Invariant::kDense, "dense",
     "Node ranks and ranks are dense, and no node or seat is in a world "
     "twice."},
    {Invariant::kSticky, "sticky",
     "A node that is a member of two successive worlds keeps its seat."},
    {Invariant::kNoOlder, "no older",
     "No agent or rank acts on a generation that is older than one it has "
     "seen."},
    {Invariant::kFreshIds, "fresh ids",
     "An NCCL id and a MASTER_PORT are used only in the generation for which "
     "they were made."},
    {Invariant::kSurvives, "survives",
     "The number of a generation that was sent to an agent is not used again, "
     "and a committed generation continues, however often the daemon dies."},
    {Invariant::kJournalFirst, "journal first",
     "A proposal, a commit and an end are in the journal before they are "
     "sent."},
    {Invariant::kJournalRestores, "journal restores",
     "The next daemon can continue from the journal of the last one."},
    {Invariant::kRefusedIsNothing, "refused is nothing",
     "An agent that is refused has changed nothing."},
    {Invariant::kRetryIsNothing, "retry is nothing",
     "An agent that redials with the same incarnation and the running world "
     "begins and ends no generation."},
    {Invariant::kReplacedIsOut, "replaced is out",
     "An incarnation that has received its Welcome and was replaced or lost is "
     "not admitted again by the daemon that knows it. A restarted daemon does "
     "not admit it either, once an agent that took its place by a token has "
     "received its Welcome."},
    {Invariant::kBounded, "bounded",
     "A job keeps each of its containers within its limit, which it CHECKs "
     "after each event, and an agent brings a world of at most "
     "resume_state_world_bytes_max."},
    {Invariant::kOneGenerationANode, "one generation a node",
     "No node has ranks of two generations at once."},
    {Invariant::kOneGenerationSteps, "one generation steps",
     "Once a generation of a run has completed a step, no older one does, "
     "unless a person has evicted a member of it, or a daemon without memory, "
     "which could not hear the newer one's members, has adopted a world that "
     "is older than both."},
    {Invariant::kPreparedMeansGone, "prepared means gone",
     "An agent sends Prepared only when no rank of an older generation is "
     "alive on its node."},
    {Invariant::kStartedOnce, "started once",
     "An agent starts the ranks of a generation once per incarnation, after it "
     "has prepared the generation and received its commit."},
    {Invariant::kExitIsLast, "exit is last",
     "When an agent exits, no rank of it is alive; it does nothing "
     "afterwards."},
    {Invariant::kLeaseHolds, "lease holds",
     "A silent node is not given up before its lease ends, and is not kept "
     "afterwards."},
    {Invariant::kNothingLeftDue, "nothing left due",
     "A tick does everything that is due; after it, the core asks for no time "
     "in the past."},
    {Invariant::kAdmitted, "admitted",
     "A daemon's admission accepts every message of an agent."},
    {Invariant::kReasons, "reasons", "Every end has a reason code and a text."},
    {Invariant::kMajority, "majority",
     "While over half of a world is silent, a member is given up for silence "
     "only by a daemon that has been isolated for daemon_grace."},
    {Invariant::kStateGoesOn, "state goes on",
     "The state of a world comes from a living rank of it with the highest "
     "step that any of its nodes has reported."},
    {Invariant::kLeavesForGood, "leaves for good",
     "A node with a journaled request to leave is in no later world as the "
     "same incarnation; a node that has said that it leaves is in no later "
     "world of the same daemon."},
    {Invariant::kEvictedIsOut, "evicted is out",
     "No daemon that knows or adopts the run admits an evicted node by a "
     "credential from before its eviction."},
    {Invariant::kBudget, "budget",
     "Only the failure of a rank costs a restart, and the count grows by one "
     "at a time."},
    {Invariant::kHangIsTold, "a hang is told",
     "A generation ends for a hang only if one of its ranks is reported as "
     "stalled. The blamed rank is reported as stalled, and no other is further "
     "behind. If a single node has a rank that is stopped or has not started, "
     "that node is blamed. A rank that has not started counts only if ranks of "
     "most nodes have started."},
    {Invariant::kTrainsOn, "trains on",
     "While enough other nodes live, nodes that join and are lost repeatedly "
     "do not keep a world from training long enough to finish its work."},
    {Invariant::kProgress, "progress",
     "Without further faults the job ends and all agents exit, and the job "
     "does not end by JOIN_TIMEOUT if enough nodes have lived for half of "
     "join_timeout."},
    {Invariant::kAdoptedByMost, "adopted by most",
     "A daemon without memory adopts a run only if over half of the members of "
     "its world have brought that world."},
    {Invariant::kToldItEnded, "told it ended",
     "An agent that comes back with a world that has ended is told so."},
    {Invariant::kExcludedIsOut, "excluded is out",
     "A node whose checks failed is in no later world until it attends again. "
     "A node that refused a world gets a seat again after at least 5 s, at "
     "most three times, and then only after it attends again."},
    {Invariant::kExitsAsTold, "exits as told",
     "An agent that attends when the job ends receives an End, and exits with "
     "its code and reason, which are the job's. A node that was in no world "
     "may exit 0."},
    {Invariant::kFormerIsSilent, "former is silent",
     "Of several daemons, one whose lease in the store has ended does not act "
     "as the leader, and none of its decisions as leader is sent or written "
     "afterwards."},
    {Invariant::kWrittenOnce, "written once",
     "A write to a shared store that was sent more than once, or arrives late, "
     "is carried out at most once."},
    {Invariant::kLeaderKnows, "leader knows",
     "A leader decides nothing before it has read everything in the shared "
     "store about the run, including its own writes."},
    {Invariant::kEndedStaysEnded, "ended stays ended",
     "While the end of a run is remembered, no daemon that leads replaces it "
     "in the shared store by a run that goes on or by another run, whatever "
     "its wall clock says."},
    {Invariant::kStoredOnce, "stored once",
     "An answered change of a generation's store is applied exactly once, even "
     "if the daemon dies. An operation never returns a state older than one "
     "that was returned before it began."},
};

}  // namespace rollcall
