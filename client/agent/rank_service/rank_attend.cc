// RankService: the streams of linked ranks, and the worlds and notices sent to
// them.
#include <grpcpp/grpcpp.h>

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

// Includes streams that have sent no hello yet, and streams of ended ranks.
constexpr size_t kStreamsMax = size_t{4} * Limits::ranks_per_node_max;
constexpr size_t kRepliesQueuedMax = 64;

// Values that are not finite numbers are dropped, and so is a number of steps
// that no training can have.
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

}  // namespace

// --- Attend -----------------------------------------------------------------

grpc::ServerBidiReactor<v1::RankMessage, v1::AgentReply>*
RankService::Core::Attend(grpc::CallbackServerContext*) {
  auto stream = std::make_shared<Stream>(*this);
  bool full = false;
  {
    MutexLock lock(mutex_);
    full = streams_.size() >= kStreamsMax;
    streams_.emplace(stream.get(), stream);
  }
  if (full) {
    stream->End(
        grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                     absl::StrCat(kStreamsMax, " ranks attend already")));
  }
  return stream.get();
}

void RankService::Core::Stream::Send(v1::AgentReply reply) {
  const v1::AgentReply* first = nullptr;
  bool too_slow = false;
  {
    MutexLock lock(mutex_);
    if (finished_) return;
    too_slow = queue_.size() >= kRepliesQueuedMax;
    if (!too_slow) {
      queue_.push_back(std::move(reply));
      if (queue_.size() == 1) first = &queue_.front();
      if (first != nullptr) ++starting_;
    }
  }
  if (first != nullptr) Start(first);
  if (too_slow) {
    End(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                     "the rank does not read what its agent tells it"));
  }
}

void RankService::Core::Stream::Start(const v1::AgentReply* reply) {
  StartWrite(reply);
  std::optional<grpc::Status> last;
  {
    MutexLock lock(mutex_);
    if (--starting_ == 0) last.swap(last_);
  }
  if (last) Finish(std::move(*last));
}

void RankService::Core::Stream::End(grpc::Status status) {
  {
    MutexLock lock(mutex_);
    if (finished_) return;
    finished_ = true;
    if (starting_ > 0) {
      last_ = std::move(status);
      return;
    }
  }
  Finish(std::move(status));
}

void RankService::Core::Stream::OnReadDone(bool ok) {
  if (!ok) {
    End(grpc::Status::OK);
    return;
  }
  if (auto status = core_.Hear(this, incoming_)) {
    End(std::move(*status));
    return;
  }
  StartRead(&incoming_);
}

void RankService::Core::Stream::OnWriteDone(bool ok) {
  const v1::AgentReply* next = nullptr;
  {
    MutexLock lock(mutex_);
    queue_.pop_front();
    if (ok && !finished_ && !queue_.empty()) next = &queue_.front();
    if (next != nullptr) ++starting_;
  }
  if (next != nullptr) Start(next);
}

std::optional<grpc::Status> RankService::Core::Hear(
    Stream* stream, const v1::RankMessage& message) {
  uint32_t local_rank = 0;
  bool attached = false;
  {
    MutexLock lock(mutex_);
    attached = places_.has_value();
    if (!message.has_hello()) {
      if (!stream->local_rank_) {
        return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                            "the first message must be a RankHello");
      }
      local_rank = *stream->local_rank_;
      if (attached && !HasPlace(stream)) return std::nullopt;
    }
  }
  if (message.has_hello()) {
    return attached ? GreetAttached(stream, message.hello())
                    : Greet(stream, message.hello());
  }
  if (attached) {
    if (auto status = NoteAttached(local_rank, message)) return status;
  }
  return Pass(local_rank, message);
}

std::optional<grpc::Status> RankService::Core::Pass(
    uint32_t local_rank, const v1::RankMessage& message) {
  bool taken = true;
  const uint64_t step =
      std::max(message.progress().step(), message.stopped().completed_step());
  if (step > Limits::step_max) {
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                        absl::StrCat("step: expected at most ",
                                     Limits::step_max, ", got ", step));
  }
  switch (message.kind_case()) {
    case v1::RankMessage::kProgress:
      // A dropped report is replaced by the next one.
      post_(RankProgressed{message.progress().generation(),
                           message.progress().step(), local_rank,
                           PaceOf(local_rank, message.progress())});
      break;
    case v1::RankMessage::kHere:
      // If it is dropped, the rank counts as not answering this once.
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
      // What the kernel says is not needed from the process; or from a newer
      // library.
      break;
  }
  if (taken) return std::nullopt;
  return grpc::Status(grpc::StatusCode::UNAVAILABLE,
                      "the agent is behind with its work");
}

