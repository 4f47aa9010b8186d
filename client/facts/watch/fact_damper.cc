#include "client/facts/watch/fact_damper.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace rollcall {

void FactDamper::Budget::Refill(absl::Time now) {
  while (left < most && now >= since + between) {
    ++left;
    since += between;
  }
}

void FactDamper::Budget::Spend(absl::Time now) {
  if (left-- == most) since = now;
}

void FactDamper::Take(const v1::FactChange& change, absl::Time now) {
  for (auto at = facts_.begin(); at != facts_.end();) {
    Fact& fact = at->second;
    fact.budget.Refill(now);
    const bool over = fact.budget.left == kBurst && !fact.waiting;
    at = over ? facts_.erase(at) : std::next(at);
  }
  const std::pair<int, std::string> key(change.kind(), change.subject());
  if (facts_.size() >= kFactsMax && !facts_.contains(key)) return;
  Fact& fact = facts_[key];
  if (!fact.waiting) {
    fact.waiting = change;
    fact.number = ++numbers_;
    return;
  }
  fact.waiting->set_after(change.after());
  fact.waiting->set_count(fact.waiting->count() + change.count());
}

std::vector<v1::FactChange> FactDamper::Due(absl::Time now) {
  node_.Refill(now);
  std::vector<Fact*> able;
  for (auto& [key, fact] : facts_) {
    fact.budget.Refill(now);
    if (fact.waiting && fact.budget.left > 0) able.push_back(&fact);
  }
  std::sort(able.begin(), able.end(),
            [](const Fact* a, const Fact* b) { return a->number < b->number; });
  std::vector<v1::FactChange> due;
  for (Fact* const fact : able) {
    if (node_.left == 0) break;
    fact->budget.Spend(now);
    node_.Spend(now);
    due.push_back(*std::exchange(fact->waiting, std::nullopt));
  }
  return due;
}

absl::Time FactDamper::NextDue() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [key, fact] : facts_) {
    if (fact.waiting) next = std::min(next, fact.budget.Next());
  }
  return std::max(next, node_.Next());
}

}  // namespace rollcall
