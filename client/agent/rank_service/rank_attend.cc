// RankService: the connections of linked ranks, and the worlds and notices sent
// on them.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/agent/rank_service/rank_service_core.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

// The pace of local rank 0; nullopt for other ranks, and if a value is missing
// or not finite. A number of steps above Limits::step_max is left out.
std::optional<v1::Pace> PaceOf(uint32_t local_rank,
                               const v1::RankProgress& progress) {
  if (local_rank != 0 || !std::isfinite(progress.loss()) ||
      !std::isfinite(progress.tokens_per_second())) {
    return std::nullopt;
  }
  if (!progress.has_loss() || !progress.has_tokens_per_second()) {
    return std::nullopt;
  }
  v1::Pace pace;
  pace.set_loss(progress.loss());
  pace.set_tokens_per_second(progress.tokens_per_second());
  if (progress.steps() <= Limits::step_max) pace.set_steps(progress.steps());
  const auto fits = [](double value) {
    return std::isfinite(value) && value >= 0;
  };
  if (progress.has_gradient_norm() && fits(progress.gradient_norm())) {
    pace.set_gradient_norm(progress.gradient_norm());
  }
  if (progress.has_flops_utilization() && fits(progress.flops_utilization()) &&
      progress.flops_utilization() <= 1) {
    pace.set_flops_utilization(progress.flops_utilization());
  }
  if (progress.has_validation_loss() && fits(progress.validation_loss())) {
    pace.set_validation_loss(progress.validation_loss());
  }
  pace.set_memory_bytes(progress.memory_bytes());
  return pace;
}

RankIsHere WhereItIs(uint32_t local_rank, const v1::RankHere& said) {
  RankIsHere here{said.generation(), local_rank, {}, {}};
  if (said.has_collective_entered()) {
    here.collective_entered = said.collective_entered();
  }
  if (said.has_collective_left()) {
    here.collective_left = said.collective_left();
  }
  return here;
}

absl::Status CheckVersion(const v1::RankHello& hello) {
  if (hello.wire_version() == kRankWireVersion) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the rank speaks version ", hello.wire_version(),
                   " of rank.proto, and its agent, rollcall ", ROLLCALL_VERSION,
                   ", version ", kRankWireVersion,
                   "; give both the same version of rollcall"));
}

}  // namespace

void RankService::Core::Came(const RankConnectionRef& connection) {
  MutexLock lock(mutex_);
  streams_.emplace(connection.get(), std::make_shared<Stream>(connection));
}

absl::Status RankService::Core::Hear(RankConnection& connection,
                                     const v1::RankMessage& message) {
  StreamRef stream;
  uint32_t local_rank = 0;
  bool attached = false;
  bool counts = true;
  {
    MutexLock lock(mutex_);
    stream = streams_.find(&connection)->second;
    attached = places_.has_value();
    if (!message.has_hello()) {
      if (!stream->local_rank) {
        return absl::InvalidArgumentError(
            "the first message must be a RankHello");
      }
      local_rank = *stream->local_rank;
      counts = !attached || HasPlace(stream);
    }
  }
  if (message.has_hello()) {
    if (absl::Status fits = CheckVersion(message.hello()); !fits.ok()) {
      return fits;
    }
    return attached ? GreetAttached(stream, message.hello())
                    : Greet(stream, message.hello());
  }
  if (message.has_exchange()) {
    Exchange(stream, message.exchange());
    return absl::OkStatus();
  }
  if (message.has_store()) {
    Store(stream, message.store());
    return absl::OkStatus();
  }
  if (message.has_store_cancel()) {
    Cancel(stream, message.store_cancel().request());
    return absl::OkStatus();
  }
  if (!counts) return absl::OkStatus();
  if (attached) {
    absl::Status status = NoteAttached(local_rank, message);
    if (!status.ok()) return status;
  }
  return Pass(local_rank, message);
}

