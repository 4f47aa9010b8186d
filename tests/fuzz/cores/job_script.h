// The script for a JobRig that a fuzzer's bytes are read as: one byte selects
// the event, the bytes after it its node and details. There are few node names,
// incarnations and runs, so that worlds form and their members come back.
#ifndef ROLLCALL_TESTS_FUZZ_CORES_JOB_SCRIPT_H_
#define ROLLCALL_TESTS_FUZZ_CORES_JOB_SCRIPT_H_

#include "rollcall/v1/membership.pb.h"
#include "tests/fuzz/cores/job_rig.h"
#include "tests/fuzz/feed.h"

namespace rollcall {

// The meaning of an op byte, modulo kCount. Events that were added later have
// the highest bytes, so that the corpus keeps its meaning.
enum class JobOp : uint8_t {
  kHello,         // node, options
  kHelloBytes,    // text: a serialized Hello
  kMessageBytes,  // node, text: a serialized AgentMessage
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
  kDrain,       // node, deadline, reason
  kNoticeSeen,  // node, number, generation
  kNoticeSeenAll,
  kCheckReport,     // node, number, findings
  kPreparedStates,  // node, states
  kClaim,           // node, the world that it claims
  kStalled,         // node, rank, place, text
  kCount,

  // Each also takes the three values after it.
  kFactChange = 0xF0,   // node, kind, count, texts
  kProbedHello = 0xF4,  // as kHello, of a node that can be probed
  kProbed = 0xF8,       // node, what else, and the result for each address
  kProbedAll = 0xFC,    // every node reaches every other one
};

// Settings within their bounds.
v1::JobSettings ReadSettings(Feed& feed);

// Plays the rest of the feed, at most `steps_max` steps of it.
void Play(Feed& feed, JobRig& rig, int steps_max);

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_FUZZ_CORES_JOB_SCRIPT_H_
