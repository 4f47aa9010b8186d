// RankService: processes that the agent did not start (--attach).
// AttachedPlaces decides which of them may enter a world, and records which of
// them Stop was called for.
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/agent/rank_service/rank_service_core.h"

namespace rollcall {
namespace {

constexpr uint32_t kExitCodeMax = 255;

absl::Status NoPlace(uint32_t local_rank, uint32_t ranks) {
  return absl::InvalidArgumentError(
      absl::StrCat("local rank ", local_rank, ": expected less than ", ranks,
                   ", the agent's --nproc-per-node; set LOCAL_RANK"));
}

absl::Status OtherGeneration(uint64_t named, uint64_t runs) {
  return absl::AbortedError(
      absl::StrCat("generation ", named, " does not run here",
                   runs == 0 ? "" : absl::StrCat("; ", runs, " does"),
                   "; unset ROLLCALL_GENERATION to take the world that comes"));
}

absl::Status ToldToEnd() {
  return absl::AbortedError(
      "this process has no place in a further world of this "
      "agent; start it again to attach again");
}

}  // namespace

absl::Status RankService::Core::GreetAttached(const StreamRef& stream,
                                              const v1::RankHello& hello) {
  const uint32_t local_rank = hello.local_rank();
  StreamRef older;
  std::vector<v1::AgentReply> replies;
  std::optional<AgentEvent> event;
  {
    MutexLock lock(mutex_);
    const uint64_t runs = open_ ? open_->world.generation() : 0;
    if (stream->local_rank) {
      return absl::InvalidArgumentError(
          "RankHello: expected one for each connection, got a second; open "
          "another connection for another rank");
    }
    if (local_rank >= places_->ranks()) {
      return NoPlace(local_rank, places_->ranks());
    }
    if (hello.generation() != 0 && hello.generation() != runs) {
      return OtherGeneration(hello.generation(), runs);
    }
    stream->local_rank = local_rank;
    stream->pid = hello.pid();
    stream->elastic = hello.elastic();
    if (places_->Arrive(local_rank)) {
      ranks_[local_rank] = stream;
      replies.push_back(WorldFor(local_rank));
      if (open_->notice)
        *replies.emplace_back().mutable_notice() = *open_->notice;
      event = RankAttended{runs, local_rank, hello.elastic()};
    } else {
      older = std::exchange(newcomers_[local_rank], stream);
      if (places_->Lives(local_rank)) {
        event = RankDoubled{local_rank, hello.pid(), ranks_[local_rank]->pid};
      }
    }
  }
  if (older != nullptr) {
    older->End(absl::AbortedError("a newer process has this local rank"));
  }
  for (const v1::AgentReply& reply : replies) stream->Send(reply);
  if (event && !post_(*std::move(event))) {
    return absl::UnavailableError("the agent is behind with its work");
  }
  return absl::OkStatus();
}

bool RankService::Core::HasPlace(const StreamRef& stream) {
  const auto at = ranks_.find(*stream->local_rank);
  return at != ranks_.end() && at->second == stream;
}

absl::Status RankService::Core::NoteAttached(uint32_t local_rank,
                                             const v1::RankMessage& message) {
  MutexLock lock(mutex_);
  if (message.has_finished()) {
    const v1::RankFinished& finished = message.finished();
    if (finished.exit_code() > kExitCodeMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("exit_code: expected at most ", kExitCodeMax, ", got ",
                       finished.exit_code()));
    }
    places_->Finished(local_rank, finished);
  } else if (message.has_stopped() &&
             places_->Answered(local_rank, message.stopped().generation())) {
    return ToldToEnd();
  }
  return absl::OkStatus();
}

std::vector<AgentEvent> RankService::Core::LeavePlace(const StreamRef& stream) {
  const uint32_t local_rank = *stream->local_rank;
  if (const auto waits = newcomers_.find(local_rank);
      waits != newcomers_.end() && waits->second == stream) {
    newcomers_.erase(waits);
    places_->NewcomerLeft(local_rank);
    return {};
  }
  if (!HasPlace(stream)) return {};
  ranks_.erase(local_rank);
  AttachedPlaces::Departure left =
      places_->Leave(local_rank, stream->pid, stream->connection->ended());
  std::vector<AgentEvent> events;
  events.emplace_back(std::move(left.ended));
  if (left.gone) events.emplace_back(*std::move(left.gone));
  return events;
}

std::vector<RankService::Core::StreamRef> RankService::Core::OpenPlaces() {
  std::vector<StreamRef> entered;
  for (const uint32_t local_rank : places_->Open(open_->world.generation())) {
    const auto at = newcomers_.find(local_rank);
    entered.push_back(at->second);
    ranks_[local_rank] = std::move(at->second);
    newcomers_.erase(at);
  }
  return entered;
}

void RankService::Core::Stop(const std::vector<RankIncarnation>& ranks) {
  std::vector<StreamRef> ended;
  RanksGone gone;
  {
    MutexLock lock(mutex_);
    for (const RankIncarnation& rank : ranks) {
      switch (places_->Stop(rank)) {
        case AttachedPlaces::Stopping::kGone:
          gone.ranks.push_back(rank);
          break;
        case AttachedPlaces::Stopping::kEndIt:
          ended.push_back(ranks_[rank.local_rank]);
          break;
        case AttachedPlaces::Stopping::kAwaited:
          break;
      }
    }
  }
  for (const StreamRef& stream : ended) stream->End(ToldToEnd());
  if (!gone.ranks.empty()) post_(std::move(gone));
}

}  // namespace rollcall
