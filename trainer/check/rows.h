// MeasureRow: measures one row of the check's table: times a collective at one
// size and verifies its result.
//
// The timed runs move zeros, because repeated sums in place would grow without
// limit. The verified run moves a pattern into memory that contains no part of
// it.
//
// Thread rule: one thread. All ranks of the world call it with the same plan.
#ifndef ROLLCALL_TRAINER_CHECK_ROWS_H_
#define ROLLCALL_TRAINER_CHECK_ROWS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "trainer/check/figures.h"
#include "trainer/check/memory.h"
#include "trainer/check/pattern.h"
#include "trainer/collective/collective.h"

namespace rollcall {

struct RowPlan {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  RowSize size;
  int warmup = 1;
  // The number of timed runs; fewer if they do not fit into `budget`, but at
  // least one.
  int iterations = 20;
  absl::Duration budget = absl::Seconds(2);
  uint32_t seed = 0;
};

// The wrong values on one rank.
struct WrongOnRank {
  int rank = 0;
  WrongValues values;
};

// A row of the table; all ranks have the same.
struct Row {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  RowSize size;
  int iterations = 0;
  double time_us = 0;              // The slowest rank's average.
  std::vector<WrongOnRank> wrong;  // By rank; empty: all values are right.

  uint64_t wrong_count() const;
  double algbw_gbps() const { return AlgorithmBandwidth(size.bytes, time_us); }
  double busbw_gbps(int ranks) const {
    return algbw_gbps() * BusFactor(kind, ranks);
  }
};

// Errors are those of the collective and of the memory.
absl::StatusOr<Row> MeasureRow(Collective& collective, CheckMemory& memory,
                               const RowPlan& plan);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_CHECK_ROWS_H_
