// What agents report of a rank that runs and makes no progress.
#ifndef ROLLCALL_TESTS_STORY_JOB_HANGS_STALLED_RANK_H_
#define ROLLCALL_TESTS_STORY_JOB_HANGS_STALLED_RANK_H_

#include <cstdint>
#include <string>

#include "tests/story/job/job_story.h"

namespace rollcall {

// What an agent has seen of a rank that makes no progress.
struct Seen {
  int64_t entered = -1;  // -1: it counts no collectives.
  int64_t left = -1;
  bool answered = true;
  bool stopped = false;
  bool linked = true;
  uint32_t local_rank = 0;
  uint64_t step = 7;
};

inline Told Stands(const std::string& node, uint64_t generation,
                   const Seen& seen) {
  v1::AgentMessage message;
  v1::RankStalled& stalled = *message.mutable_rank_stalled();
  stalled.set_generation(generation);
  stalled.set_local_rank(seen.local_rank);
  stalled.set_step(seen.step);
  if (seen.linked) stalled.set_answered(seen.answered);
  if (seen.entered >= 0) {
    stalled.set_collective_entered(static_cast<uint64_t>(seen.entered));
    stalled.set_collective_left(static_cast<uint64_t>(seen.left));
  }
  stalled.set_stopped(seen.stopped);
  stalled.set_text("sleeps");
  return Says(node, message);
}

inline Told GoesOn(const std::string& node, uint64_t generation) {
  v1::AgentMessage message;
  message.mutable_rank_stalled()->set_generation(generation);
  message.mutable_rank_stalled()->set_goes_on(true);
  return Says(node, message);
}

inline const Seen kWaits{9, 8};

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_STORY_JOB_HANGS_STALLED_RANK_H_
