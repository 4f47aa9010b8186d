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
#include "client/agent/core/agent/state/rank_watch.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

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
  // The preempt signal for the notice was sent to it.
  bool signalled = false;
  bool at_boundary = false;
  // The deadline for its answer to an abort.
  absl::Time answer_by = absl::InfiniteFuture();
  std::optional<v1::RankState> waits;
  // Its highest step in the running generation.
  uint64_t step = 0;
  RankWatch watch;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_AGENT_STATE_RANK_PROCESS_H_
