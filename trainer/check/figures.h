// What a row of the check measures and how its bandwidths are defined: as
// nccl-tests has them, so that figures can be held against figures known from
// there.
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

// "all_reduce", "sendrecv": nccl-tests' programs, without their "_perf".
const char* NameOf(CollectiveKind kind);
// "sum" or "none".
const char* RedOpOf(CollectiveKind kind);
// The root, -1 where there is none.
int RootOf(CollectiveKind kind);

// Sizes from `least` to `most`, each `factor` times the one before, and `most`
// itself last. `least` is at least 1 and at most `most`; `factor` at least 2.
std::vector<size_t> SizesBetween(size_t least, size_t most, size_t factor);

// A row's size and count columns. All-gather and reduce-scatter count what one
// rank gives or gets; their size is that of all ranks together.
struct RowSize {
  size_t bytes = 0;
  size_t count = 0;
};
// Of what fits into `bytes`; one element a rank at least.
RowSize RowSizeOf(CollectiveKind kind, size_t bytes, int ranks);

// GB/s (10^9 bytes a second) of so many bytes in so many microseconds.
double AlgorithmBandwidth(size_t bytes, double time_us);
// What turns it into the bandwidth of the hardware that limits it.
double BusFactor(CollectiveKind kind, int ranks);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECK_FIGURES_H_
