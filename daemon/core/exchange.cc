#include "daemon/core/exchange.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/core/check.h"

namespace rollcall {
namespace {

size_t ValueBytes(const v1::ExchangeOut& out) {
  size_t bytes = 0;
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
        " values, one a rank of the node; got ", in.values_size()));
  }
  const uint32_t first = first_rank_[node_rank];
  if (const auto kept = kept_by_key_.find(in.key());
      kept != kept_by_key_.end()) {
    if (!SameValues(*kept->second, first, in)) return OtherValue(in.key());
    return Result{.repeated = true, .out = &*kept->second};
  }
  auto open = open_.find(in.key());
  if (open == open_.end()) {
    if (open_.size() >= Limits::exchanges_open_max) {
      return absl::ResourceExhaustedError(
          absl::StrCat("over ", Limits::exchanges_open_max,
                       " exchange keys are open at once"));
    }
    open = open_.emplace(in.key(), Open{}).first;
    open->second.out.set_generation(generation_);
    open->second.out.set_key(in.key());
    for (uint32_t i = 0; i < world_size_; ++i) open->second.out.add_values();
    open->second.nodes_in.resize(ranks_.size());
    open->second.missing = ranks_.size();
  }
  Open& exchange = open->second;
  if (exchange.nodes_in[node_rank]) {
    if (!SameValues(exchange.out, first, in)) return OtherValue(in.key());
    return Result{};
  }
  size_t bytes = 0;
  for (const std::string& value : in.values()) bytes += value.size();
  if (bytes_ + bytes > Limits::world_bytes_max) {
    return absl::ResourceExhaustedError(
        absl::StrCat("exchange values of one generation over ",
                     Limits::world_bytes_max, " bytes"));
  }
  bytes_ += bytes;
  for (int i = 0; i < in.values_size(); ++i) {
    exchange.out.set_values(static_cast<int>(first) + i, in.values(i));
  }
  exchange.nodes_in[node_rank] = true;
  if (--exchange.missing > 0) return Result{};
  v1::ExchangeOut out = std::move(exchange.out);
  open_.erase(open);
  Keep(in.key(), std::move(out));
  return Result{.complete = true, .out = &kept_.back()};
}

void Exchanges::Keep(const std::string& key, v1::ExchangeOut out) {
  kept_.push_back(std::move(out));
  kept_by_key_[key] = std::prev(kept_.end());
  // The latest always stays; older ones go by count and by size.
  while (kept_.size() > 1 && (kept_.size() > Limits::exchanges_kept ||
                              bytes_ > Limits::world_bytes_max / 2)) {
    bytes_ -= ValueBytes(kept_.front());
    kept_by_key_.erase(kept_.front().key());
    kept_.pop_front();
  }
}

}  // namespace rollcall
