#include "daemon/core/store/generation_store.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/base/printable.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

// Bytes charged for a key.
size_t SizeOf(const std::string& key, const std::string* value, size_t done) {
  return key.size() + (value == nullptr ? 0 : value->size()) +
         Limits::store_key_overhead_bytes +
         done * (Limits::store_done_overhead_bytes + key.size());
}

std::string Named(const std::string& key) {
  constexpr size_t kShown = 128;
  return absl::StrCat("store key ", Quoted(Printable(key, kShown)));
}

// Records with a higher number count as the oldest, so that an agent that makes
// numbers up leaves room for those of all changes to come.
constexpr uint64_t kSequenceMax = uint64_t{1} << 62;

StoreAnswer AnswerOf(uint64_t operation, int64_t number,
                     std::shared_ptr<const std::string> value = nullptr) {
  StoreAnswer answer;
  answer.operation = operation;
  answer.result.set_number(number);
  answer.value = std::move(value);
  return answer;
}

// nullopt: no number, or beyond 64 bits.
std::optional<int64_t> Sum(const std::string* value, int64_t delta) {
  int64_t before = 0;
  if (value != nullptr && !absl::SimpleAtoi(*value, &before)) {
    return std::nullopt;
  }
  int64_t sum = 0;
  if (__builtin_add_overflow(before, delta, &sum)) return std::nullopt;
  return sum;
}

}  // namespace

void GenerationStore::Begin(uint64_t generation, uint32_t nodes) {
  *this = GenerationStore();
  generation_ = generation;
  nodes_.resize(nodes);
  open_ = true;
}

void GenerationStore::Restore(uint64_t generation, uint32_t nodes) {
  Begin(generation, nodes);
  open_ = false;
}

void GenerationStore::End() { *this = GenerationStore(); }

void GenerationStore::Attended(uint32_t node) {
  CHECK_LT(node, nodes_.size());
  Node& one = nodes_[node];
  ForgetAsked(node);
  const std::vector<std::string> unsure = one.link.Reset(unread_bytes_);
  to_send_.insert(node);
  if (open_) {
    one.link.Open();
  } else if (!reported_.contains(node)) {
    one.link.AskReport();
  }
  for (const std::string& key : unsure) {
    const auto at = keys_.find(key);
    if (at == keys_.end() || at->second.home != node) {
      DropRecord(node, key, last_sequence_);
    } else if (at->second.sent != 0) {
      at->second.sent = 0;
      SendRecord(at);
    }
  }
}

void GenerationStore::Gone(uint32_t node) {
  CHECK_LT(node, nodes_.size());
  ForgetAsked(node);
  nodes_[node].link.Reset(unread_bytes_);
  nodes_[node].gone = true;
  const auto living = std::find_if(nodes_.begin(), nodes_.end(),
                                   [](const Node& one) { return !one.gone; });
  if (living == nodes_.end()) return End();
  const auto home = static_cast<uint32_t>(living - nodes_.begin());
  for (auto at = keys_.begin(); at != keys_.end(); ++at) {
    Key& key = at->second;
    if (key.home != node) continue;
    const size_t bytes = key.bytes;
    Charge(key, 0);
    key.home = home;
    Charge(key, bytes);
    key.sent = key.confirmed = 0;
    if (key.unconfirmed_from == 0) SetUnconfirmed(key, key.sequence);
    SendRecord(at);
  }
  if (open_) return;
  reported_.insert(node);
  OpenIfAllHaveReported();
}

// On its new stream the node sends all operations again that have no answer.
void GenerationStore::ForgetAsked(uint32_t node) {
  Node& one = nodes_[node];
  for (const auto& [operation, wait] : one.waits) {
    const auto at = waiting_.find(wait.key);
    at->second.erase({node, operation});
    if (at->second.empty()) waiting_.erase(at);
  }
  one.waits.clear();
  for (const std::string& key : one.held_at) {
    std::erase_if(keys_.find(key)->second.held,
                  [node](const Held& held) { return held.node == node; });
  }
  one.held_at.clear();
  std::erase_if(counts_,
                [node](const Count& count) { return count.node == node; });
  one.counts = 0;
}