absl::Status RankService::Core::Pass(uint32_t local_rank,
                                     const v1::RankMessage& message) {
  bool taken = true;
  const uint64_t step =
      std::max({message.progress().step(), message.stopped().completed_step(),
                message.saved().step()});
  if (step > Limits::step_max) {
    return absl::InvalidArgumentError(absl::StrCat(
        "step: expected at most ", Limits::step_max, ", got ", step));
  }
  switch (message.kind_case()) {
    case v1::RankMessage::kProgress:
      // A dropped report is replaced by the next one.
      post_(RankProgressed{message.progress().generation(),
                           message.progress().step(), local_rank,
                           PaceOf(local_rank, message.progress())});
      break;
    case v1::RankMessage::kSaved:
      post_(RankSaved{message.saved().generation(), message.saved().step()});
      break;
    case v1::RankMessage::kHere:
      // If the report is dropped, the rank counts as not answering this time.
      post_(WhereItIs(local_rank, message.here()));
      break;
    case v1::RankMessage::kStopped:
      taken = post_(RankWaits{message.stopped().generation(), local_rank,
                              message.stopped().completed_step(),
                              message.stopped().whole_state()});
      break;
    case v1::RankMessage::kNoticeSeen:
      taken =
          post_(RankAtBoundary{message.notice_seen().generation(), local_rank});
      break;
    case v1::RankMessage::kLeave:
      taken = post_(RankAskedToLeave{local_rank});
      break;
    default:
      // `finished`: not needed, because the agent learns of the end from the
      // kernel or from NoteAttached. Other kinds come from a newer library.
      break;
  }
  if (taken) return absl::OkStatus();
  return absl::UnavailableError("the agent is behind with its work");
}

absl::Status RankService::Core::Greet(const StreamRef& stream,
                                      const v1::RankHello& hello) {
  StreamRef older;
  v1::AgentReply reply;
  std::optional<v1::RankNotice> notice;
  uint64_t generation = 0;
  {
    MutexLock lock(mutex_);
    if (stream->local_rank) {
      return absl::InvalidArgumentError("a second RankHello");
    }
    if (!open_) return absl::AbortedError("there is no world yet");
    // A rank that was started for an older world must not replace a current
    // rank.
    if (hello.generation() != 0 &&
        hello.generation() != open_->world.generation()) {
      return absl::AbortedError(absl::StrCat("generation ", hello.generation(),
                                             " has ended; now it is ",
                                             open_->world.generation()));
    }
    if (hello.local_rank() >= RanksHere()) {
      return absl::InvalidArgumentError(
          absl::StrCat("local rank ", hello.local_rank(), "; this node has ",
                       RanksHere(), " ranks"));
    }
    stream->local_rank = hello.local_rank();
    stream->pid = hello.pid();
    older = std::exchange(ranks_[hello.local_rank()], stream);
    reply = WorldFor(hello.local_rank());
    notice = open_->notice;
    generation = open_->world.generation();
  }
  if (older != nullptr) {
    older->End(absl::AbortedError("a newer process has this local rank"));
  }
  stream->Send(reply);
  if (notice) {
    v1::AgentReply told;
    *told.mutable_notice() = *std::move(notice);
    stream->Send(told);
  }
  if (!post_(RankAttended{generation, hello.local_rank(), hello.elastic()})) {
    return absl::UnavailableError("the agent is behind with its work");
  }
  return absl::OkStatus();
}

v1::AgentReply RankService::Core::WorldFor(uint32_t local_rank) {
  v1::AgentReply reply;
  v1::RankWorld& world = *reply.mutable_world();
  *world.mutable_world() = open_->world;
  *world.mutable_world_commit() = open_->world_commit;
  world.set_node_rank(open_->node_rank);
  world.set_local_rank(local_rank);
  world.set_rank(open_->world.members(open_->node_rank).first_rank() +
                 local_rank);
  for (const auto& [name, value] : open_->network) {
    v1::RankVariable& variable = *world.add_network();
    variable.set_name(name);
    variable.set_value(value);
  }
  return reply;
}

