// The promises of a run, each with a number, a name and one sentence, whatever
// is lost, delayed, said twice or killed.
//
// Written here once. The cores keep them, the simulator (tests/sim) holds every
// run against them and names the one that was broken; a test or a document that
// means one of them gives its number or its name.
#ifndef ROLLCALL_DAEMON_CORE_INVARIANTS_H_
#define ROLLCALL_DAEMON_CORE_INVARIANTS_H_

#include <vector>

namespace rollcall {

enum class Invariant {
  kOneWorld = 1,
  kSameBytes,
  kDense,
  kSticky,
  kNoOlder,
  kFreshIds,
  kSurvives,
  kJournalFirst,
  kJournalRestores,
  kRefusedIsNothing,
  kRetryIsNothing,
  kReplacedIsOut,
  kBounded,
  kOneGenerationANode,
  kOneGenerationSteps,
  kPreparedMeansGone,
  kStartedOnce,
  kExitIsLast,
  kLeaseHolds,
  kNothingLeftDue,
  kAdmitted,
  kReasons,
  kMajority,
  kStateGoesOn,
  kLeavesForGood,
  kEvictedIsOut,
  kBudget,
  kHangIsTold,
  kTrainsOn,
  kProgress,
  kAdoptedByMost,
  kToldItEnded,
  kExcludedIsOut,
  kExitsAsTold,
  kFormerIsSilent,
  kWrittenOnce,
  kLeaderKnows,
  kEndedStaysEnded,
};

struct InvariantRow {
  Invariant number;
  const char* name;
  const char* sentence;
};
// All of them, by number.
extern const std::vector<InvariantRow> kInvariants;

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_INVARIANTS_H_