absl::Status GenerationStore::Hear(uint32_t node, const v1::StoreIn& in) {
  if (in.generation() != generation_) return absl::OkStatus();
  CHECK_LT(node, nodes_.size());
  if (!open_) {
    for (const v1::StoreRecord& record : in.records()) Load(node, record);
    if (in.records_end()) reported_.insert(node);
    OpenIfAllHaveReported();
    return absl::OkStatus();
  }
  Node& one = nodes_[node];
  for (const StoreLink::Confirmed& confirmed :
       one.link.Received(in.received(), unread_bytes_)) {
    Confirm(node, confirmed);
  }
  to_send_.insert(node);  // There may be room in its window.
  if (in.link() != one.link.number()) return absl::OkStatus();
  for (const uint64_t operation : in.cancelled()) Cancel(node, operation);
  Prune(node, in.answered_below());
  constexpr size_t kUnderWayMax =
      Limits::store_asked_per_node_max + Limits::store_waits_per_node_max;
  for (const v1::StoreAsked& asked : in.asked()) {
    if (one.held_at.size() + one.counts + one.link.answers() +
            one.waits.size() >=
        kUnderWayMax) {
      return absl::ResourceExhaustedError(
          absl::StrCat("store: over ", kUnderWayMax,
                       " operations of one node are under way"));
    }
    const absl::Status done = Do(node, asked);
    if (done.ok()) continue;
    StoreAnswer answer = AnswerOf(asked.operation(), 0);
    answer.result.set_code(static_cast<uint32_t>(done.code()));
    answer.result.set_error(std::string(done.message()));
    // An argument that does not fit shows what the key's value is.
    const auto at = absl::IsInvalidArgument(done)
                        ? keys_.find(asked.what().key())
                        : keys_.end();
    Answer(node, at, std::move(answer));
  }
  return absl::OkStatus();
}

std::vector<GenerationStore::Message> GenerationStore::Take() {
  std::vector<Message> messages;
  for (const uint32_t node : std::exchange(to_send_, {})) {
    TakeOf(node, messages);
    if (nodes_[node].link.IsHeldByOthers(unread_bytes_) &&
        !std::exchange(nodes_[node].waits_for_others, true)) {
      held_by_others_.push_back(node);
    }
  }
  // In turn, as far as there is room.
  while (!held_by_others_.empty()) {
    const uint32_t node = held_by_others_.front();
    TakeOf(node, messages);
    if (nodes_[node].link.IsHeldByOthers(unread_bytes_)) break;
    held_by_others_.pop_front();
    nodes_[node].waits_for_others = false;
  }
  return messages;
}

void GenerationStore::TakeOf(uint32_t node, std::vector<Message>& messages) {
  if (nodes_[node].gone) return;
  while (std::optional<v1::StoreOut> out =
             nodes_[node].link.Next(unread_bytes_)) {
    out->set_generation(generation_);
    messages.push_back({node, *std::move(out)});
  }
}

// --- Operations --------------------------------------------------------------

absl::Status GenerationStore::Do(uint32_t node, const v1::StoreAsked& asked) {
  switch (asked.what().kind()) {
    case v1::STORE_KIND_GET:
    case v1::STORE_KIND_WAIT:
      return Await(node, asked);
    case v1::STORE_KIND_CHECK:
      Read(node, asked);
      return absl::OkStatus();
    case v1::STORE_KIND_NUM_KEYS:
      CountKeys(node, asked.operation());
      return absl::OkStatus();
    default:
      return Change(node, asked);
  }
}

void GenerationStore::Read(uint32_t node, const v1::StoreAsked& asked) {
  const auto at = keys_.find(asked.what().key());
  const bool exists = at != keys_.end() && at->second.value != nullptr;
  Answer(node, at, AnswerOf(asked.operation(), exists));
}

