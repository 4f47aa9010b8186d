// RankService::Core: who is connected, and who waits for which key. Only for
// rank_service.cc (interface and exchanges), rank_store.cc (the store),
// rank_attend.cc (connections) and attached_ranks.cc (connections of processes
// that the agent did not start).
//
// Thread rule: any thread. Nothing is sent and no connection is ended while its
// lock is held.
#ifndef ROLLCALL_CLIENT_AGENT_RANK_SERVICE_RANK_SERVICE_CORE_H_
#define ROLLCALL_CLIENT_AGENT_RANK_SERVICE_RANK_SERVICE_CORE_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "client/agent/core/attached_places.h"
#include "client/agent/rank_service/rank_service.h"
#include "client/agent/rank_service/rank_socket.h"
#include "daemon/base/mutex.h"
#include "rollcall/v1/rank.pb.h"

namespace rollcall {

class RankService::Core {
 public:
  // `attached`: see RankService::Start.
  Core(Post post, uint32_t attached) : post_(std::move(post)) {
    if (attached > 0) places_.emplace(attached);
  }

  // One connection of a rank. All but the connection itself is guarded by the
  // core's lock.
  struct Stream {
    explicit Stream(RankConnectionRef connection)
        : connection(std::move(connection)) {}
    void Send(const v1::AgentReply& reply) { connection->Send(reply); }
    void End(const absl::Status& status) { connection->End(status); }

    // An exchange that waits for its answer.
    struct Waiter {
      uint64_t request;
      uint64_t generation;
      std::string value;
    };

    const RankConnectionRef connection;
    std::optional<uint32_t> local_rank;
    int32_t pid = 0;
    bool elastic = false;
    std::map<std::string, Waiter> waiters;  // By key.
    // Operations on the store under way: the ticket of each request.
    std::map<uint64_t, uint64_t> tickets;
  };
  // Shared, because a connection can end while another thread is about to send
  // on it.
  using StreamRef = std::shared_ptr<Stream>;

  // What the socket calls, on its own thread.
  void Came(const RankConnectionRef& connection);
  absl::Status Hear(RankConnection& connection, const v1::RankMessage& message);
  void Gone(RankConnection& connection);

  void SetWorld(const v1::World& world, const v1::WorldCommit& world_commit,
                uint32_t node_rank, const std::vector<uint32_t>& waiting,
                const RankVariables& network);
  void EndWorld(uint64_t generation, v1::ReasonCode code,
                const std::string& reason);
  void Tell(const v1::RankNotice& notice);
  int32_t AskWhere(uint64_t generation, uint32_t local_rank);
  void Stop(const std::vector<RankIncarnation>& ranks);
  void FailRequests(uint64_t generation, const std::string& reason);
  void Answer(const v1::ExchangeOut& exchange);
  void Answer(const AnswerStore& answer);

  // Set once, before any call. It is ended before the rest of this object.
  std::unique_ptr<RankSocket> socket;

 private:
  struct Open {
    v1::World world;
    v1::WorldCommit world_commit;
    uint32_t node_rank;
    RankVariables network;
    std::optional<v1::RankNotice> notice;
  };
  // An operation on the store: who waits for it.
  struct Asked {
    StreamRef stream;
    uint64_t request;
    uint64_t generation;
  };
  // An answer to an exchange, and to whom it goes.
  using Told = std::vector<std::pair<StreamRef, v1::AgentReply>>;

  // An exchange is answered; the answer of one that is not taken says why.
  void Exchange(const StreamRef& stream, const v1::RankExchange& asked);
  absl::Status Enter(const StreamRef& stream, const v1::RankExchange& asked,
                     std::optional<uint64_t>& replaced)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether this rank may ask for anything in this generation.
  absl::Status CheckPlace(const StreamRef& stream, uint64_t generation)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The same for an operation on the store.
  void Store(const StreamRef& stream, const v1::RankStore& asked);
  absl::Status EnterStore(const StreamRef& stream, const v1::RankStore& asked)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Cancel(const StreamRef& stream, uint64_t request);
  std::vector<uint64_t> TakeTickets(const StreamRef& stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FailStore(uint64_t generation, const std::string& reason);
  // Each of the other functions here returns a status that is not OK to end the
  // connection with it.
  absl::Status Greet(const StreamRef& stream, const v1::RankHello& hello);
  // With places_: the same for a process that the agent did not start.
  absl::Status GreetAttached(const StreamRef& stream,
                             const v1::RankHello& hello);
  // Nothing but a hello counts from a process that has no place.
  bool HasPlace(const StreamRef& stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What attached processes alone say, or mean by it.
  absl::Status NoteAttached(uint32_t local_rank,
                            const v1::RankMessage& message);
  absl::Status Pass(uint32_t local_rank, const v1::RankMessage& message);
  // The connection of an attached process has ended: what to post.
  std::vector<AgentEvent> LeavePlace(const StreamRef& stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Newcomers enter the world that was opened.
  std::vector<StreamRef> OpenPlaces() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  v1::AgentReply WorldFor(uint32_t local_rank)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint32_t RanksHere() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return open_ ? open_->world.members(open_->node_rank).ranks() : 0;
  }

  const Post post_;
  Mutex mutex_;
  std::optional<Open> open_ ABSL_GUARDED_BY(mutex_);
  // All connections, and by local rank those that have sent their hello.
  std::map<const RankConnection*, StreamRef> streams_ ABSL_GUARDED_BY(mutex_);
  std::map<uint32_t, StreamRef> ranks_ ABSL_GUARDED_BY(mutex_);
  // By ticket.
  std::map<uint64_t, Asked> store_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_ticket_ ABSL_GUARDED_BY(mutex_) = 0;
  // Only for an agent that starts no ranks: their places, and by local rank the
  // connections that wait for a world to enter; ranks_ has those in their
  // places.
  std::optional<AttachedPlaces> places_ ABSL_GUARDED_BY(mutex_);
  std::map<uint32_t, StreamRef> newcomers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_RANK_SERVICE_RANK_SERVICE_CORE_H_
