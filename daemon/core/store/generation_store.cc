#include "daemon/core/store/generation_store.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/base/text/printable.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

std::string Named(const std::string& key) {
  constexpr size_t kShown = 128;
  return absl::StrCat("store key ", Quoted(Printable(key, kShown)));
}

// nullopt: the value is not a number, or the sum does not fit into 64 bits.
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

// On its new stream, the node sends all operations again that have no answer
// yet.
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
  to_send_.insert(node);  // The node's link may have room for more now.
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
    // If an argument does not fit the key's value, the error shows that value.
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
  // Other nodes get their answers in turn, as far as there is room.
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
  if (at == waits.end()) return;  // The wait has been answered.
  const auto waiting = waiting_.find(at->second.key);
  waiting->second.erase({node, operation});
  if (waiting->second.empty()) waiting_.erase(waiting);
  waits.erase(at);
  StoreAnswer answer = AnswerOf(operation, 0);
  answer.result.set_code(static_cast<uint32_t>(absl::StatusCode::kCancelled));
  SendAnswer(node, std::move(answer));
}

// Answers the operations that wait for this key: it exists now.
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
    // The request is a repetition; its change is already applied.
    const auto done = at->second.done.find(node);
    if (done != at->second.done.end() &&
        done->second.operation == asked.operation()) {
      Answer(node, at, AnswerOf(asked.operation(), done->second.number));
      return absl::OkStatus();
    }
  }
  // Values that were replaced still take memory in answers that are not sent
  // yet.
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
  // Until the home confirms the change, it may still have the former value, so
  // the larger size is charged.
  const size_t after = std::max(before, SizeOf(name, value.get(), done_count));
  // Removing a key needs no room.
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

}  // namespace rollcall
