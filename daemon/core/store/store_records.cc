// GenerationStore: the records that homes keep, which node may see which
// change, and the store of a restarted daemon.
#include <algorithm>
#include <iterator>
#include <utility>

#include "daemon/core/limits.h"
#include "daemon/core/store/generation_store.h"

namespace rollcall {
namespace {

// A record with a higher number counts as the oldest. So an agent that sends
// false numbers cannot use up the numbers of later changes.
constexpr uint64_t kSequenceMax = uint64_t{1} << 62;

}  // namespace

// --- Values, and what they are charged ---------------------------------------

size_t GenerationStore::SizeOf(const std::string& key, const std::string* value,
                               size_t done) {
  return key.size() + (value == nullptr ? 0 : value->size()) +
         Limits::store_key_overhead_bytes +
         done * (Limits::store_done_overhead_bytes + key.size());
}

GenerationStore::Value GenerationStore::MakeValue(std::string value) {
  *living_bytes_ += value.size();
  return Value(new std::string(std::move(value)),
               [living = living_bytes_](const std::string* dead) {
                 *living -= dead->size();
                 delete dead;
               });
}

void GenerationStore::SetValue(Key& key, Value value) {
  if (key.value != nullptr) {
    --existing_;
    value_bytes_ -= key.value->size();
  }
  if (value != nullptr) {
    ++existing_;
    value_bytes_ += value->size();
  }
  key.value = std::move(value);
}

void GenerationStore::ChargeConfirmed(Keys::iterator at) {
  Key& key = at->second;
  Charge(key, SizeOf(at->first, key.value.get(), key.done.size()));
}

void GenerationStore::Charge(Key& key, size_t bytes) {
  nodes_[key.home].bytes += bytes - key.bytes;
  bytes_ += bytes - key.bytes;
  key.bytes = bytes;
}

// --- Which node may see which change
// ------------------------------------------

bool GenerationStore::MaySee(const Key& key, uint32_t node,
                             uint64_t sequence) const {
  // The home gets the record before the answer, so it need not confirm first.
  return sequence <= key.confirmed ||
         (node == key.home && sequence <= key.sent);
}

void GenerationStore::Answer(uint32_t node, Keys::iterator at,
                             StoreAnswer answer) {
  if (at == keys_.end() || MaySee(at->second, node, at->second.sequence)) {
    return SendAnswer(node, std::move(answer));
  }
  nodes_[node].held_at.insert(at->first);
  at->second.held.push_back({at->second.sequence, node, std::move(answer)});
}

void GenerationStore::SendAnswer(uint32_t node, StoreAnswer answer) {
  nodes_[node].link.Answer(std::move(answer));
  to_send_.insert(node);
}

void GenerationStore::Release(Keys::iterator at) {
  Key& key = at->second;
  std::vector<Held> held = std::exchange(key.held, {});
  for (Held& one : held) {
    if (!MaySee(key, one.node, one.sequence)) {
      key.held.push_back(std::move(one));
      continue;
    }
    std::multiset<std::string>& held_at = nodes_[one.node].held_at;
    held_at.erase(held_at.find(at->first));
    SendAnswer(one.node, std::move(one.answer));
  }
}

void GenerationStore::SetUnconfirmed(Key& key, uint64_t from) {
  if (key.unconfirmed_from != 0)
    unconfirmed_.erase(unconfirmed_.find(key.unconfirmed_from));
  if (from != 0) unconfirmed_.insert(from);
  key.unconfirmed_from = from;
}

void GenerationStore::ReleaseCounts() {
  while (!counts_.empty() &&
         (unconfirmed_.empty() ||
          *unconfirmed_.begin() > counts_.front().sequence)) {
    const Count& count = counts_.front();
    --nodes_[count.node].counts;
    SendAnswer(count.node, AnswerOf(count.operation, count.number));
    counts_.pop_front();
  }
}

// Sends the record to the key's home. If an earlier record is still on its way,
// Confirm sends this one later.
void GenerationStore::SendRecord(Keys::iterator at) {
  Key& key = at->second;
  if (key.sent != 0) return;
  key.sent = key.sequence;
  v1::StoreRecord record;
  record.set_key(at->first);
  record.set_sequence(key.sequence);
  if (key.value != nullptr) record.set_value(*key.value);
  for (const auto& [node, done] : key.done) {
    v1::StoreDone& said = *record.add_done();
    said.set_node_rank(node);
    said.set_operation(done.operation);
    said.set_number(done.number);
  }
  nodes_[key.home].link.Add(std::move(record));
  to_send_.insert(key.home);
  Release(at);
}

void GenerationStore::Confirm(uint32_t node,
                              const StoreLink::Confirmed& confirmed) {
  const auto at = keys_.find(confirmed.key);
  // The key may have been removed meanwhile, and made again by another node.
  if (at == keys_.end() || at->second.home != node ||
      at->second.sent != confirmed.sequence) {
    return;
  }
  Key& key = at->second;
  key.confirmed = std::exchange(key.sent, 0);
  const bool all = key.confirmed == key.sequence;
  SetUnconfirmed(key, all ? 0 : key.confirmed + 1);
  if (all) ChargeConfirmed(at);
  Release(at);
  ReleaseCounts();
  if (!all) return SendRecord(at);
  MaybeDrop(at);
}

// The node has the answers to all its operations with lower numbers than
// `below`.
void GenerationStore::Prune(uint32_t node, uint64_t below) {
  std::map<uint64_t, std::string>& done = nodes_[node].done;
  while (!done.empty() && done.begin()->first < below) {
    const auto at = keys_.find(done.begin()->second);
    done.erase(done.begin());
    if (at == keys_.end()) continue;
    Key& key = at->second;
    key.done.erase(node);
    if (key.unconfirmed_from == 0) ChargeConfirmed(at);
    MaybeDrop(at);
  }
}

// Forgets a removed key once no node can repeat its change.
void GenerationStore::MaybeDrop(Keys::iterator at) {
  const Key& key = at->second;
  if (key.value != nullptr || !key.done.empty() ||
      key.confirmed < key.sequence) {
    return;
  }
  DropRecord(key.home, at->first, key.sequence);
  Unload(at);
}

void GenerationStore::DropRecord(uint32_t node, const std::string& key,
                                 uint64_t sequence) {
  v1::StoreRecord record;
  record.set_key(key);
  record.set_sequence(sequence);
  record.set_dropped(true);
  nodes_[node].link.Add(std::move(record));
  to_send_.insert(node);
}

void GenerationStore::Unload(Keys::iterator at) {
  Key& key = at->second;
  Charge(key, 0);
  SetValue(key, nullptr);
  SetUnconfirmed(key, 0);
  for (const auto& [node, done] : key.done) {
    nodes_[node].done.erase(done.operation);
  }
  keys_.erase(at);
}

// --- After a restart of the daemon -------------------------------------------

void GenerationStore::Load(uint32_t node, const v1::StoreRecord& record) {
  const uint64_t sequence =
      record.sequence() <= kSequenceMax ? record.sequence() : 0;
  last_sequence_ = std::max(last_sequence_, sequence);
  if (const auto at = keys_.find(record.key()); at != keys_.end()) {
    const Key& known = at->second;
    const bool newer = known.sequence < sequence;
    // A former home that missed the drop of a record still has an old record.
    if (known.home != node) {
      DropRecord(newer ? known.home : node, record.key(),
                 std::min(known.sequence, sequence));
    }
    if (!newer) return;
    Unload(at);
  }
  Value value;
  if (record.has_value()) value = MakeValue(record.value());
  const size_t bytes = SizeOf(record.key(), value.get(),
                              static_cast<size_t>(record.done_size()));
  // In addition to its share, an agent may have old records whose drop it has
  // missed. No correct agent has more.
  if (nodes_[node].bytes + bytes > 2 * Limits::store_node_bytes_max ||
      bytes_ + bytes > 2 * Limits::store_bytes_max) {
    return;
  }
  const auto at = keys_.try_emplace(record.key()).first;
  Key& key = at->second;
  key.home = node;
  SetValue(key, std::move(value));
  key.sequence = key.confirmed = sequence;
  for (const v1::StoreDone& done : record.done()) {
    if (done.node_rank() >= nodes_.size() ||
        key.done.contains(done.node_rank()) ||
        !nodes_[done.node_rank()]
             .done.try_emplace(done.operation(), record.key())
             .second) {
      continue;  // No daemon has sent such a record.
    }
    key.done[done.node_rank()] = {done.operation(), done.number()};
  }
  ChargeConfirmed(at);
}

void GenerationStore::OpenIfAllHaveReported() {
  if (reported_.size() < nodes_.size()) return;
  open_ = true;
  reported_.clear();
  for (auto at = keys_.begin(); at != keys_.end();) {
    const auto next = std::next(at);
    if (at->second.sequence == 0) {
      at->second.sequence = ++last_sequence_;
      SetUnconfirmed(at->second, last_sequence_);
      SendRecord(at);
    }
    MaybeDrop(at);
    at = next;
  }
  for (uint32_t node = 0; node < nodes_.size(); ++node) {
    if (nodes_[node].gone) continue;
    nodes_[node].link.Open();
    to_send_.insert(node);
  }
}

}  // namespace rollcall
