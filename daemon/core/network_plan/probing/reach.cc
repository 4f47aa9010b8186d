#include "daemon/core/network_plan/probing/reach.h"

#include <algorithm>
#include <utility>

namespace rollcall {

void Reach::Came(const std::string& node, absl::Time now) {
  const auto [entry, fresh] = entries_.try_emplace(node);
  if (fresh) entry->second.since = now;
}

void Reach::Unreached(const std::string& node, absl::Time until,
                      std::set<std::string> partners) {
  Forget(node);
  for (const std::string& partner : partners) {
    entries_of_[partner].insert(node);
  }
  entries_[node] = {absl::InfiniteFuture(), until, true, std::move(partners)};
}

void Reach::Gone(const std::string& node, absl::Time now) {
  Forget(node);
  const auto of = entries_of_.extract(node);
  if (of.empty()) return;
  for (const std::string& name : of.mapped()) {
    Entry& entry = entries_.at(name);
    entry.partners.erase(node);
    if (!entry.partners.empty()) continue;
    // All nodes that it could not connect with have gone, so that result does
    // not count.
    entry.again = false;
    if (entry.until != absl::InfiniteFuture()) entry.until = now;
  }
}

void Reach::Forget(const std::string& node) {
  const auto entry = entries_.find(node);
  if (entry == entries_.end()) return;
  for (const std::string& partner : entry->second.partners) {
    const auto of = entries_of_.find(partner);
    of->second.erase(node);
    if (of->second.empty()) entries_of_.erase(of);
  }
  entries_.erase(entry);
}

std::vector<std::string> Reach::Expire(absl::Time now) {
  std::vector<std::string> expired;
  for (auto& [node, entry] : entries_) {
    if (entry.until > now) continue;
    entry.since = entry.until;
    entry.until = absl::InfiniteFuture();
    expired.push_back(node);
  }
  return expired;
}

void Reach::WorldEnded(absl::Time until) {
  std::erase_if(entries_, [](const auto& entry) {
    return !entry.second.again && entry.second.until == absl::InfiniteFuture();
  });
  for (auto& [node, entry] : entries_) {
    if (entry.until == absl::InfiniteFuture()) entry.until = until;
    entry.since = absl::InfiniteFuture();
  }
}

absl::Time Reach::HeldUntil(const std::string& node) const {
  const auto entry = entries_.find(node);
  return entry == entries_.end() ? absl::InfinitePast() : entry->second.until;
}

bool Reach::WasToProbe(const std::string& node, absl::Time at) const {
  const auto entry = entries_.find(node);
  return entry != entries_.end() && entry->second.since <= at;
}

std::vector<std::string> Reach::ToProbe(
    size_t count_max,
    const std::function<bool(const std::string&)>& here) const {
  std::vector<std::pair<absl::Time, std::string>> waiting;
  for (const auto& [node, entry] : entries_) {
    if (entry.since != absl::InfiniteFuture() && here(node)) {
      waiting.emplace_back(entry.since, node);
    }
  }
  std::sort(waiting.begin(), waiting.end());
  std::vector<std::string> nodes;
  for (auto& [since, node] : waiting) {
    if (nodes.size() == count_max) break;
    nodes.push_back(std::move(node));
  }
  return nodes;
}

absl::Time Reach::NextDue() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [node, entry] : entries_) {
    next = std::min(next, entry.until);
  }
  return next;
}

}  // namespace rollcall
