// HangVerdict: which of the stalled ranks is the root cause.
//
// When one rank hangs, all others soon wait for it in a collective, so the rank
// that is furthest behind is to blame. Each node reports the positions of its
// own ranks, and a wrong report could make others look behind. So with three or
// more nodes
// - a claim that is more than kCollectivesAheadMax above the median of the
//   nodes' claims is not believed, unless the rank reports only what it has
//   begun: it may have queued any number of collectives;
// - no rank is to blame for being behind a single other node, except for NCCL,
//   whose counts may all come from the node that answered.
//
// Each node counts once, however many ranks it has. A node's report against its
// own rank (stopped, has not begun, does not answer, behind for NCCL, behind
// the node's other ranks) is believed. No rank is to blame if ranks of several
// nodes, or all ranks, have not begun, because it is not known which of them
// the others wait for. No rank is to blame either if ranks of several nodes are
// behind for NCCL, which does not know what they wait for outside of
// collectives.
//
// Pure; any thread.
#ifndef ROLLCALL_DAEMON_CORE_HANGS_HANG_VERDICT_H_
#define ROLLCALL_DAEMON_CORE_HANGS_HANG_VERDICT_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// With at least this many nodes, a claim that does not fit the others can be
// found.
inline constexpr size_t kHangNodesToCompare = 3;

// How many collectives a correct rank can be ahead of the others. A rank that
// waits for each result is at most one ahead. A rank that only queues its
// collectives on a device, or is the root of broadcasts, is ahead by the length
// of the queue: 1024 launches with CUDA.
inline constexpr uint64_t kCollectivesAheadMax = 1024;

// Whether the rank has linked or published a step. A rank that has done neither
// may still be importing its modules.
bool HasBegun(const v1::RankStalled& said);

// The position of a rank; smaller: further behind. Stopped ranks come first,
// then those that have not begun, those that do not answer, and those that are
// behind for NCCL. Those that wait in NCCL come last. Among ranks of the same
// `nccl`, a rank that cannot be asked (a plain command) is further ahead than
// all that can, so that it is judged by time alone.
struct HangPlace {
  explicit HangPlace(const v1::RankStalled& said);

  bool runs;
  bool begun;
  bool answers;
  enum Nccl { kBehind, kUnknown, kWaits } nccl;
  uint64_t entered;
  uint64_t left;

  std::strong_ordering operator<=>(const HangPlace&) const = default;
};

// One stalled rank.
struct HangClaim {
  int node_rank = 0;
  // Increases in the order in which stalls were reported.
  uint64_t number = 0;
  const v1::RankStalled* said = nullptr;
};

struct HangVerdict {
  enum class Kind {
    kBehind,    // `claim` is to blame: it is furthest behind, or was the first.
    kTooFar,    // `claim` is to blame: it is not believed, and no other one is
                // behind.
    kOneClaim,  // No rank is: only `claim`'s node is ahead of the others.
    kNotBegun,  // No rank is: `claim` and others have not begun.
    // No rank is: ranks of several nodes are behind for NCCL.
    kSeveralBehindInNccl,
  };
  Kind kind = Kind::kBehind;
  // Index into the claims.
  size_t claim = 0;
  // The first claim that is not believed.
  std::optional<size_t> disbelieved;
  // Claims above this collective are not believed. `median`: the value that
  // entered_max was computed from, if there were enough nodes.
  uint64_t entered_max = UINT64_MAX;
  uint64_t median = 0;
};

// Requires at least one claim.
HangVerdict JudgeHang(const std::vector<HangClaim>& claims);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_HANGS_HANG_VERDICT_H_
