// RankService: the agent's Unix socket, through which linked ranks get worlds
// and notices, exchange values, use the store, and report their progress.
//
// It knows only which ranks are connected and which of them wait for which key.
// The agent core decides what an exchange or the store needs from other nodes.
// The permissions of the socket's folder (0700) decide which users may connect.
// If ranks run as another user, the permissions of the socket itself do (owned
// by that user, 0600).
//
// Thread rule: call all functions from the agent's loop thread. `post` is also
// called from the socket's thread and must only post.
//
// For an agent that starts no ranks (--attach) it also records which process is
// in which place (attached_places.h). It then posts RankEnded and RanksGone, as
// Processes does for ranks that the agent starts.
//
// Invariants:
//   1. A local rank has at most one connection: a newer one ends the older one.
//      With --attach it has at most one that was given a world, and one that
//      waits.
//   2. An exchange that waits for a key gets its values, or ABORTED when its
//      generation ends. After the answer, or when its connection ends, it is
//      forgotten. The same is true of an operation on the store.
#ifndef ROLLCALL_CLIENT_AGENT_RANK_SERVICE_RANK_SERVICE_H_
#define ROLLCALL_CLIENT_AGENT_RANK_SERVICE_RANK_SERVICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/agent/core/agent_events.h"
#include "daemon/base/processes/system_user.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Names and values of variables for the environment of a rank.
using RankVariables = std::vector<std::pair<std::string, std::string>>;

class RankService {
 public:
  // Returns false if the event cannot be accepted now. The rank's connection or
  // its request then ends with UNAVAILABLE.
  using Post = std::function<bool(AgentEvent)>;

  // Listens on the Unix socket `path` (at most 107 bytes) for ranks of `user`;
  // null: this process's user. `attached`: the number of ranks that attach and
  // that this agent does not start; 0: the agent starts its ranks.
  // INVALID_ARGUMENT: the path is too long. UNAVAILABLE: listening failed.
  static absl::StatusOr<std::unique_ptr<RankService>> Start(
      const std::string& path, Post post, const SystemUser* user = nullptr,
      uint32_t attached = 0);

  // Ends all connections.
  ~RankService();

  // Sets the world for ranks that attend from now on. `waiting`: local ranks
  // that attend and wait for the world; they get it now. `network`: variables
  // of the network plan, for ranks that the agent did not start.
  void SetWorld(const v1::World& world, const v1::WorldCommit& world_commit,
                uint32_t node_rank, const std::vector<uint32_t>& waiting = {},
                const RankVariables& network = {});

  // Ends a generation for the ranks: ranks that wait for a key get ABORTED, and
  // all linked ranks are told to tear their communicator down.
  void EndWorld(uint64_t generation, v1::ReasonCode code,
                const std::string& reason);

  // Sends a notice to the ranks that attend the notice's world, now or later.
  void Tell(const v1::RankNotice& notice);

  // Asks a rank which collectives it has entered and left; RankIsHere is posted
  // if it answers. Returns the pid that the rank sent; 0: no such rank attends.
  int32_t AskWhere(uint64_t generation, uint32_t local_rank);

  // Asks for the end of these attached ranks. RanksGone is posted for each, but
  // perhaps never: see attached_places.h. Only with `attached`.
  void Stop(const std::vector<RankIncarnation>& ranks);

  // Ends exchanges and operations on the store that wait, of this generation or
  // an older one, with ABORTED.
  void FailRequests(uint64_t generation, const std::string& reason);

  void Answer(const v1::ExchangeOut& exchange);

  // Sends the result of a RankAsksStore to its rank.
  void Answer(const AnswerStore& answer);

 private:
  class Core;
  explicit RankService(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_RANK_SERVICE_RANK_SERVICE_H_
