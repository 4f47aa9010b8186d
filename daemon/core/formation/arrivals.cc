#include "daemon/core/formation/arrivals.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace rollcall {

void LastCall::Arrived(absl::Time previous, absl::Time now,
                       const Limits& limits) {
  const bool enough = enough_since_ != absl::InfiniteFuture();
  if (enough && previous >= began_) return;
  if (enough && now - enough_since_ > limits.arrivals_wait_max) {
    overdue_ = true;
    return;
  }
  latest_ = now;
}

void LastCall::SetEnough(bool enough, absl::Time now) {
  if (!enough) {
    enough_since_ = absl::InfiniteFuture();
    overdue_ = false;
  } else if (enough_since_ == absl::InfiniteFuture()) {
    enough_since_ = now;
  }
}

void Newcomers::Count::Add(uint64_t lost_in, absl::Time now,
                           const Limits& limits) {
  if (losses > 0 && generation == lost_in) return;
  ++losses;
  generation = lost_in;
  if (losses == 2) delay = limits.newcomer_delay_first;
  if (losses > 2) delay = std::min(2 * delay, limits.newcomer_delay_max);
  until = now + delay;
}

void Newcomers::Lost(const std::string& name, uint64_t generation,
                     absl::Duration lasted, absl::Time now,
                     const Limits& limits) {
  if (lasted >= limits.newcomer_lasts) return;
  std::erase_if(names_, [&](const auto& entry) {
    return entry.second.Forgotten(now, limits);
  });
  if (others_.Forgotten(now, limits)) others_ = Count();
  const auto at = names_.find(name);
  if (at != names_.end()) return at->second.Add(generation, now, limits);
  Count& count =
      names_.size() < Limits::newcomer_names_max ? names_[name] : others_;
  count.Add(generation, now, limits);
}

void Newcomers::Lost(Node& node, uint64_t generation, absl::Time now,
                     const Limits& limits) {
  if (!node.member() && !node.called) return;
  node.called = false;
  const bool joined = node.joined_at != absl::InfiniteFuture();
  Lost(node.name(), generation,
       joined ? now - node.joined_at : absl::ZeroDuration(), now, limits);
}

Newcomers::Hold Newcomers::HoldOf(const std::string& name, absl::Time now,
                                  const Limits& limits) const {
  const auto at = names_.find(name);
  const bool own = at != names_.end() && !at->second.Forgotten(now, limits);
  const Count& count = own ? at->second : others_;
  return {count.until, count.delay, count.losses, own};
}

std::string Newcomers::HoldText(const std::string& name, absl::Time now,
                                const Limits& limits) const {
  const Hold hold = HoldOf(name, now, limits);
  if (hold.until <= now) return "";
  return absl::StrCat(
      hold.own ? "it was lost " : "new nodes of several names were lost ",
      hold.losses, " times soon after joining; ",
      hold.own ? "it" : "a new node", " gets no seat until ",
      absl::FormatDuration(hold.delay), " after the latest loss");
}

}  // namespace rollcall
