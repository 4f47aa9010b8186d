// RankService::Core: who is connected, and who waits for which key. Only for
// rank_service.cc (interface and exchanges), rank_attend.cc (streams) and
// attached_ranks.cc (streams of processes that the agent did not start).
//
// Thread rule: any thread. No call is finished and nothing is sent while its
// lock is held.
#ifndef ROLLCALL_CLIENT_AGENT_RANK_SERVICE_RANK_SERVICE_CORE_H_
#define ROLLCALL_CLIENT_AGENT_RANK_SERVICE_RANK_SERVICE_CORE_H_

#include <grpcpp/grpcpp.h>

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/agent/core/attached_places.h"
#include "client/agent/rank_service/rank_service.h"
#include "daemon/base/mutex.h"
#include "rollcall/v1/rank.grpc.pb.h"

namespace rollcall {

class RankService::Core : public v1::Rank::CallbackService {
 public:
  // `attached`: see RankService::Start.
  Core(Post post, uint32_t attached) : post_(std::move(post)) {
    if (attached > 0) places_.emplace(attached);
  }

  // One waiting Exchange call.
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
    int32_t pid_ = 0;
    bool elastic_ = false;

    Mutex mutex_;
    std::deque<v1::AgentReply> queue_ ABSL_GUARDED_BY(mutex_);
    bool finished_ ABSL_GUARDED_BY(mutex_) = false;
    // Number of writes being started now. A thread that ends the stream
    // meanwhile stores its status in last_, because nothing may be started
    // after Finish.
    int starting_ ABSL_GUARDED_BY(mutex_) = 0;
    std::optional<grpc::Status> last_ ABSL_GUARDED_BY(mutex_);

    void Start(const v1::AgentReply* reply);
  };
  // Shared, because a stream can end while another thread is about to write to
  // it; the one in streams_ lives until gRPC is done with it.
  using StreamRef = std::shared_ptr<Stream>;

  grpc::ServerBidiReactor<v1::RankMessage, v1::AgentReply>* Attend(
      grpc::CallbackServerContext*) override;
  grpc::ServerUnaryReactor* Exchange(grpc::CallbackServerContext*,
                                     const v1::ExchangeRequest*,
                                     v1::ExchangeResponse*) override;

  void SetWorld(const v1::World& world, const v1::WorldCommit& world_commit,
                uint32_t node_rank, const std::vector<uint32_t>& waiting);
  void EndWorld(uint64_t generation, v1::ReasonCode code,
                const std::string& reason);
  void Tell(const v1::RankNotice& notice);
  int32_t AskWhere(uint64_t generation, uint32_t local_rank);
  void Stop(const std::vector<RankIncarnation>& ranks);
  void FailExchanges(uint64_t generation, const std::string& reason);
  void Answer(const v1::ExchangeOut& exchange);

  // The gRPC server; set once, before any call.
  std::unique_ptr<grpc::Server> server;

 private:
  struct Open {
    v1::World world;
    v1::WorldCommit world_commit;
    uint32_t node_rank;
    std::optional<v1::RankNotice> notice;
  };

  grpc::Status Enter(Waiter* waiter);
  void Forget(Waiter* waiter);
  bool Take(Waiter* waiter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // nullopt: the stream goes on.
  std::optional<grpc::Status> Hear(Stream* stream,
                                   const v1::RankMessage& message);
  std::optional<grpc::Status> Greet(Stream* stream, const v1::RankHello& hello);
  // With places_: the same for a process that the agent did not start.
  std::optional<grpc::Status> GreetAttached(Stream* stream,
                                            const v1::RankHello& hello);
  // Nothing but a hello counts from a process that has no place.
  bool HasPlace(const Stream* stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What attached processes alone say, or mean by it.
  std::optional<grpc::Status> NoteAttached(uint32_t local_rank,
                                           const v1::RankMessage& message);
  // The stream of an attached process has ended: what to post.
  std::vector<AgentEvent> LeavePlace(const StreamRef& stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Newcomers enter the world that was opened.
  std::vector<StreamRef> OpenPlaces() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
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
  // All streams, and by local rank those that have sent their hello.
  std::map<Stream*, StreamRef> streams_ ABSL_GUARDED_BY(mutex_);
  std::map<uint32_t, StreamRef> ranks_ ABSL_GUARDED_BY(mutex_);
  // Only for an agent that starts no ranks: their places, and by local rank the
  // streams that wait for a world to enter; ranks_ has those in their places.
  std::optional<AttachedPlaces> places_ ABSL_GUARDED_BY(mutex_);
  std::map<uint32_t, StreamRef> newcomers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_RANK_SERVICE_RANK_SERVICE_CORE_H_
