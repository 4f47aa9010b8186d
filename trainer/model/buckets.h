// Buckets: the flat gradients cut into contiguous pieces, in the order in which
// the way back finishes them: last blocks first, the tables at the end.
//
// Pure.
#ifndef ROLLCALL_TRAINER_MODEL_BUCKETS_H_
#define ROLLCALL_TRAINER_MODEL_BUCKETS_H_

#include <cstddef>
#include <vector>

#include "trainer/model/parameters.h"

namespace rollcall {

// In elements of the flat array. Whole once block `block`, and so all later
// ones, are; kTables: once everything is.
struct Bucket {
  static constexpr int kTables = -1;

  size_t begin = 0;
  size_t end = 0;
  int block = kTables;
};

// At least this large but for the last one; small ones cost a round trip each
// (PyTorch's DistributedDataParallel takes 25 MB).
inline constexpr size_t kBucketBytes = 4 << 20;

// All of layout.size + behind, without gaps; the first ends at the end. The
// last block's gradients end with those of the last norm and what is behind
// them.
std::vector<Bucket> CutBuckets(const GptLayout& layout, size_t behind,
                               size_t bucket_bytes = kBucketBytes);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_MODEL_BUCKETS_H_
