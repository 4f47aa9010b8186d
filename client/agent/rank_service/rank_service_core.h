// RankService::Core: which ranks are connected, and which of them wait for
// which key. Only for rank_service.cc (interface and exchanges), rank_store.cc
// (the store), rank_attend.cc (connections) and attached_ranks.cc (connections
// of processes that the agent did not start).
//
// Thread rule: any thread. No message is sent and no connection is ended while
// the core's lock is held.
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

  // One connection of a rank. The core's lock guards everything in it but the
  // connection itself.
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
    // Operations on the store without an answer: the ticket of each request.
    std::map<uint64_t, uint64_t> tickets;
  };
  // Shared, because a connection can end while another thread is about to send
  // on it.
  using StreamRef = std::shared_ptr<Stream>;

  // The socket calls these on its own thread.
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

  // Set once, before any call. Destroyed before the rest of this object.
  std::unique_ptr<RankSocket> socket;

 private:
  struct Open {
    v1::World world;
    v1::WorldCommit world_commit;
    uint32_t node_rank;
    RankVariables network;
    std::optional<v1::RankNotice> notice;
  };
  // An operation on the store that waits, and the connection that asked for it.
  struct Asked {
    StreamRef stream;
    uint64_t request;
    uint64_t generation;
  };
  // Answers, each with the connection to which it is sent.
  using Told = std::vector<std::pair<StreamRef, v1::AgentReply>>;

  // Passes on an exchange. A refused exchange is answered with the reason.
  void Exchange(const StreamRef& stream, const v1::RankExchange& asked);
  absl::Status Enter(const StreamRef& stream, const v1::RankExchange& asked,
                     std::optional<uint64_t>& replaced)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Checks that this rank may send requests in this generation.
  absl::Status CheckPlace(const StreamRef& stream, uint64_t generation)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Does the same as Exchange for an operation on the store.
  void Store(const StreamRef& stream, const v1::RankStore& asked);
  absl::Status EnterStore(const StreamRef& stream, const v1::RankStore& asked)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Cancel(const StreamRef& stream, uint64_t request);
  std::vector<uint64_t> TakeTickets(const StreamRef& stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FailStore(uint64_t generation, const std::string& reason);
  // If one of the functions below returns a status that is not OK, the
  // connection is ended with this status.
  absl::Status Greet(const StreamRef& stream, const v1::RankHello& hello);
  // Greet for a process that the agent did not start (with places_).
  absl::Status GreetAttached(const StreamRef& stream,
                             const v1::RankHello& hello);
  // Whether an attached process is in its place. From a process that is not,
  // only the hello counts.
  bool HasPlace(const StreamRef& stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Handles the messages that only attached processes send (`finished`) or that
  // need more handling from them (`stopped`).
  absl::Status NoteAttached(uint32_t local_rank,
                            const v1::RankMessage& message);
  absl::Status Pass(uint32_t local_rank, const v1::RankMessage& message);
  // The connection of an attached process has ended. Returns what to post.
  std::vector<AgentEvent> LeavePlace(const StreamRef& stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Lets newcomers enter the world that was opened, and returns them.
  std::vector<StreamRef> OpenPlaces() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  v1::AgentReply WorldFor(uint32_t local_rank)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint32_t RanksHere() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return open_ ? open_->world.members(open_->node_rank).ranks() : 0;
  }

  const Post post_;
  Mutex mutex_;
  std::optional<Open> open_ ABSL_GUARDED_BY(mutex_);
  // streams_: all connections. ranks_: those that have sent their hello, by
  // local rank.
  std::map<const RankConnection*, StreamRef> streams_ ABSL_GUARDED_BY(mutex_);
  std::map<uint32_t, StreamRef> ranks_ ABSL_GUARDED_BY(mutex_);
  // By ticket.
  std::map<uint64_t, Asked> store_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_ticket_ ABSL_GUARDED_BY(mutex_) = 0;
  // Only for an agent that starts no ranks: their places, and by local rank the
  // connections that wait to enter a world. ranks_ then has the connections
  // that are in their places.
  std::optional<AttachedPlaces> places_ ABSL_GUARDED_BY(mutex_);
  std::map<uint32_t, StreamRef> newcomers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_RANK_SERVICE_RANK_SERVICE_CORE_H_
