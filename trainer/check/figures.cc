#include "trainer/check/figures.h"

#include <algorithm>

namespace rollcall {

const char* NameOf(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return "all_reduce";
    case CollectiveKind::kAllGather:
      return "all_gather";
    case CollectiveKind::kReduceScatter:
      return "reduce_scatter";
    case CollectiveKind::kBroadcast:
      return "broadcast";
    case CollectiveKind::kSendReceive:
      return "sendrecv";
  }
  return "";
}

const char* RedOpOf(CollectiveKind kind) {
  return kind == CollectiveKind::kAllReduce ||
                 kind == CollectiveKind::kReduceScatter
             ? "sum"
             : "none";
}

int RootOf(CollectiveKind kind) {
  return kind == CollectiveKind::kBroadcast ? 0 : -1;
}

std::vector<size_t> SizesBetween(size_t min, size_t max, size_t factor) {
  std::vector<size_t> sizes;
  for (size_t size = min; size < max; size *= factor) {
    sizes.push_back(size);
    if (size > max / factor) break;
  }
  sizes.push_back(max);
  return sizes;
}

RowSize RowSizeOf(CollectiveKind kind, size_t bytes, int ranks) {
  const bool of_all = kind == CollectiveKind::kAllGather ||
                      kind == CollectiveKind::kReduceScatter;
  const size_t pieces = of_all ? ranks : 1;
  const size_t count = std::max<size_t>(1, bytes / sizeof(float) / pieces);
  return {count * pieces * sizeof(float), count};
}

double AlgorithmBandwidth(size_t bytes, double time_us) {
  constexpr double kPerGigabyteSecond = 1e3;  // In bytes per microsecond.
  return static_cast<double>(bytes) / time_us / kPerGigabyteSecond;
}

double BusFactor(CollectiveKind kind, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return 2 * others;
    case CollectiveKind::kAllGather:
    case CollectiveKind::kReduceScatter:
      return others;
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kSendReceive:
      return 1;
  }
  return 1;
}

}  // namespace rollcall
