// RankProcess: a rank's process, from its start until its descendants are
// swept. With --attach: a rank of a world, whether a process has attached for
// it or not.
//
// A record without rules of its own; one thread.
#ifndef ROLLCALL_CLIENT_AGENT_CORE_AGENT_STATE_RANK_PROCESS_H_
#define ROLLCALL_CLIENT_AGENT_CORE_AGENT_STATE_RANK_PROCESS_H_

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// A rank that makes no progress, and what is known of it so far.
struct RankStall {
  v1::RankStalled message;
  // The deadline for the rank's own answer; infinite: it has answered or is
  // no longer awaited.
  absl::Time answer_by = absl::InfiniteFuture();
  bool looked = false;
  bool said = false;  // Sent on this stream.

  bool known() const { return looked && answer_by == absl::InfiniteFuture(); }
};

struct RankProcess {
  uint64_t born = 0;  // The generation for which it was started.
  bool ended = false;
  bool linked = false;
  bool elastic = false;
  // It has closed its connection: it has finished, and its process is about
  // to end.
  bool unlinked = false;
  bool stopping = false;
  absl::Time kill_at = absl::InfiniteFuture();
  absl::Time started_at;
  // It has linked or published a step.
  bool begun = false;
  // The preempt signal for the notice was sent to it.
  bool signalled = false;
  bool at_boundary = false;
  // The deadline for its answer to an abort.
  absl::Time answer_by = absl::InfiniteFuture();
  std::optional<v1::RankState> waits;
  // Its highest step in the running generation.
  uint64_t step = 0;
  // The time at which the rank counts as stalled if it makes no progress;
  // infinite: no progress is expected of it.
  absl::Time hangs_at = absl::InfiniteFuture();
  std::optional<RankStall> stall;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_AGENT_STATE_RANK_PROCESS_H_