absl::Status GenerationStore::Await(uint32_t node,
                                    const v1::StoreAsked& asked) {
  const std::string& name = asked.what().key();
  const bool wants_value = asked.what().kind() == v1::STORE_KIND_GET;
  const auto at = keys_.find(name);
  if (at != keys_.end() && at->second.value != nullptr) {
    Answer(node, at,
           AnswerOf(asked.operation(), 0,
                    wants_value ? at->second.value : nullptr));
    return absl::OkStatus();
  }
  Node& one = nodes_[node];
  if (one.waits.size() >= Limits::store_waits_per_node_max) {
    return absl::ResourceExhaustedError(absl::StrCat(
        Named(name), ": the ranks of this node already wait for ",
        Limits::store_waits_per_node_max, " keys, the most that they may"));
  }
  if (one.waits.try_emplace(asked.operation(), Wait{name, wants_value})
          .second) {
    waiting_[name].insert({node, asked.operation()});
  }
  return absl::OkStatus();
}

void GenerationStore::Cancel(uint32_t node, uint64_t operation) {
  std::map<uint64_t, Wait>& waits = nodes_[node].waits;
  const auto at = waits.find(operation);
  if (at == waits.end()) return;  // It has been answered.
  const auto waiting = waiting_.find(at->second.key);
  waiting->second.erase({node, operation});
  if (waiting->second.empty()) waiting_.erase(waiting);
  waits.erase(at);
  StoreAnswer answer = AnswerOf(operation, 0);
  answer.result.set_code(static_cast<uint32_t>(absl::StatusCode::kCancelled));
  SendAnswer(node, std::move(answer));
}

// The key exists now.
void GenerationStore::Wake(Keys::iterator at) {
  const auto waiting = waiting_.find(at->first);
  if (waiting == waiting_.end()) return;
  for (const auto& [node, operation] : waiting->second) {
    const auto wait = nodes_[node].waits.find(operation);
    Answer(node, at,
           AnswerOf(operation, 0,
                    wait->second.wants_value ? at->second.value : nullptr));
    nodes_[node].waits.erase(wait);
  }
  waiting_.erase(waiting);
}

void GenerationStore::CountKeys(uint32_t node, uint64_t operation) {
  ++nodes_[node].counts;
  counts_.push_back(
      {node, operation, static_cast<int64_t>(existing_), last_sequence_});
  ReleaseCounts();
}

absl::Status GenerationStore::Change(uint32_t node,
                                     const v1::StoreAsked& asked) {
  const v1::StoreOperation& what = asked.what();
  const auto at = keys_.find(what.key());
  if (at != keys_.end()) {
    // A repeated request: already applied.
    const auto done = at->second.done.find(node);
    if (done != at->second.done.end() &&
        done->second.operation == asked.operation()) {
      Answer(node, at, AnswerOf(asked.operation(), done->second.number));
      return absl::OkStatus();
    }
  }
  // Values that were replaced live on in answers that wait.
  if (*living_bytes_ - value_bytes_ > Limits::store_bytes_max) {
    return absl::UnavailableError(absl::StrCat(
        Named(what.key()), ": answers with over ", Limits::store_bytes_max,
        " bytes of replaced values wait to be read; try again"));
  }
  switch (what.kind()) {
    case v1::STORE_KIND_SET:
      return Put(node, asked, MakeValue(what.value()), 0);
    case v1::STORE_KIND_ADD:
      return Add(node, asked);
    case v1::STORE_KIND_COMPARE_SET:
      return CompareSet(node, asked);
    case v1::STORE_KIND_DELETE:
      if (at != keys_.end() && at->second.value != nullptr) {
        return Put(node, asked, nullptr, 1);
      }
      Answer(node, at, AnswerOf(asked.operation(), 0));
      return absl::OkStatus();
    default:
      return absl::InvalidArgumentError(absl::StrCat(
          "store: operation of kind ", static_cast<int>(what.kind()),
          ", which this daemon does not know; is it of an older version?"));
  }
}

