#include "client/agent/rank_service.h"

#include <grpcpp/grpcpp.h>

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/core/limits.h"
#include "daemon/server/mutex.h"
#include "rollcall/v1/rank.grpc.pb.h"

namespace rollcall {
namespace {

// sun_path, without its closing zero.
constexpr size_t kSocketPathMax = 107;
// Every rank of a node may wait for every open key.
constexpr size_t kWaitersMax =
    Limits::exchanges_open_max * Limits::ranks_per_node_max;
// Streams that have not said hello yet, or are of ranks past their end.
constexpr size_t kStreamsMax = 4 * Limits::ranks_per_node_max;
constexpr size_t kRepliesQueuedMax = 64;

grpc::Status Refuse(grpc::StatusCode code, std::string text) {
  return grpc::Status(code, std::move(text));
}

}  // namespace

class RankService::Core : public v1::Rank::CallbackService {
 public:
  explicit Core(Post post) : post_(std::move(post)) {}

  // One Exchange call that waits.
  class Waiter : public grpc::ServerUnaryReactor {
   public:
    Waiter(Core& core, const v1::ExchangeRequest& request,
           v1::ExchangeResponse* response)
        : core_(core),
          generation(request.generation()),
          local_rank(request.local_rank()),
          key(request.key()),
          value(request.value()),
          response(response) {}

   private:
    void OnCancel() override { core_.Forget(this); }
    void OnDone() override { delete this; }
    Core& core_;

   public:
    const uint64_t generation;
    const uint32_t local_rank;
    const std::string key;
    const std::string value;
    v1::ExchangeResponse* const response;
  };

  // One Attend stream.
  class Stream
      : public grpc::ServerBidiReactor<v1::RankMessage, v1::AgentReply> {
   public:
    explicit Stream(Core& core) : core_(core) { StartRead(&incoming_); }

    void Send(v1::AgentReply reply);
    void End(grpc::Status status);

   private:
    friend class Core;
    void OnReadDone(bool ok) override;
    void OnWriteDone(bool ok) override;
    void OnCancel() override { End(grpc::Status::CANCELLED); }
    void OnDone() override { core_.Gone(this); }

    Core& core_;
    v1::RankMessage incoming_;
    // Guarded by the core's lock.
    std::optional<uint32_t> local_rank_;

    Mutex mutex_;
    std::deque<v1::AgentReply> queue_ ABSL_GUARDED_BY(mutex_);
    bool finished_ ABSL_GUARDED_BY(mutex_) = false;
    // Writes that are being started right now: whoever ends the stream
    // meanwhile leaves its status in last_, since nothing may be started after
    // Finish.
    int starting_ ABSL_GUARDED_BY(mutex_) = 0;
    std::optional<grpc::Status> last_ ABSL_GUARDED_BY(mutex_);

    void Start(const v1::AgentReply* reply);
  };
  // Shared, since a stream can end while another thread is about to write to
  // it; the one in streams_ lives until gRPC is done with it.
  using StreamRef = std::shared_ptr<Stream>;

  grpc::ServerBidiReactor<v1::RankMessage, v1::AgentReply>* Attend(
      grpc::CallbackServerContext*) override;
  grpc::ServerUnaryReactor* Exchange(grpc::CallbackServerContext*,
                                     const v1::ExchangeRequest*,
                                     v1::ExchangeResponse*) override;

  void SetWorld(const v1::World& world, const v1::Seal& seal,
                uint32_t node_rank, const std::vector<uint32_t>& waiting);
  void EndWorld(uint64_t generation, v1::ReasonCode code,
                const std::string& reason);
  void Tell(const v1::RankNotice& notice);
  void FailExchanges(uint64_t generation, const std::string& reason);
  void Answer(const v1::ExchangeOut& exchange);

  // The server that this serves; set once, before any call.
  std::unique_ptr<grpc::Server> server;

 private:
  struct Open {
    v1::World world;
    v1::Seal seal;
    uint32_t node_rank;
    std::optional<v1::RankNotice> notice;
  };

