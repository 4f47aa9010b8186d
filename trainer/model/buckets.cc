#include "trainer/model/buckets.h"

namespace rollcall {

std::vector<Bucket> CutBuckets(const GptLayout& layout, size_t extras,
                               size_t bucket_bytes) {
  std::vector<Bucket> buckets;
  size_t end = layout.size + extras;
  for (int i = static_cast<int>(layout.blocks.size()) - 1; i >= 0; --i) {
    const size_t begin = layout.blocks[i].norm1_gain;
    if ((end - begin) * sizeof(float) < bucket_bytes) continue;
    buckets.push_back({begin, end, i});
    end = begin;
  }
  buckets.push_back({0, end, Bucket::kTables});
  return buckets;
}

}  // namespace rollcall
