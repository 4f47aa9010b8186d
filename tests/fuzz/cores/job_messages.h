// The messages of an agent, read from a fuzzer's bytes.
#ifndef ROLLCALL_TESTS_FUZZ_CORES_JOB_MESSAGES_H_
#define ROLLCALL_TESTS_FUZZ_CORES_JOB_MESSAGES_H_

#include <cstdint>

#include "rollcall/v1/membership.pb.h"
#include "tests/fuzz/cores/job_rig.h"
#include "tests/fuzz/cores/job_script.h"
#include "tests/fuzz/feed.h"

namespace rollcall {

// Mostly the current generation or one next to it.
uint64_t ReadGeneration(Feed& feed, const JobRig& rig);

void FillFacts(uint32_t node, v1::Facts& facts);

v1::AgentMessage Prepared(uint64_t generation);

// The message that this op sends.
v1::AgentMessage ReadMessage(JobOp op, Feed& feed, const JobRig& rig);

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_FUZZ_CORES_JOB_MESSAGES_H_
