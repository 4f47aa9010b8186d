// The invariants of a run, each with a number, a name and one sentence. They
// hold under losses, delays, repeated messages and kills.
//
// They are defined only here. The cores keep them. The simulator (tests/sim)
// checks every run against them and names the one that was violated. Tests and
// documents refer to them by number or name.
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
  kStoredOnce,
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
