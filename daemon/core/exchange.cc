#include "daemon/core/exchange.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"

namespace rollcall {
namespace {

size_t BytesOf(const v1::ExchangeOut& out) {
  size_t bytes = out.key().size();
  for (const std::string& value : out.values()) bytes += value.size();
  return bytes;
}

bool SameValues(const v1::ExchangeOut& out, uint32_t first,
                const v1::ExchangeIn& in) {
  for (int i = 0; i < in.values_size(); ++i) {
    if (out.values(static_cast<int>(first) + i) != in.values(i)) return false;
  }
  return true;
}

absl::Status OtherValue(const std::string& key) {
  return absl::InvalidArgumentError(
      absl::StrCat("exchange key '", key,
                   "' was given another value before; use a fresh key"));
}

}  // namespace

void Exchanges::Begin(uint64_t generation, std::vector<uint32_t> ranks) {
  generation_ = generation;
  ranks_ = std::move(ranks);
  first_rank_.clear();
  world_size_ = 0;
  for (const uint32_t count : ranks_) {
    first_rank_.push_back(world_size_);
    world_size_ += count;
  }
  open_.clear();
  open_by_node_.assign(ranks_.size(), 0);
  kept_.clear();
  kept_by_key_.clear();
  bytes_ = 0;
}

absl::StatusOr<Exchanges::Result> Exchanges::In(uint32_t node_rank,
                                                const v1::ExchangeIn& in) {
  if (in.generation() != generation_) {
    return absl::AbortedError(absl::StrCat("exchange of generation ",
                                           in.generation(), "; now it is ",
                                           generation_));
  }
  CHECK_LT(node_rank, ranks_.size());
  if (static_cast<uint32_t>(in.values_size()) != ranks_[node_rank]) {
    return absl::InvalidArgumentError(absl::StrCat(
        "exchange key '", in.key(), "': expected ", ranks_[node_rank],
        " values, one for each rank of the node; got ", in.values_size()));
  }
  const uint32_t first = first_rank_[node_rank];
  if (const auto kept = kept_by_key_.find(in.key());
      kept != kept_by_key_.end()) {
    if (!SameValues(*kept->second, first, in)) return OtherValue(in.key());
    return Result{.out = &*kept->second};
  }
  const auto known = open_.find(in.key());
  if (known != open_.end()) {
    const auto given = known->second.by_node.find(node_rank);
    if (given != known->second.by_node.end()) {
      const bool same = std::equal(given->second.begin(), given->second.end(),
                                   in.values().begin(), in.values().end());
      if (!same) return OtherValue(in.key());
      return Result{};
    }
  }
  const bool opens = known == open_.end();
  if (absl::Status room = TakeRoom(node_rank, in, opens); !room.ok()) {
    return room;
  }
  const auto at =
      opens ? open_.emplace(in.key(), Open{node_rank, {}}).first : known;
  at->second.by_node.emplace(node_rank,
                             Values(in.values().begin(), in.values().end()));
  if (at->second.by_node.size() < ranks_.size()) return Result{};
  Open complete = std::move(at->second);
  open_.erase(at);
  --open_by_node_[complete.opened_by];
  Keep(in.key(), Complete(in.key(), std::move(complete)));
  return Result{.complete = true, .out = &kept_.back()};
}

// Counts the node's values against the limits. Returns an error if they do not
// fit.
absl::Status Exchanges::TakeRoom(uint32_t node_rank, const v1::ExchangeIn& in,
                                 bool opens) {
  if (opens &&
      open_by_node_[node_rank] >= Limits::exchanges_open_per_node_max) {
    return absl::ResourceExhaustedError(
        absl::StrCat("exchange key '", in.key(), "': this node has opened ",
                     Limits::exchanges_open_per_node_max,
                     " keys that other nodes have not completed, the most that "
                     "one node may open; complete those first"));
  }
  size_t bytes = opens ? in.key().size() : 0;
  for (const std::string& value : in.values()) bytes += value.size();
  if (bytes_ + bytes > Limits::world_bytes_max) {
    return absl::ResourceExhaustedError(
        absl::StrCat("exchange values of one generation over ",
                     Limits::world_bytes_max, " bytes"));
  }
  bytes_ += bytes;
  open_by_node_[node_rank] += opens ? 1 : 0;
  return absl::OkStatus();
}

v1::ExchangeOut Exchanges::Complete(const std::string& key, Open open) {
  v1::ExchangeOut out;
  out.set_generation(generation_);
  out.set_key(key);
  out.mutable_values()->Reserve(static_cast<int>(world_size_));
  for (auto& [node_rank, values] : open.by_node) {
    for (std::string& value : values) out.add_values(std::move(value));
  }
  return out;
}

void Exchanges::Keep(const std::string& key, v1::ExchangeOut out) {
  kept_.push_back(std::move(out));
  kept_by_key_[key] = std::prev(kept_.end());
  // The latest answer always stays. Older ones are dropped by count and by
  // size.
  while (kept_.size() > 1 && (kept_.size() > Limits::exchanges_kept ||
                              bytes_ > Limits::world_bytes_max / 2)) {
    bytes_ -= BytesOf(kept_.front());
    kept_by_key_.erase(kept_.front().key());
    kept_.pop_front();
  }
}

}  // namespace rollcall
