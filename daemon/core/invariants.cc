#include "daemon/core/invariants.h"

namespace rollcall {

const std::vector<InvariantRow> kInvariants = {
    {Invariant::kOneWorld, "one world",
     "A generation has one world and one seal, whoever is told and whenever."},
    {Invariant::kSameBytes, "same bytes",
     "All members of a generation start from the same bytes."},
    {Invariant::kDense, "dense",
     "Node ranks and ranks are dense, and no node or seat is in a world "
     "twice."},
    {Invariant::kSticky, "sticky",
     "Who stays a member keeps its seat from one world to the next."},
    {Invariant::kNoOlder, "no older",
     "Nobody acts on a generation older than one it has seen."},
    {Invariant::kFreshIds, "fresh ids",
     "An NCCL id and a MASTER_PORT belong to the generation that they were "
     "made for, and to no other."},
    {Invariant::kSurvives, "survives",
     "No generation that anybody was told of is used again, and one that was "
     "committed runs on, however often the daemon dies."},
    {Invariant::kJournalFirst, "journal first",
     "A proposal, a commit and an end are in the journal before they are "
     "told."},
    {Invariant::kJournalRestores, "journal restores",
     "What a daemon journaled, the next one can go on from."},
    {Invariant::kRefusedIsNothing, "refused is nothing",
     "Who is refused has changed nothing."},
    {Invariant::kRetryIsNothing, "retry is nothing",
     "Who dials again, in the same life and with the world that runs, begins "
     "and ends no generation."},
    {Invariant::kReplacedIsOut, "replaced is out",
     "An incarnation that has heard its welcome and was replaced or lost is "
     "not let in again by the daemon that knows it, nor by one that was "
     "started "
     "again once an agent has heard its welcome that took the place by a "
     "token."},
    {Invariant::kBounded, "bounded",
     "A job keeps each of its containers within its limit, which it CHECKs "
     "after each event, and an agent brings a world of at most "
     "held_world_bytes_max."},
    {Invariant::kOneGenerationANode, "one generation a node",
     "No node has ranks of two generations at once."},
    {Invariant::kOneGenerationSteps, "one generation steps",
     "Once a generation of a run has completed a step, no older one does, "
     "unless a person has evicted a member of it."},
    {Invariant::kPreparedMeansGone, "prepared means gone",
     "Prepared is said only where no rank of an older generation lives."},
    {Invariant::kStartedOnce, "started once",
     "Ranks of a generation are started once in a life, after it was prepared "
     "for and its commit was heard."},
    {Invariant::kExitIsLast, "exit is last",
     "An agent exits with no rank alive, and does nothing after."},
    {Invariant::kLeaseHolds, "lease holds",
     "Nobody is given up for silence before its lease ends, or kept after."},
    {Invariant::kNothingLeftDue, "nothing left due",
     "A tick does all that is due; a core that is told the time never asks "
     "for a moment that has passed."},
    {Invariant::kAdmitted, "admitted",
     "What an agent says is admitted by a daemon."},
    {Invariant::kReasons, "reasons",
     "What ends, ends with a code and with words."},
    {Invariant::kMajority, "majority",
     "While over half of a world is silent, a member is given up for silence "
     "only by a daemon that has been isolated for daemon_grace."},
    {Invariant::kStateGoesOn, "state goes on",
     "The source of a world's state is a living rank of it that holds the "
     "highest step that any of them brought."},
    {Invariant::kLeavesForGood, "leaves for good",
     "A node that was asked to leave, durably, is in no later world as the "
     "same incarnation; one that has said that it leaves is in no later world "
     "of the same daemon."},
    {Invariant::kEvictedIsOut, "evicted is out",
     "No daemon that knows or adopts the run admits an evicted node by a "
     "credential from before its eviction."},
    {Invariant::kBudget, "budget",
     "Only a rank's failure costs a restart, and one at a time."},
    {Invariant::kHangIsTold, "a hang is told",
     "A generation ends for a hang only where a rank of it is said to stand "
     "still; who is blamed is said to, and no other is further behind. A node "
     "that alone has a rank which is stopped, or has not started, is blamed. "
     "That one has not started counts only where ranks of most of its nodes "
     "have."},
    {Invariant::kTrainsOn, "trains on",
     "While enough other nodes live, nodes that join and are lost again and "
     "again keep no world from training for as long as its work takes."},
    {Invariant::kProgress, "progress",
     "In calm the job comes to its end and all agents exit, and it does not "
     "end by JOIN_TIMEOUT where enough nodes have lived for half of "
     "join_timeout."},
    {Invariant::kAdoptedByMost, "adopted by most",
     "A daemon without memory goes on with a run only where over half of the "
     "members of that world have brought it."},
    {Invariant::kToldItEnded, "told it ended",
     "An agent that comes back with a world that has ended is told so."},
    {Invariant::kExcludedIsOut, "excluded is out",
     "A node whose checks failed is in no later world before it attends anew; "
     "one that refused a world gets a seat again after 5 s at the earliest, "
     "three times, and then not before it attends anew."},
    {Invariant::kExitsAsTold, "exits as told",
     "An agent that attends when the job ends hears of it, and exits with the "
     "code and the reason of the End that it heard, which are the job's; a "
     "node that never served may exit 0."},
    {Invariant::kFormerIsSilent, "former is silent",
     "Of several daemons, one whose lease in the store has ended does not take "
     "itself for the leader, and nothing that it decided as leader is sent or "
     "written."},
    {Invariant::kWrittenOnce, "written once",
     "A write to a shared store that was sent more than once, or arrives late, "
     "is carried out once at most."},
    {Invariant::kLeaderKnows, "leader knows",
     "A leader decides nothing before it knows all that the shared store has "
     "of the run, its own writes included."},
    {Invariant::kEndedStaysEnded, "ended stays ended",
     "While the end of a run is remembered, no daemon that leads replaces it "
     "in the shared store by a run that goes on or by another run, whatever "
     "its wall clock says."},
};

}  // namespace rollcall
