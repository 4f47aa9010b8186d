// RankService::Core: operations of the ranks on the store.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/agent/rank_service/rank_service_core.h"
#include "daemon/core/admission/admission.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

v1::AgentReply Stored(uint64_t request, v1::StoreResult result) {
  v1::AgentReply reply;
  reply.mutable_stored()->set_request(request);
  *reply.mutable_stored()->mutable_result() = std::move(result);
  return reply;
}

v1::AgentReply StoreRefusal(uint64_t request, const absl::Status& status) {
  v1::StoreResult result;
  result.set_code(static_cast<uint32_t>(status.code()));
  result.set_error(std::string(status.message()));
  return Stored(request, std::move(result));
}

}  // namespace

void RankService::Core::Store(const StreamRef& stream,
                              const v1::RankStore& asked) {
  absl::Status entered;
  uint64_t ticket = 0;
  {
    MutexLock lock(mutex_);
    entered = EnterStore(stream, asked);
    ticket = last_ticket_;
  }
  if (entered.ok() &&
      !post_(RankAsksStore{asked.generation(), ticket, asked.operation()})) {
    MutexLock lock(mutex_);
    // If the ticket is missing, the request was already answered or forgotten.
    if (store_.erase(ticket) == 0) return;
    stream->tickets.erase(asked.request());
    entered =
        absl::UnavailableError("the agent is behind with its work; try again");
  }
  if (!entered.ok()) stream->Send(StoreRefusal(asked.request(), entered));
}

absl::Status RankService::Core::EnterStore(const StreamRef& stream,
                                           const v1::RankStore& asked) {
  // The daemon would end the agent's stream for an operation that it does not
  // admit.
  if (absl::Status fits = AdmitStoreOperation(asked.operation()); !fits.ok()) {
    return absl::InvalidArgumentError(fits.message());
  }
  if (absl::Status placed = CheckPlace(stream, asked.generation());
      !placed.ok()) {
    return placed;
  }
  if (stream->tickets.size() >= Limits::store_asked_per_rank_max) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "local rank ", *stream->local_rank, " has ",
        Limits::store_asked_per_rank_max,
        " operations on the store under way, the most that one rank may"));
  }
  if (!stream->tickets.try_emplace(asked.request(), last_ticket_ + 1).second) {
    return absl::InvalidArgumentError(absl::StrCat(
        "request ", asked.request(), " is under way; use another number"));
  }
  store_.emplace(++last_ticket_,
                 Asked{stream, asked.request(), asked.generation()});
  return absl::OkStatus();
}

void RankService::Core::Answer(const AnswerStore& answer) {
  Asked asked;
  {
    MutexLock lock(mutex_);
    const auto at = store_.find(answer.ticket);
    if (at == store_.end()) return;  // No rank waits for it any more.
    asked = std::move(at->second);
    store_.erase(at);
    asked.stream->tickets.erase(asked.request);
  }
  asked.stream->Send(Stored(asked.request, answer.result));
}

void RankService::Core::Cancel(const StreamRef& stream, uint64_t request) {
  std::vector<uint64_t> tickets;
  {
    MutexLock lock(mutex_);
    const auto at = stream->tickets.find(request);
    if (at == stream->tickets.end()) return;
    tickets.push_back(at->second);
    store_.erase(at->second);
    stream->tickets.erase(at);
  }
  // If the event is not accepted, the answer is dropped when it arrives.
  post_(StoreCancelled{std::move(tickets)});
}

std::vector<uint64_t> RankService::Core::TakeTickets(const StreamRef& stream) {
  std::vector<uint64_t> tickets;
  for (const auto& [request, ticket] : stream->tickets) {
    tickets.push_back(ticket);
    store_.erase(ticket);
  }
  stream->tickets.clear();
  return tickets;
}

void RankService::Core::FailStore(uint64_t generation,
                                  const std::string& reason) {
  Told told;
  {
    MutexLock lock(mutex_);
    for (auto at = store_.begin(); at != store_.end();) {
      const Asked& asked = at->second;
      if (asked.generation > generation) {
        ++at;
        continue;
      }
      told.emplace_back(asked.stream, StoreRefusal(asked.request,
                                                   absl::AbortedError(reason)));
      asked.stream->tickets.erase(asked.request);
      at = store_.erase(at);
    }
  }
  for (const auto& [stream, reply] : told) stream->Send(reply);
}

}  // namespace rollcall
