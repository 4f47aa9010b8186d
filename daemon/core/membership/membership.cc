#include "daemon/core/membership/membership.h"

#include <algorithm>

#include "daemon/base/check.h"

namespace rollcall {

Node* Membership::Find(const std::string& name) {
  const auto at = nodes_.find(name);
  return at == nodes_.end() ? nullptr : &at->second;
}

const Node* Membership::Find(const std::string& name) const {
  const auto at = nodes_.find(name);
  return at == nodes_.end() ? nullptr : &at->second;
}

bool Membership::Has(const std::string& name) const {
  const Node* const node = Find(name);
  return node != nullptr && !node->gone;
}

std::vector<std::string> Membership::Remove(Node& node) {
  const std::string name = node.name();
  if (node.session != 0) Disconnect(node);
  SetDeadline(node, absl::InfiniteFuture());
  suspects_.erase(name);
  node.gone = true;
  // From now on only the node's name and final state are shown.
  node.hello.clear_facts();
  node.seat = -1;
  node.node_rank = -1;
  gone_.push_back(name);
  std::vector<std::string> removed;
  while (gone_.size() > Limits::lost_names_max) {
    const auto oldest = nodes_.find(gone_.front());
    if (oldest != nodes_.end() && oldest->second.gone) {
      removed.push_back(oldest->first);
      nodes_.erase(oldest);
    }
    gone_.pop_front();
  }
  return removed;
}

Node* Membership::OfStream(SessionId session) {
  const auto at = streams_.find(session);
  return at == streams_.end() ? nullptr : &nodes_.at(at->second);
}

void Membership::Connect(Node& node, SessionId session) {
  node.session = session;
  streams_[session] = node.name();
  suspects_.erase(node.name());
}

void Membership::Disconnect(Node& node) {
  streams_.erase(node.session);
  excluded_.erase(node.name());
  setting_up_.erase(node.name());
  node.exclusion.late = false;
  node.session = 0;
}

bool Membership::HasSeatedSuspect() const {
  return std::any_of(
      suspects_.begin(), suspects_.end(),
      [&](const std::string& name) { return nodes_.at(name).seat >= 0; });
}

std::vector<SessionId> Membership::Streams() const {
  std::vector<SessionId> sessions;
  for (const auto& [session, name] : streams_) sessions.push_back(session);
  return sessions;
}

std::vector<SessionId> Membership::StreamsOf(const v1::World& world) const {
  std::vector<SessionId> sessions;
  for (const Node* node : MembersOf(world)) {
    if (node->session != 0) sessions.push_back(node->session);
  }
  return sessions;
}

bool Membership::AllMembersAreAway() const {
  return std::none_of(nodes_.begin(), nodes_.end(), [](const auto& entry) {
    return entry.second.member() && entry.second.session != 0;
  });
}

void Membership::Exclude(const Node& node) {
  if (node.session != 0) excluded_.insert(node.name());
}

size_t Membership::present() const {
  size_t present = streams_.size() - excluded_.size() - setting_up_.size();
  if (setting_up_.empty()) return present;
  for (const std::string& name : excluded_) {
    present += setting_up_.contains(name);
  }
  return present;
}

void Membership::SetDeadline(Node& node, absl::Time deadline) {
  if (node.lease.deadline != absl::InfiniteFuture()) {
    deadlines_.erase({node.lease.deadline, node.name()});
  }
  node.lease.deadline = deadline;
  if (deadline != absl::InfiniteFuture()) {
    deadlines_.emplace(deadline, node.name());
  }
}

Node* Membership::Overdue(absl::Time now) {
  if (NextDeadline() > now) return nullptr;
  return &nodes_.at(deadlines_.begin()->second);
}

absl::Time Membership::NextDeadline() const {
  return deadlines_.empty() ? absl::InfiniteFuture()
                            : deadlines_.begin()->first;
}

void Membership::PutOff(absl::Duration late) {
  std::vector<Node*> waiting;
  for (const auto& [deadline, name] : deadlines_) {
    waiting.push_back(&nodes_.at(name));
  }
  for (Node* node : waiting) {
    SetDeadline(*node, node->lease.deadline + late);
    node->lease.until += late;
  }
}

void Membership::EndDeadlines() {
  deadlines_.clear();
  for (auto& [name, node] : nodes_)
    node.lease.deadline = absl::InfiniteFuture();
}

std::vector<Node*> Membership::MembersOf(const v1::World& world) {
  std::vector<Node*> members;
  for (const v1::Member& row : world.members()) {
    Node* const node = Find(row.node());
    if (node != nullptr && node->member()) members.push_back(node);
  }
  return members;
}

std::vector<const Node*> Membership::MembersOf(const v1::World& world) const {
  std::vector<const Node*> members;
  for (const v1::Member& row : world.members()) {
    const Node* const node = Find(row.node());
    if (node != nullptr && node->member()) members.push_back(node);
  }
  return members;
}

std::vector<std::string> Membership::Missing(
    const v1::JobSettings& settings) const {
  const size_t missing =
      settings.nodes_max() - std::min<size_t>(settings.nodes_max(), present());
  std::vector<std::string> names;
  std::set<std::string> named;
  const auto name_one = [&](const std::string& name) {
    const Node* const node = Find(name);
    const bool absent = node == nullptr || node->session == 0;
    if (!absent || names.size() >= missing || !named.insert(name).second) {
      return;
    }
    names.push_back(name);
  };
  for (const std::string& name : settings.expected_nodes()) name_one(name);
  for (const auto& [name, node] : nodes_) {
    if (node.state == v1::NODE_STATE_LOST ||
        node.state == v1::NODE_STATE_SUSPECT) {
      name_one(name);
    }
  }
  return names;
}

void Membership::CheckInvariants(bool all, uint32_t seats) const {
  CHECK_LE(excluded_.size(), streams_.size());
  CHECK_LE(setting_up_.size(), streams_.size());
  CHECK_LE(nodes_.size(), kKnownMax);
  CHECK_LE(deadlines_.size(), nodes_.size());
  if (!all) return;
  for (const std::string& name : setting_up_) {
    CHECK(At(name).session != 0 && !At(name).member());
  }
  std::set<int> held;
  for (const auto& [name, node] : nodes_) {
    CHECK((node.session == 0) || streams_.contains(node.session));
    if (node.seat < 0) continue;
    CHECK(held.insert(node.seat).second);
    CHECK_LT(static_cast<uint32_t>(node.seat), seats);
  }
}

}  // namespace rollcall