void RankService::Core::Gone(RankConnection& connection) {
  std::vector<AgentEvent> events;
  {
    MutexLock lock(mutex_);
    const auto found = streams_.find(&connection);
    const StreamRef stream = std::move(found->second);
    streams_.erase(found);
    if (!stream->local_rank) return;
    if (!stream->tickets.empty()) {
      events.emplace_back(StoreCancelled{TakeTickets(stream)});
    }
    const auto rank = ranks_.find(*stream->local_rank);
    if (places_) {
      for (AgentEvent& event : LeavePlace(stream)) {
        events.push_back(std::move(event));
      }
    } else if (rank != ranks_.end() && rank->second == stream) {
      ranks_.erase(rank);
      events.emplace_back(RankUnlinked{*stream->local_rank});
    }
  }
  for (AgentEvent& event : events) post_(std::move(event));
}

void RankService::Core::SetWorld(const v1::World& world,
                                 const v1::WorldCommit& world_commit,
                                 uint32_t node_rank,
                                 const std::vector<uint32_t>& waiting,
                                 const RankVariables& network) {
  Told told;
  std::vector<StreamRef> entered;
  {
    MutexLock lock(mutex_);
    open_ = Open{world, world_commit, node_rank, network, {}};
    for (const uint32_t local_rank : waiting) {
      const auto at = ranks_.find(local_rank);
      // If it is missing, its connection has just ended, and an event about
      // that will reach the loop.
      if (at != ranks_.end()) {
        told.emplace_back(at->second, WorldFor(local_rank));
      }
    }
    if (places_) entered = OpenPlaces();
    for (const StreamRef& stream : entered) {
      told.emplace_back(stream, WorldFor(*stream->local_rank));
    }
  }
  for (const auto& [stream, reply] : told) stream->Send(reply);
  for (const StreamRef& stream : entered) {
    if (!post_(RankAttended{world.generation(), *stream->local_rank,
                            stream->elastic})) {
      stream->End(absl::UnavailableError("the agent is behind with its work"));
    }
  }
}

void RankService::Core::Tell(const v1::RankNotice& notice) {
  std::vector<StreamRef> told;
  {
    MutexLock lock(mutex_);
    if (!open_ || open_->world.generation() != notice.generation()) return;
    open_->notice = notice;
    for (const auto& [rank, stream] : ranks_) told.push_back(stream);
  }
  v1::AgentReply reply;
  *reply.mutable_notice() = notice;
  for (const StreamRef& stream : told) stream->Send(reply);
}

int32_t RankService::Core::AskWhere(uint64_t generation, uint32_t local_rank) {
  StreamRef asked;
  int32_t pid = 0;
  {
    MutexLock lock(mutex_);
    const auto at = ranks_.find(local_rank);
    if (at == ranks_.end()) return 0;
    asked = at->second;
    pid = asked->pid;
  }
  v1::AgentReply reply;
  reply.mutable_where()->set_generation(generation);
  asked->Send(reply);
  return pid;
}

void RankService::Core::EndWorld(uint64_t generation, v1::ReasonCode code,
                                 const std::string& reason) {
  std::vector<StreamRef> told;
  {
    MutexLock lock(mutex_);
    if (open_ && open_->world.generation() <= generation) {
      for (const auto& [rank, stream] : ranks_) told.push_back(stream);
      open_.reset();
      if (places_) places_->Close(generation);
    }
  }
  v1::AgentReply reply;
  reply.mutable_abort()->set_generation(generation);
  reply.mutable_abort()->set_code(code);
  reply.mutable_abort()->set_reason(reason);
  for (const StreamRef& stream : told) stream->Send(reply);
  FailRequests(generation, reason);
}

}  // namespace rollcall
