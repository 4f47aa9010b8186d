// The sizes and bandwidths of the check's rows. They are defined as in
// nccl-tests, so that the numbers can be compared with known ones.
//
// Pure.
#ifndef ROLLCALL_TRAINER_CHECK_FIGURES_H_
#define ROLLCALL_TRAINER_CHECK_FIGURES_H_

#include <cstddef>
#include <vector>

namespace rollcall {

enum class CollectiveKind {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kSendReceive,
};
inline constexpr CollectiveKind kAllCollectives[] = {
    CollectiveKind::kAllReduce, CollectiveKind::kAllGather,
    CollectiveKind::kReduceScatter, CollectiveKind::kBroadcast,
    CollectiveKind::kSendReceive};

// "all_reduce", "sendrecv": the names of nccl-tests' programs without "_perf".
const char* NameOf(CollectiveKind kind);
// "sum" or "none".
const char* RedOpOf(CollectiveKind kind);
// The root rank; -1 if the collective has none.
int RootOf(CollectiveKind kind);

// Sizes from `min` to `max`, each `factor` times the previous one; the last is
// `max` itself. `min` is at least 1 and at most `max`; `factor` is at least 2.
std::vector<size_t> SizesBetween(size_t min, size_t max, size_t factor);

// A row's size and count columns. For all-gather and reduce-scatter, count is
// the number of elements of one rank, and size is the bytes of all ranks
// together.
struct RowSize {
  size_t bytes = 0;
  size_t count = 0;
};
// The largest size that fits into `bytes`, but at least one element per rank.
RowSize RowSizeOf(CollectiveKind kind, size_t bytes, int ranks);

// GB/s (10^9 bytes per second) of `bytes` in `time_us` microseconds.
double AlgorithmBandwidth(size_t bytes, double time_us);
// The factor from algorithm bandwidth to bus bandwidth, which is the bandwidth
// of the limiting hardware.
double BusFactor(CollectiveKind kind, int ranks);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECK_FIGURES_H_
