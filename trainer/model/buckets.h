// Buckets: the flat gradients cut into contiguous pieces, in the order in which
// the backward pass finishes them: the last blocks first, the embedding tables
// last.
//
// Pure.
#ifndef ROLLCALL_TRAINER_MODEL_BUCKETS_H_
#define ROLLCALL_TRAINER_MODEL_BUCKETS_H_

#include <cstddef>
#include <vector>

#include "trainer/model/parameters.h"

namespace rollcall {

// Positions are elements of the flat array. The bucket is complete when block
// `block` and all later blocks are done; kTables: when everything is done.
struct Bucket {
  static constexpr int kTables = -1;

  size_t begin = 0;
  size_t end = 0;
  int block = kTables;
};

// The minimum size of every bucket but the last. Each bucket costs a round
// trip, so small ones are slow (PyTorch's DistributedDataParallel uses 25 MB).
inline constexpr size_t kBucketBytes = 4 << 20;

// Cuts all of layout.size + `extras` into buckets, without gaps. The first
// bucket ends at the end of the array. The last block's bucket also has the
// gradients of the final norm and the extras.
std::vector<Bucket> CutBuckets(const GptLayout& layout, size_t extras,
                               size_t bucket_bytes = kBucketBytes);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_MODEL_BUCKETS_H_