absl::Status GenerationStore::Add(uint32_t node, const v1::StoreAsked& asked) {
  const auto at = keys_.find(asked.what().key());
  const std::string* const before =
      at == keys_.end() ? nullptr : at->second.value.get();
  const std::optional<int64_t> sum = Sum(before, asked.what().delta());
  if (!sum.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        Named(asked.what().key()), ": cannot add ", asked.what().delta(),
        " to ", Quoted(Printable(*before, 32)),
        ": expected a decimal number and a sum of 64 bits"));
  }
  return Put(node, asked, MakeValue(absl::StrCat(*sum)), *sum);
}

absl::Status GenerationStore::CompareSet(uint32_t node,
                                         const v1::StoreAsked& asked) {
  const v1::StoreOperation& what = asked.what();
  const auto at = keys_.find(what.key());
  const Value before = at == keys_.end() ? nullptr : at->second.value;
  const bool same =
      before == nullptr ? what.expected().empty() : *before == what.expected();
  if (same) {
    return Put(node, asked, MakeValue(what.value()), 1);
  }
  Answer(node, at, AnswerOf(asked.operation(), 0, before));
  return absl::OkStatus();
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

absl::Status GenerationStore::Put(uint32_t node, const v1::StoreAsked& asked,
                                  Value value, int64_t number) {
  const std::string& name = asked.what().key();
  const auto known = keys_.find(name);
  size_t before = 0;
  size_t done_count = 1;
  uint32_t home = node;
  if (known != keys_.end()) {
    home = known->second.home;
    before = known->second.bytes;
    done_count =
        known->second.done.size() + (known->second.done.contains(node) ? 0 : 1);
  }
  // Charged for what the home may still have, until it confirms the change.
  const size_t after = std::max(before, SizeOf(name, value.get(), done_count));
  // Removing a key makes room.
  if (value != nullptr) {
    if (absl::Status room = CheckRoom(home, name, before, after); !room.ok()) {
      return room;
    }
  }
  const auto at = keys_.try_emplace(name).first;
  Key& key = at->second;
  key.home = home;
  Charge(key, after);
  const bool existed = key.value != nullptr;
  SetValue(key, std::move(value));
  key.sequence = ++last_sequence_;
  if (key.unconfirmed_from == 0) SetUnconfirmed(key, key.sequence);
  Done& done = key.done[node];
  nodes_[node].done.erase(done.operation);
  done = {asked.operation(), number};
  nodes_[node].done[asked.operation()] = name;
  SendRecord(at);
  Answer(node, at, AnswerOf(asked.operation(), number));
  if (key.value != nullptr && !existed) Wake(at);
  return absl::OkStatus();
}

absl::Status GenerationStore::CheckRoom(uint32_t home, const std::string& key,
                                        size_t before, size_t after) const {
  if (after <= before) return absl::OkStatus();
  if (nodes_[home].bytes - before + after > Limits::store_node_bytes_max) {
    return absl::ResourceExhaustedError(absl::StrCat(
        Named(key),
        ": the keys that one node's ranks have made would take over ",
        Limits::store_node_bytes_max,
        " bytes; delete keys that are no longer needed"));
  }
  if (bytes_ - before + after > Limits::store_bytes_max) {
    return absl::ResourceExhaustedError(absl::StrCat(
        Named(key), ": all keys would take over ", Limits::store_bytes_max,
        " bytes; delete keys that are no longer needed"));
  }
  return absl::OkStatus();
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

// --- Who may see what --------------------------------------------------------

bool GenerationStore::MaySee(const Key& key, uint32_t node,
                             uint64_t sequence) const {
  // The home gets the record before the answer.
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

// Sends the record to its home, unless one is under way; then Confirm does.
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
  // It may have been removed, and made again by another node, meanwhile.
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

// The node has the answers to all its operations below this one.
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

// Forgets a removed key once no node can send its change again.
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
    // A former home that missed the drop still has an old record.
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
  // Beside its share, an agent may have old records whose drop it has missed;
  // no agent has more, unless it makes them up.
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
      continue;  // No daemon has sent this.
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
