#include "client/agent/core/node_store.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/text/printable.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

constexpr size_t kStoreErrorBytesMax = 4 << 10;

bool IsWait(v1::StoreKind kind) {
  return kind == v1::STORE_KIND_GET || kind == v1::STORE_KIND_WAIT;
}

bool IsChange(v1::StoreKind kind) {
  return !IsWait(kind) && kind != v1::STORE_KIND_CHECK &&
         kind != v1::STORE_KIND_NUM_KEYS;
}

// The bytes that count for an operation that waits.
size_t BytesOf(const v1::StoreOperation& what) {
  return what.key().size() + what.value().size() + what.expected().size() +
         Limits::store_key_overhead_bytes;
}

AnswerStore StoreRefusal(uint64_t ticket, absl::StatusCode code,
                         const std::string& why) {
  v1::StoreResult result;
  result.set_code(static_cast<uint32_t>(code));
  result.set_error(why);
  return {ticket, std::move(result)};
}

v1::StoreOperation OperationOf(
    const std::pair<v1::StoreKind, std::string>& of) {
  v1::StoreOperation what;
  what.set_kind(of.first);
  what.set_key(of.second);
  return what;
}

}  // namespace

NodeStore::Outcome NodeStore::Begin(uint64_t generation) {
  const v1::StoreOut early = std::move(early_);
  *this = NodeStore();
  generation_ = generation;
  // The daemon answers on the stream on which the Commit came. On a later
  // stream it sends a link first, and ignores operations before it.
  open_ = true;
  return early.generation() == generation ? Hear(early) : Outcome();
}

void NodeStore::End() { *this = NodeStore(); }

void NodeStore::StreamEnded() {
  open_ = false;
  received_ = 0;
}

// --- From the ranks ----------------------------------------------------------

NodeStore::Outcome NodeStore::Take(const RankAsksStore& asks) {
  Outcome outcome;
  const v1::StoreOperation& what = asks.operation;
  if (IsWait(what.kind())) {
    TakeWait(asks, outcome);
    return outcome;
  }
  if (bytes_ + BytesOf(what) > Limits::store_queue_bytes_max) {
    outcome.answers.push_back(
        StoreRefusal(asks.ticket, absl::StatusCode::kUnavailable,
                     absl::StrCat("over ", Limits::store_queue_bytes_max,
                                  " bytes of this node's ranks wait to "
                                  "be stored; try again")));
    return outcome;
  }
  bytes_ += BytesOf(what);
  Queued queued{what, asks.ticket};
  if (IsChange(what.kind())) {
    const auto [at, first] = changes_.try_emplace(what.key());
    if (!first) {
      at->second.push_back(std::move(queued));
      return outcome;
    }
  }
  queue_.push_back(std::move(queued));
  AskQueued(outcome);
  return outcome;
}

void NodeStore::TakeWait(const RankAsksStore& asks, Outcome& outcome) {
  const Awaited awaited(asks.operation.kind(), asks.operation.key());
  const auto [at, first] = waits_.try_emplace(awaited);
  if (first && waits_.size() > Limits::store_waits_per_node_max) {
    waits_.erase(at);
    outcome.answers.push_back(
        StoreRefusal(asks.ticket, absl::StatusCode::kResourceExhausted,
                     absl::StrCat("the ranks of this node already wait for ",
                                  Limits::store_waits_per_node_max,
                                  " keys, the most that they may")));
    return;
  }
  waits_by_ticket_.emplace(asks.ticket, awaited);
  Wait& wait = at->second;
  wait.later.push_back(asks.ticket);
  if (first) AskWait(awaited, wait, outcome);
}

void NodeStore::AskWait(const Awaited& awaited, Wait& wait, Outcome& outcome) {
  wait.tickets = std::exchange(wait.later, {});
  wait.operation = ++last_operation_;
  asked_waits_.emplace(wait.operation, awaited);
  Say(wait.operation, OperationOf(awaited), outcome);
}

void NodeStore::AskQueued(Outcome& outcome) {
  while (!queue_.empty() && asked_.size() < Limits::store_asked_per_node_max) {
    const uint64_t operation = ++last_operation_;
    const auto at = asked_.emplace(operation, std::move(queue_.front())).first;
    queue_.pop_front();
    Say(operation, at->second.what, outcome);
  }
}

NodeStore::Outcome NodeStore::Cancel(const std::vector<uint64_t>& tickets) {
  Outcome outcome;
  for (const uint64_t ticket : tickets) {
    // Only waits are cancelled. Other operations are answered soon, and the
    // caller drops the answer.
    const auto of = waits_by_ticket_.find(ticket);
    if (of == waits_by_ticket_.end()) continue;
    const auto at = waits_.find(of->second);
    waits_by_ticket_.erase(of);
    Wait& wait = at->second;
    std::erase(wait.tickets, ticket);
    std::erase(wait.later, ticket);
    if (!wait.tickets.empty() || !wait.later.empty()) continue;
    if (open_) {
      // The wait stays in asked_waits_ until the daemon answers it, with the
      // cancellation or with its value.
      if (outcome.said.empty()) Message(outcome);
      outcome.said.back().add_cancelled(wait.operation);
    } else {
      asked_waits_.erase(wait.operation);
      waits_.erase(at);
    }
  }
  return outcome;
}

