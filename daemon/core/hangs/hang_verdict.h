// HangVerdict: which of the ranks that stand still began it.
//
// When one rank hangs, all others soon wait for it in a collective, so the one
// that is furthest behind is to blame. How far a rank has come is its own
// node's word, and a false one could make others look behind. So with three or
// more nodes
//   - a claim that stands more than kCollectivesAheadMax above the median of
//   the
//     nodes' claims is not believed;
//   - nobody is to blame for being behind a single other node.
// Each node counts once, however many ranks it has. What a node says against
// its own rank (stopped, has not begun, does not answer, behind the node's
// other ranks) is believed. Nobody is to blame where ranks of several nodes, or
// all ranks, have not begun: nothing tells which of them the others wait for.
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

// From this many nodes on, one that does not fit the others is told apart.
inline constexpr size_t kHangNodesToCompare = 3;

// How many collectives a rank can honestly be ahead of the others. One that
// waits for each result is one ahead at most. One that only queues its
// collectives for a device, or is the root of broadcasts, is ahead by what the
// queue takes: 1024 launches with CUDA.
inline constexpr uint64_t kCollectivesAheadMax = 1024;

// Whether the rank has linked or published a step. One that has done neither
// may still be in its imports.
bool HasBegun(const v1::RankStalled& said);

// How far a rank has come; smaller: further behind. Stopped ones first, then
// those that have not begun, then those that do not answer. A rank that cannot
// be asked (a plain command) comes last, so that it is judged by the time
// alone.
struct HangPlace {
  explicit HangPlace(const v1::RankStalled& said);

  bool runs;
  bool begun;
  bool answers;
  uint64_t entered;
  uint64_t left;

  std::strong_ordering operator<=>(const HangPlace&) const = default;
};

// One rank that stands still.
struct HangClaim {
  int node_rank = 0;
  // Grows in the order in which they were said to stand still.
  uint64_t number = 0;
  const v1::RankStalled* said = nullptr;
};

struct HangVerdict {
  enum class Kind {
    kBehind,    // `claim` is to blame: it is furthest behind, or was the first.
    kTooFar,    // `claim` is to blame: it is not believed, and no other one is
                // behind.
    kOneClaim,  // Nobody is: only `claim`'s node is ahead of the others.
    kNotBegun,  // Nobody is: `claim` and others have not begun.
  };
  Kind kind = Kind::kBehind;
  // Into the claims.
  size_t claim = 0;
  // The first claim that is not believed.
  std::optional<size_t> disbelieved;
  // The collectives up to which claims are believed, and what they were
  // compared with, where there were enough.
  uint64_t entered_max = UINT64_MAX;
  uint64_t median = 0;
};

// `claims`: at least one.
HangVerdict JudgeHang(const std::vector<HangClaim>& claims);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_CORE_HANGS_HANG_VERDICT_H_
