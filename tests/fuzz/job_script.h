// The script that a fuzzer's bytes are for a JobRig: one byte says what
// happens, those that follow it with whom and how. Few node names,
// incarnations and runs, so that worlds form and their members meet again.
#ifndef ROLLCALL_TESTS_FUZZ_JOB_SCRIPT_H_
#define ROLLCALL_TESTS_FUZZ_JOB_SCRIPT_H_

#include "rollcall/v1/membership.pb.h"
#include "tests/fuzz/feed.h"
#include "tests/fuzz/job_rig.h"

namespace rollcall {

// What an op byte, modulo kCount, stands for; the highest bytes stand for those
// that came later, so that what the corpus means stays.
enum class JobOp : uint8_t {
  kHello,         // who, options
  kHelloBytes,    // text: a serialized Hello
  kMessageBytes,  // who, text: a serialized AgentMessage
  kBeat,
  kPrepared,
  kPreparedAll,
  kRefused,
  kStopped,
  kExited,
  kLeaving,
  kExchange,
  kEndSeen,
  kClosed,
  kStop,
  kTick,
  kWait,
  kRestart,
  kDrain,       // who, deadline, reason
  kNoticeSeen,  // who, which, generation
  kNoticeSeenAll,
  kCheckReport,     // who, which, findings
  kPreparedStates,  // who, states
  kClaim,           // who, what it claims to run in
  kStalled,         // who, which, where, words
  kCount,

  // Each with the three bytes that follow it.
  kProbedHello = 0xF4,  // as kHello, of a node that can be probed
  kProbed = 0xF8,       // who, what else, and of each address what is found
  kProbedAll = 0xFC,    // everybody is reached by everybody
};

// Settings within their bounds.
v1::JobSettings ReadSettings(Feed& feed);

// Plays the rest of the feed, at most `steps_max` steps of it.
void Play(Feed& feed, JobRig& rig, int steps_max);

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_FUZZ_JOB_SCRIPT_H_