// --- To the daemon -----------------------------------------------------------

v1::StoreIn& NodeStore::Message(Outcome& outcome) const {
  v1::StoreIn& in = outcome.said.emplace_back();
  in.set_generation(generation_);
  in.set_link(link_);
  in.set_received(received_);
  in.set_answered_below(asked_.empty() ? last_operation_ + 1
                                       : asked_.begin()->first);
  return in;
}

v1::StoreIn& NodeStore::Batch(Outcome& outcome) const {
  const bool full =
      outcome.said.empty() ||
      outcome.said.back().asked_size() >=
          static_cast<int>(Limits::store_asked_per_node_max) ||
      outcome.said.back().ByteSizeLong() >= Limits::store_message_bytes;
  return full ? Message(outcome) : outcome.said.back();
}

void NodeStore::Say(uint64_t operation, const v1::StoreOperation& what,
                    Outcome& outcome) {
  if (!open_) return;
  v1::StoreAsked& asked = *Batch(outcome).add_asked();
  asked.set_operation(operation);
  *asked.mutable_what() = what;
}

void NodeStore::SayAll(Outcome& outcome) {
  for (const auto& [operation, queued] : asked_) {
    Say(operation, queued.what, outcome);
  }
  for (auto at = asked_waits_.begin(); at != asked_waits_.end();) {
    const auto wait = waits_.find(at->second);
    if (wait->second.tickets.empty() && wait->second.later.empty()) {
      waits_.erase(wait);  // Cancelled on the previous stream.
      at = asked_waits_.erase(at);
      continue;
    }
    Say(at->first, OperationOf(at->second), outcome);
    ++at;
  }
}

void NodeStore::SayRecords(Outcome& outcome) {
  v1::StoreIn* in = &Message(outcome);
  size_t bytes = 0;
  for (const auto& [key, record] : records_) {
    if (bytes >= Limits::store_message_bytes) {
      in = &Message(outcome);
      bytes = 0;
    }
    *in->add_records() = record;
    bytes += record.ByteSizeLong();
  }
  in->set_records_end(true);
}

// --- From the daemon ---------------------------------------------------------

NodeStore::Outcome NodeStore::Hear(const v1::StoreOut& out) {
  if (out.generation() != generation_) {
    const bool opens = out.link() != 0 || out.report();
    if (opens && out.generation() > generation_) early_ = out;
    return {};
  }
  Outcome outcome;
  received_ = out.number();
  bool confirms = out.records_size() > 0;
  for (const v1::StoreRecord& record : out.records()) Keep(record);
  if (out.report()) {
    open_ = false;
    SayRecords(outcome);
  }
  if (out.link() != 0) {
    open_ = true;
    link_ = out.link();
    SayAll(outcome);
  }
  for (const v1::StoreAnswered& answered : out.answered()) {
    confirms = confirms ||
               answered.result().value().size() > Limits::store_large_bytes;
    Answer(answered, outcome);
  }
  AskQueued(outcome);
  if (confirms && outcome.said.empty()) Message(outcome);
  return outcome;
}

void NodeStore::Keep(const v1::StoreRecord& record) {
  if (!record.dropped()) {
    records_[record.key()] = record;
    return;
  }
  const auto at = records_.find(record.key());
  if (at != records_.end() && at->second.sequence() <= record.sequence()) {
    records_.erase(at);
  }
}

void NodeStore::Answer(const v1::StoreAnswered& answered, Outcome& outcome) {
  v1::StoreResult result = answered.result();
  if (!result.error().empty()) {
    result.set_error(Printable(result.error(), kStoreErrorBytesMax));
  }
  const auto wait = asked_waits_.find(answered.operation());
  if (wait != asked_waits_.end()) {
    const Awaited awaited = std::move(wait->second);
    asked_waits_.erase(wait);
    return AnswerWait(awaited, result, outcome);
  }
  const auto at = asked_.find(answered.operation());
  if (at == asked_.end()) return;
  const Queued done = std::move(at->second);
  asked_.erase(at);
  bytes_ -= BytesOf(done.what);
  outcome.answers.push_back({done.ticket, std::move(result)});
  if (!IsChange(done.what.kind())) return;
  const auto changes = changes_.find(done.what.key());
  if (changes->second.empty()) {
    changes_.erase(changes);
  } else {
    queue_.push_back(std::move(changes->second.front()));
    changes->second.pop_front();
  }
}

void NodeStore::AnswerWait(const Awaited& awaited,
                           const v1::StoreResult& result, Outcome& outcome) {
  const auto at = waits_.find(awaited);
  Wait& wait = at->second;
  for (const uint64_t ticket : wait.tickets) {
    waits_by_ticket_.erase(ticket);
    outcome.answers.push_back({ticket, result});
  }
  if (wait.later.empty()) {
    waits_.erase(at);
  } else {
    AskWait(awaited, wait, outcome);
  }
}

}  // namespace rollcall
