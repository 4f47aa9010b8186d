#include "daemon/core/log_quota.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace rollcall {

bool LogQuota::Take(const std::string& node, const std::string& network,
                    const std::string& address, absl::Time now) {
  // If a node is beyond its own quota, it takes nothing from the quota of its
  // address, which it shares with other nodes.
  const bool node_may =
      node.empty() || TakeOne(PeerOf(absl::StrCat("n", node)), limits_.per_node,
                              limits_.node_interval, now);
  const std::string key = absl::StrCat("a", network);
  Peer& peer = PeerOf(key);
  peer.address = address;
  if (node_may &&
      TakeOne(peer, limits_.per_address, limits_.address_interval, now)) {
    return true;
  }
  Suppress(key, peer, now);
  return false;
}

LogQuota::Peer& LogQuota::PeerOf(const std::string& key) {
  const auto at = peers_.find(key);
  if (at != peers_.end()) {
    by_age_.erase({at->second.last, key});
  } else if (peers_.size() >= limits_.peers_max) {
    const auto oldest = peers_.find(by_age_.begin()->second);
    by_age_.erase(by_age_.begin());
    forgotten_ += oldest->second.suppressed;
    due_.erase({oldest->second.told_at, oldest->first});
    peers_.erase(oldest);
  }
  Peer& peer = peers_[key];
  peer.last = ++latest_;
  by_age_.emplace(latest_, key);
  return peer;
}

bool LogQuota::TakeOne(Peer& peer, int burst, absl::Duration interval,
                       absl::Time now) {
  const absl::Time full_at = std::max(peer.full_at, now) + interval;
  if (full_at > now + burst * interval) return false;
  peer.full_at = full_at;
  return true;
}

void LogQuota::Suppress(const std::string& key, Peer& peer, absl::Time now) {
  if (++peer.suppressed > 1) return;
  peer.told_at = now + limits_.told_interval;
  due_.emplace(peer.told_at, key);
}

std::vector<LogQuota::Suppressed> LogQuota::Due(absl::Time now) {
  std::vector<Suppressed> told;
  while (!due_.empty() && due_.begin()->first <= now) {
    Peer& peer = peers_.at(due_.begin()->second);
    due_.erase(due_.begin());
    told.push_back({peer.address, peer.suppressed});
    peer.suppressed = 0;
  }
  if (!told.empty() && forgotten_ > 0) {
    told.push_back({"", forgotten_});
    forgotten_ = 0;
  }
  return told;
}

absl::Time LogQuota::NextDue() const {
  return due_.empty() ? absl::InfiniteFuture() : due_.begin()->first;
}

}  // namespace rollcall
