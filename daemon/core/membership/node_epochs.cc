#include "daemon/core/membership/node_epochs.h"

#include <algorithm>
#include <utility>

#include "daemon/core/admission/admission.h"
#include "daemon/core/admission/grammar.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

// Bytes of an entry besides its texts: numbers and the map's own data.
constexpr size_t kEntryBytes = 16;
// Far above what evictions can reach; a journal with a higher epoch is damaged.
constexpr uint64_t kEpochMax = uint64_t{1} << 62;

}  // namespace

void NodeEpochs::Put(const std::string& node, Entry entry) {
  const auto [at, fresh] = entries_.try_emplace(node);
  if (fresh) {
    bytes_ += kEntryBytes + node.size();
  } else {
    bytes_ -= at->second.token_id.size();
  }
  bytes_ += entry.token_id.size();
  highest_ = std::max(highest_, entry.epoch);
  at->second = std::move(entry);
  changed_.insert(node);
}

void NodeEpochs::Apply(const v1::NodeEpochs& journaled) {
  if (journaled.whole()) {
    entries_.clear();
    bytes_ = 0;
  }
  if (journaled.floor() <= kEpochMax) {
    floor_ = std::max(floor_, journaled.floor());
    highest_ = std::max(highest_, floor_);
  }
  for (const v1::NodeEpoch& row : journaled.nodes()) {
    if (!AdmitNodeName(row.node()).ok() || row.epoch() > kEpochMax ||
        !AdmitPlainText("token_id", row.token_id(), 64).ok()) {
      continue;
    }
    Put(row.node(), {row.epoch(), row.token_id()});
  }
  if (journaled.whole()) bytes_kept_ = bytes_;
  changed_.clear();
}

uint64_t NodeEpochs::EpochOf(const std::string& node) const {
  const auto at = entries_.find(node);
  return at == entries_.end() ? floor_ : at->second.epoch;
}

bool NodeEpochs::WasRaisedPast(const std::string& node, uint64_t epoch) const {
  const auto at = entries_.find(node);
  return at != entries_.end() && epoch < at->second.epoch;
}

std::string NodeEpochs::TokenOf(const std::string& node) const {
  const auto at = entries_.find(node);
  return at == entries_.end() ? "" : at->second.token_id;
}

std::vector<std::string> NodeEpochs::AdmittedBy(
    const std::string& token_id) const {
  std::vector<std::string> nodes;
  if (token_id.empty()) return nodes;
  for (const auto& [node, entry] : entries_) {
    if (entry.token_id == token_id) nodes.push_back(node);
  }
  return nodes;
}

void NodeEpochs::Admit(const std::string& node, const std::string& token_id) {
  const auto at = entries_.find(node);
  if (at == entries_.end()) return Put(node, {floor_, token_id});
  if (token_id.empty() || token_id == at->second.token_id) return;
  Put(node, {at->second.epoch, token_id});
}

void NodeEpochs::Raise(const std::string& node) {
  Put(node, {EpochOf(node) + 1, TokenOf(node)});
}

void NodeEpochs::Set(const std::string& node, uint64_t epoch,
                     const std::string& token_id) {
  Put(node, {epoch, token_id});
}

void NodeEpochs::RaiseFloor(uint64_t floor) {
  if (floor <= floor_) return;
  floor_ = floor;
  highest_ = std::max(highest_, floor_);
  floor_changed_ = true;
}

void NodeEpochs::MaybePrune(
    const std::function<bool(const std::string&)>& keep) {
  // Prunes again only when at least as many bytes were added as the last
  // pruning left, so that the work per entry is bounded.
  if (bytes_ <= std::max(Limits::node_epochs_bytes, 2 * bytes_kept_)) return;
  uint64_t floor = floor_;
  for (auto at = entries_.begin(); at != entries_.end();) {
    if (keep(at->first)) {
      ++at;
      continue;
    }
    floor = std::max(floor, at->second.epoch + 1);
    bytes_ -= kEntryBytes + at->first.size() + at->second.token_id.size();
    changed_.erase(at->first);
    at = entries_.erase(at);
    pruned_ = true;
  }
  RaiseFloor(floor);
  bytes_kept_ = bytes_;
}

std::optional<v1::NodeEpochs> NodeEpochs::TakeChanges() {
  if (changed_.empty() && !floor_changed_ && !pruned_) return std::nullopt;
  v1::NodeEpochs changes;
  if (pruned_) {
    changes = Whole();
  } else {
    changes.set_floor(floor_);
    for (const std::string& node : changed_) {
      const Entry& entry = entries_.at(node);
      v1::NodeEpoch& row = *changes.add_nodes();
      row.set_node(node);
      row.set_epoch(entry.epoch);
      row.set_token_id(entry.token_id);
    }
  }
  changed_.clear();
  floor_changed_ = pruned_ = false;
  return changes;
}

v1::NodeEpochs NodeEpochs::Whole() const {
  v1::NodeEpochs whole;
  whole.set_floor(floor_);
  whole.set_whole(true);
  for (const auto& [node, entry] : entries_) {
    v1::NodeEpoch& row = *whole.add_nodes();
    row.set_node(node);
    row.set_epoch(entry.epoch);
    row.set_token_id(entry.token_id);
  }
  return whole;
}

}  // namespace rollcall