  grpc::Status Enter(Waiter* waiter);
  void Forget(Waiter* waiter);
  bool Take(Waiter* waiter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Nothing: the stream goes on.
  std::optional<grpc::Status> Hear(Stream* stream,
                                   const v1::RankMessage& message);
  std::optional<grpc::Status> Greet(Stream* stream, const v1::RankHello& hello);
  std::optional<grpc::Status> Pass(uint32_t local_rank,
                                   const v1::RankMessage& message);
  void Gone(Stream* stream);
  v1::AgentReply WorldFor(uint32_t local_rank)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint32_t RanksHere() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return open_ ? open_->world.members(open_->node_rank).ranks() : 0;
  }

  const Post post_;
  Mutex mutex_;
  std::optional<Open> open_ ABSL_GUARDED_BY(mutex_);
  std::set<Waiter*> waiters_ ABSL_GUARDED_BY(mutex_);
  // All streams, and those that have said hello by local rank.
  std::map<Stream*, StreamRef> streams_ ABSL_GUARDED_BY(mutex_);
  std::map<uint32_t, StreamRef> ranks_ ABSL_GUARDED_BY(mutex_);
};

// --- Exchange ---------------------------------------------------------------

grpc::ServerUnaryReactor* RankService::Core::Exchange(
    grpc::CallbackServerContext*, const v1::ExchangeRequest* request,
    v1::ExchangeResponse* response) {
  auto* waiter = new Waiter(*this, *request, response);
  // Before Enter, whose event another thread may answer at once and so end it.
  AgentEvent event = RankExchanged{request->generation(), request->local_rank(),
                                   request->key(), request->value()};
  const grpc::Status entered = Enter(waiter);
  if (!entered.ok()) {
    waiter->Finish(entered);
    return waiter;
  }
  if (!post_(std::move(event))) {
    bool mine = false;
    {
      MutexLock lock(mutex_);
      mine = Take(waiter);
    }
    if (mine) {
      waiter->Finish(Refuse(grpc::StatusCode::UNAVAILABLE,
                            "the agent is behind with its work; try again"));
    }
  }
  return waiter;
}

grpc::Status RankService::Core::Enter(Waiter* waiter) {
  using Code = grpc::StatusCode;
  if (waiter->value.size() > Limits::exchange_value_bytes_max) {
    return Refuse(
        Code::INVALID_ARGUMENT,
        absl::StrCat("value of ", waiter->value.size(), " bytes; at most ",
                     Limits::exchange_value_bytes_max));
  }
  if (waiter->key.empty() ||
      waiter->key.size() > Limits::exchange_key_bytes_max) {
    return Refuse(Code::INVALID_ARGUMENT,
                  absl::StrCat("key of ", waiter->key.size(), " bytes; 1 to ",
                               Limits::exchange_key_bytes_max));
  }
  MutexLock lock(mutex_);
  if (!open_ || open_->world.generation() != waiter->generation) {
    return Refuse(Code::ABORTED,
                  absl::StrCat("generation ", waiter->generation,
                               " has ended; get the next world first"));
  }
  if (waiter->local_rank >= RanksHere()) {
    return Refuse(Code::INVALID_ARGUMENT,
                  absl::StrCat("local rank ", waiter->local_rank,
                               "; this node has ", RanksHere(), " ranks"));
  }
  for (const Waiter* other : waiters_) {
    if (other->key == waiter->key && other->local_rank == waiter->local_rank &&
        other->value != waiter->value) {
      return Refuse(Code::INVALID_ARGUMENT,
                    absl::StrCat("local rank ", waiter->local_rank,
                                 " has given another value for this key"));
    }
  }
  if (waiters_.size() >= kWaitersMax) {
    return Refuse(Code::RESOURCE_EXHAUSTED,
                  absl::StrCat(kWaitersMax, " exchanges wait already"));
  }
  waiters_.insert(waiter);
  return grpc::Status::OK;
}

bool RankService::Core::Take(Waiter* waiter) {
  return waiters_.erase(waiter) == 1;
}

void RankService::Core::Forget(Waiter* waiter) {
  bool mine = false;
  {
    MutexLock lock(mutex_);
    mine = Take(waiter);
  }
  if (mine) waiter->Finish(grpc::Status::CANCELLED);
}

void RankService::Core::Answer(const v1::ExchangeOut& exchange) {
  std::vector<Waiter*> taken;
  {
    MutexLock lock(mutex_);
    for (Waiter* waiter : waiters_) {
      if (waiter->generation == exchange.generation() &&
          waiter->key == exchange.key()) {
        taken.push_back(waiter);
      }
    }
    for (Waiter* waiter : taken) Take(waiter);
  }
  for (Waiter* waiter : taken) {
    if (exchange.code() != 0) {
      // The codes of both are the same numbers by design.
      waiter->Finish(Refuse(static_cast<grpc::StatusCode>(exchange.code()),
                            exchange.error()));
      continue;
    }
    *waiter->response->mutable_values() = exchange.values();
    waiter->Finish(grpc::Status::OK);
  }
}

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
    stream->End(Refuse(grpc::StatusCode::RESOURCE_EXHAUSTED,
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
    End(Refuse(grpc::StatusCode::RESOURCE_EXHAUSTED,
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
  if (message.has_hello()) return Greet(stream, message.hello());
  uint32_t local_rank = 0;
  {
    MutexLock lock(mutex_);
    if (!stream->local_rank_) {
      return Refuse(grpc::StatusCode::INVALID_ARGUMENT,
                    "the first message must be a RankHello");
    }
    local_rank = *stream->local_rank_;
  }
  return Pass(local_rank, message);
}

std::optional<grpc::Status> RankService::Core::Pass(
    uint32_t local_rank, const v1::RankMessage& message) {
  bool taken = true;
  switch (message.kind_case()) {
    case v1::RankMessage::kProgress:
      // One that is dropped is made good by the next.
      post_(RankProgressed{message.progress().generation(),
                           message.progress().step()});
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
      break;  // Of a newer library; nothing that the agent must know.
  }
  if (taken) return std::nullopt;
  return Refuse(grpc::StatusCode::UNAVAILABLE,
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
      return Refuse(Code::INVALID_ARGUMENT, "a second RankHello");
    }
    if (!open_) return Refuse(Code::ABORTED, "there is no world yet");
    // One that was started for an older world must not take a rank's place.
    if (hello.generation() != 0 &&
        hello.generation() != open_->world.generation()) {
      return Refuse(
          Code::ABORTED,
          absl::StrCat("generation ", hello.generation(),
                       " has ended; now it is ", open_->world.generation()));
    }
    if (hello.local_rank() >= RanksHere()) {
      return Refuse(Code::INVALID_ARGUMENT,
                    absl::StrCat("local rank ", hello.local_rank(),
                                 "; this node has ", RanksHere(), " ranks"));
    }
    stream->local_rank_ = hello.local_rank();
    older = std::exchange(ranks_[hello.local_rank()], streams_[stream]);
    reply = WorldFor(hello.local_rank());
    notice = open_->notice;
    generation = open_->world.generation();
  }
  if (older != nullptr) {
    older->End(Refuse(Code::ABORTED, "a newer process has this local rank"));
  }
  stream->Send(std::move(reply));
  if (notice) {
    v1::AgentReply told;
    *told.mutable_notice() = *std::move(notice);
    stream->Send(std::move(told));
  }
  if (!post_(RankAttended{generation, hello.local_rank(), hello.elastic()})) {
    return Refuse(Code::UNAVAILABLE, "the agent is behind with its work");
  }
  return std::nullopt;
}

v1::AgentReply RankService::Core::WorldFor(uint32_t local_rank) {
  v1::AgentReply reply;
  v1::RankWorld& world = *reply.mutable_world();
  *world.mutable_world() = open_->world;
  *world.mutable_seal() = open_->seal;
  world.set_node_rank(open_->node_rank);
  world.set_local_rank(local_rank);
  world.set_rank(open_->world.members(open_->node_rank).first_rank() +
                 local_rank);
  return reply;
}

void RankService::Core::Gone(Stream* stream) {
  StreamRef last;  // Deleted without the lock.
  {
    MutexLock lock(mutex_);
    auto found = streams_.find(stream);
    if (found == streams_.end()) return;
    last = std::move(found->second);
    streams_.erase(found);
    if (!stream->local_rank_) return;
    auto rank = ranks_.find(*stream->local_rank_);
    if (rank == ranks_.end() || rank->second != last) return;
    ranks_.erase(rank);
  }
  post_(RankUnlinked{*last->local_rank_});
}

void RankService::Core::SetWorld(const v1::World& world, const v1::Seal& seal,
                                 uint32_t node_rank,
                                 const std::vector<uint32_t>& waiting) {
  std::vector<std::pair<StreamRef, v1::AgentReply>> told;
  {
    MutexLock lock(mutex_);
    open_ = Open{world, seal, node_rank, {}};
    for (const uint32_t local_rank : waiting) {
      const auto at = ranks_.find(local_rank);
      // One whose stream has just broken: its end is on its way to the loop.
      if (at != ranks_.end()) {
        told.emplace_back(at->second, WorldFor(local_rank));
      }
    }
  }
  for (auto& [stream, reply] : told) stream->Send(std::move(reply));
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

void RankService::Core::EndWorld(uint64_t generation, v1::ReasonCode code,
                                 const std::string& reason) {
  std::vector<StreamRef> told;
  {
    MutexLock lock(mutex_);
    if (open_ && open_->world.generation() <= generation) {
      for (const auto& [rank, stream] : ranks_) told.push_back(stream);
      open_.reset();
    }
  }
  v1::AgentReply reply;
  reply.mutable_abort()->set_generation(generation);
  reply.mutable_abort()->set_code(code);
  reply.mutable_abort()->set_reason(reason);
  for (const StreamRef& stream : told) stream->Send(reply);
  FailExchanges(generation, reason);
}

void RankService::Core::FailExchanges(uint64_t generation,
                                      const std::string& reason) {
  std::vector<Waiter*> taken;
  {
    MutexLock lock(mutex_);
    for (Waiter* waiter : waiters_) {
      if (waiter->generation <= generation) taken.push_back(waiter);
    }
    for (Waiter* waiter : taken) Take(waiter);
  }
  for (Waiter* waiter : taken) {
    waiter->Finish(Refuse(grpc::StatusCode::ABORTED, reason));
  }
}

// --- The outside ------------------------------------------------------------

absl::StatusOr<std::unique_ptr<RankService>> RankService::Start(
    const std::string& path, Post post) {
  if (path.size() > kSocketPathMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("socket path of ", path.size(), " bytes: ", path,
                     "; at most ", kSocketPathMax));
  }
  auto core = std::make_unique<Core>(std::move(post));
  grpc::ServerBuilder builder;
  builder.AddListeningPort(absl::StrCat("unix:", path),
                           grpc::InsecureServerCredentials());
  builder.RegisterService(core.get());
  core->server = builder.BuildAndStart();
  if (core->server == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on the Unix socket ", path));
  }
  return std::unique_ptr<RankService>(new RankService(std::move(core)));
}

RankService::RankService(std::unique_ptr<Core> core) : core_(std::move(core)) {}

RankService::~RankService() {
  // Cancels what is open; every reactor is done when this returns.
  core_->server->Shutdown(std::chrono::system_clock::now());
  core_->server->Wait();
}

void RankService::SetWorld(const v1::World& world, const v1::Seal& seal,
                           uint32_t node_rank,
                           const std::vector<uint32_t>& waiting) {
  core_->SetWorld(world, seal, node_rank, waiting);
}

void RankService::EndWorld(uint64_t generation, v1::ReasonCode code,
                           const std::string& reason) {
  core_->EndWorld(generation, code, reason);
}

void RankService::Tell(const v1::RankNotice& notice) { core_->Tell(notice); }

void RankService::FailExchanges(uint64_t generation,
                                const std::string& reason) {
  core_->FailExchanges(generation, reason);
}

void RankService::Answer(const v1::ExchangeOut& exchange) {
  core_->Answer(exchange);
}

}  // namespace rollcall
