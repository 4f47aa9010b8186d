#include "trainer/rank/world_end.h"

namespace rollcall {

absl::Status WaitAtBoundary(Rank& rank, int64_t step) {
  // The flag that the ranks sum may arrive before the agent's own notice.
  if (absl::Status s = rank.AwaitNotice(); !s.ok()) return s;
  rank.NoticeSeen(step);
  if (absl::Status s = rank.AwaitAbort(); !s.ok()) return s;
  return absl::AbortedError("the world has ended at a boundary");
}

}  // namespace rollcall
