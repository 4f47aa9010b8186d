#include "client/agent/rank_service/rank_service.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/agent/rank_service/rank_service_core.h"
#include "daemon/core/admission/admission.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

v1::AgentReply Refusal(uint64_t request, const absl::Status& status) {
  v1::AgentReply reply;
  v1::RankExchanged& exchanged = *reply.mutable_exchanged();
  exchanged.set_request(request);
  // rank.proto uses the same numbers for the codes.
  exchanged.set_code(static_cast<uint32_t>(status.code()));
  exchanged.set_error(std::string(status.message()));
  return reply;
}

}  // namespace

// --- Exchange ---------------------------------------------------------------

void RankService::Core::Exchange(const StreamRef& stream,
                                 const v1::RankExchange& asked) {
  std::optional<uint64_t> replaced;
  absl::Status entered;
  uint32_t local_rank = 0;
  {
    MutexLock lock(mutex_);
    entered = Enter(stream, asked, replaced);
    local_rank = *stream->local_rank;
  }
  if (replaced) {
    stream->Send(Refusal(
        *replaced, absl::CancelledError("a newer request has the same key")));
  }
  if (!entered.ok()) {
    stream->Send(Refusal(asked.request(), entered));
    return;
  }
  if (post_(RankExchanged{asked.generation(), local_rank, asked.key(),
                          asked.value()})) {
    return;
  }
  bool mine = false;
  {
    MutexLock lock(mutex_);
    mine = stream->waiters.erase(asked.key()) == 1;
  }
  if (mine) {
    stream->Send(Refusal(asked.request(),
                         absl::UnavailableError(
                             "the agent is behind with its work; try again")));
  }
}

absl::Status RankService::Core::CheckPlace(const StreamRef& stream,
                                           uint64_t generation) {
  if (!open_ || open_->world.generation() != generation ||
      (places_ && !HasPlace(stream))) {
    return absl::AbortedError(absl::StrCat(
        "generation ", generation, " has ended; get the next world first"));
  }
  // The rank is still connected, but has no place in this world.
  if (*stream->local_rank >= RanksHere()) {
    return absl::InvalidArgumentError(
        absl::StrCat("local rank ", *stream->local_rank, "; this node has ",
                     RanksHere(), " ranks"));
  }
  return absl::OkStatus();
}

absl::Status RankService::Core::Enter(const StreamRef& stream,
                                      const v1::RankExchange& asked,
                                      std::optional<uint64_t>& replaced) {
  if (asked.value().size() > Limits::exchange_value_bytes_max) {
    return absl::InvalidArgumentError(
        absl::StrCat("value of ", asked.value().size(), " bytes; at most ",
                     Limits::exchange_value_bytes_max));
  }
  // The daemon would end the agent's stream for a key that it does not admit.
  if (absl::Status fits = AdmitExchangeKey(asked.key()); !fits.ok()) {
    return absl::InvalidArgumentError(fits.message());
  }
  if (absl::Status placed = CheckPlace(stream, asked.generation());
      !placed.ok()) {
    return placed;
  }
  const auto open = stream->waiters.find(asked.key());
  if (open != stream->waiters.end()) {
    if (open->second.value != asked.value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("local rank ", *stream->local_rank,
                       " has given another value for this key"));
    }
    replaced = std::exchange(open->second.request, asked.request());
    return absl::OkStatus();
  }
  if (stream->waiters.size() >= Limits::exchanges_open_max) {
    return absl::ResourceExhaustedError(
        absl::StrCat("local rank ", *stream->local_rank, " waits for ",
                     Limits::exchanges_open_max,
                     " keys already, the most that one rank may"));
  }
  stream->waiters.emplace(
      asked.key(),
      Stream::Waiter{asked.request(), asked.generation(), asked.value()});
  return absl::OkStatus();
}

void RankService::Core::Answer(const v1::ExchangeOut& exchange) {
  v1::AgentReply reply;
  v1::RankExchanged& exchanged = *reply.mutable_exchanged();
  exchanged.set_code(exchange.code());
  exchanged.set_error(exchange.error());
  if (exchange.code() == 0) *exchanged.mutable_values() = exchange.values();
  std::vector<std::pair<StreamRef, uint64_t>> taken;
  {
    MutexLock lock(mutex_);
    for (const auto& [rank, stream] : ranks_) {
      const auto at = stream->waiters.find(exchange.key());
      if (at == stream->waiters.end() ||
          at->second.generation != exchange.generation()) {
        continue;
      }
      taken.emplace_back(stream, at->second.request);
      stream->waiters.erase(at);
    }
  }
  for (const auto& [stream, request] : taken) {
    exchanged.set_request(request);
    stream->Send(reply);
  }
}

void RankService::Core::FailRequests(uint64_t generation,
                                     const std::string& reason) {
  std::vector<std::pair<StreamRef, uint64_t>> taken;
  {
    MutexLock lock(mutex_);
    for (const auto& [rank, stream] : ranks_) {
      for (const auto& [key, waiter] : stream->waiters) {
        if (waiter.generation <= generation) {
          taken.emplace_back(stream, waiter.request);
        }
      }
      std::erase_if(stream->waiters, [generation](const auto& entry) {
        return entry.second.generation <= generation;
      });
    }
  }
  for (const auto& [stream, request] : taken) {
    stream->Send(Refusal(request, absl::AbortedError(reason)));
  }
  FailStore(generation, reason);
}

// --- The outside ------------------------------------------------------------

absl::StatusOr<std::unique_ptr<RankService>> RankService::Start(
    const std::string& path, Post post, const SystemUser* user,
    uint32_t attached) {
  auto core = std::make_unique<Core>(std::move(post), attached);
  RankSocket::Events events;
  events.came = [&core = *core](const RankConnectionRef& connection) {
    core.Came(connection);
  };
  events.heard = [&core = *core](RankConnection& connection,
                                 const v1::RankMessage& message) {
    return core.Hear(connection, message);
  };
  events.gone = [&core = *core](RankConnection& connection) {
    core.Gone(connection);
  };
  auto socket = RankSocket::Listen(path, std::move(events), user);
  if (!socket.ok()) return socket.status();
  core->socket = *std::move(socket);
  return std::unique_ptr<RankService>(new RankService(std::move(core)));
}

RankService::RankService(std::unique_ptr<Core> core) : core_(std::move(core)) {}

// After this, the socket's thread calls nothing in the core.
RankService::~RankService() { core_->socket.reset(); }

void RankService::SetWorld(const v1::World& world,
                           const v1::WorldCommit& world_commit,
                           uint32_t node_rank,
                           const std::vector<uint32_t>& waiting,
                           const RankVariables& network) {
  core_->SetWorld(world, world_commit, node_rank, waiting, network);
}

void RankService::EndWorld(uint64_t generation, v1::ReasonCode code,
                           const std::string& reason) {
  core_->EndWorld(generation, code, reason);
}

void RankService::Tell(const v1::RankNotice& notice) { core_->Tell(notice); }

int32_t RankService::AskWhere(uint64_t generation, uint32_t local_rank) {
  return core_->AskWhere(generation, local_rank);
}

void RankService::Stop(const std::vector<RankIncarnation>& ranks) {
  core_->Stop(ranks);
}

void RankService::FailRequests(uint64_t generation, const std::string& reason) {
  core_->FailRequests(generation, reason);
}

void RankService::Answer(const v1::ExchangeOut& exchange) {
  core_->Answer(exchange);
}

void RankService::Answer(const AnswerStore& answer) { core_->Answer(answer); }

}  // namespace rollcall
