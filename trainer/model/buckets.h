// Buckets: the flat gradients cut into contiguous pieces, in the order in which
// the backward pass finishes them: the last blocks first, the embedding tables
// at the end.
//
// Pure.
#ifndef ROLLCALL_TRAINER_MODEL_BUCKETS_H_
#define ROLLCALL_TRAINER_MODEL_BUCKETS_H_

#include <cstddef>
#include <vector>

#include "trainer/model/parameters.h"

namespace rollcall {

// In elements of the flat array. The bucket is complete when block `block` and
// all later blocks are done; kTables: when everything is.
struct Bucket {
  static constexpr int kTables = -1;

  size_t begin = 0;
  size_t end = 0;
  int block = kTables;
};

// Minimum size of every bucket but the last: each small one costs a round trip
// (PyTorch's DistributedDataParallel uses 25 MB).
inline constexpr size_t kBucketBytes = 4 << 20;

// Covers all of layout.size + `extras` without gaps; the first bucket ends at
// the end. The last block's bucket also holds the gradients of the final norm
// and the extras.
std::vector<Bucket> CutBuckets(const GptLayout& layout, size_t extras,
                               size_t bucket_bytes = kBucketBytes);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_MODEL_BUCKETS_H_