std::optional<grpc::Status> RankService::Core::Greet(
    Stream* stream, const v1::RankHello& hello) {
  using Code = grpc::StatusCode;
  StreamRef older;
  v1::AgentReply reply;
  std::optional<v1::RankNotice> notice;
  uint64_t generation = 0;
  {
    MutexLock lock(mutex_);
    if (stream->local_rank_) {
      return grpc::Status(Code::INVALID_ARGUMENT, "a second RankHello");
    }
    if (!open_) return grpc::Status(Code::ABORTED, "there is no world yet");
    // A rank that was started for an older world must not replace a current
    // one.
    if (hello.generation() != 0 &&
        hello.generation() != open_->world.generation()) {
      return grpc::Status(
          Code::ABORTED,
          absl::StrCat("generation ", hello.generation(),
                       " has ended; now it is ", open_->world.generation()));
    }
    if (hello.local_rank() >= RanksHere()) {
      return grpc::Status(
          Code::INVALID_ARGUMENT,
          absl::StrCat("local rank ", hello.local_rank(), "; this node has ",
                       RanksHere(), " ranks"));
    }
    stream->local_rank_ = hello.local_rank();
    stream->pid_ = hello.pid();
    older = std::exchange(ranks_[hello.local_rank()], streams_[stream]);
    reply = WorldFor(hello.local_rank());
    notice = open_->notice;
    generation = open_->world.generation();
  }
  if (older != nullptr) {
    older->End(
        grpc::Status(Code::ABORTED, "a newer process has this local rank"));
  }
  stream->Send(std::move(reply));
  if (notice) {
    v1::AgentReply told;
    *told.mutable_notice() = *std::move(notice);
    stream->Send(std::move(told));
  }
  if (!post_(RankAttended{generation, hello.local_rank(), hello.elastic()})) {
    return grpc::Status(Code::UNAVAILABLE, "the agent is behind with its work");
  }
  return std::nullopt;
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
  return reply;
}

void RankService::Core::Gone(Stream* stream) {
  StreamRef last;  // Deleted after the lock is released.
  std::vector<AgentEvent> events;
  {
    MutexLock lock(mutex_);
    auto found = streams_.find(stream);
    if (found == streams_.end()) return;
    last = std::move(found->second);
    streams_.erase(found);
    if (!stream->local_rank_) return;
    if (places_) {
      events = LeavePlace(last);
    } else {
      auto rank = ranks_.find(*stream->local_rank_);
      if (rank == ranks_.end() || rank->second != last) return;
      ranks_.erase(rank);
      events.emplace_back(RankUnlinked{*last->local_rank_});
    }
  }
  for (AgentEvent& event : events) post_(std::move(event));
}

void RankService::Core::SetWorld(const v1::World& world,
                                 const v1::WorldCommit& world_commit,
                                 uint32_t node_rank,
                                 const std::vector<uint32_t>& waiting) {
  std::vector<std::pair<StreamRef, v1::AgentReply>> told;
  std::vector<StreamRef> entered;
  {
    MutexLock lock(mutex_);
    open_ = Open{world, world_commit, node_rank, {}};
    for (const uint32_t local_rank : waiting) {
      const auto at = ranks_.find(local_rank);
      // A stream that has just broken: the event of its end will reach the
      // loop.
      if (at != ranks_.end()) {
        told.emplace_back(at->second, WorldFor(local_rank));
      }
    }
    if (places_) entered = OpenPlaces();
    for (const StreamRef& stream : entered) {
      told.emplace_back(stream, WorldFor(*stream->local_rank_));
    }
  }
  for (auto& [stream, reply] : told) stream->Send(std::move(reply));
  for (const StreamRef& stream : entered) {
    if (!post_(RankAttended{world.generation(), *stream->local_rank_,
                            stream->elastic_})) {
      stream->End(grpc::Status(grpc::StatusCode::UNAVAILABLE,
                               "the agent is behind with its work"));
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
    pid = asked->pid_;
  }
  v1::AgentReply reply;
  reply.mutable_where()->set_generation(generation);
  asked->Send(std::move(reply));
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
  FailExchanges(generation, reason);
}

}  // namespace rollcall
