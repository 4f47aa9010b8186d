// RankService: the agent's Unix socket, through which linked ranks get their
// worlds and notices, exchange values, use the store, and report their
// progress.
//
// It knows who is connected and who waits for which key, and nothing else: what
// an exchange or the store needs from other nodes is decided by the agent core.
// The permissions of the socket's folder (0700) decide who may connect; if
// ranks run as another user, those of the socket itself (that user's, 0600).
//
// Thread rule: all functions from the agent's loop thread; `post` is called
// from the socket's thread too and must only post.
//
// For an agent that starts no ranks (--attach) it also keeps who is in which
// place (attached_places.h), and posts what a process watcher would: RankEnded
// and RanksGone.
//
// Invariants:
// A local rank has at most one connection: a newer one ends the older one. With
// --attach: at most one that was given a world, and one that waits.
// An exchange that waits for a key is answered with its values, or with ABORTED
// when its generation ends; then, or when its connection ends, it is forgotten.
// So is an operation on the store.
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
#include "daemon/base/system_user.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// Names and values, for the environment of a rank.
using RankVariables = std::vector<std::pair<std::string, std::string>>;

class RankService {
 public:
  // False: the event cannot be accepted now; the rank's connection, or its
  // exchange, ends with UNAVAILABLE.
  using Post = std::function<bool(AgentEvent)>;

  // Listens on the Unix socket `path` (at most 107 bytes), for `user`; null:
  // this process's user. `attached`: how many ranks attach that this agent does
  // not start; 0: its ranks are its own. INVALID_ARGUMENT: the path is longer.
  // UNAVAILABLE: listening failed.
  static absl::StatusOr<std::unique_ptr<RankService>> Start(
      const std::string& path, Post post, const SystemUser* user = nullptr,
      uint32_t attached = 0);

  // Ends all connections.
  ~RankService();

  // Sets the world for ranks that attend from now on. `waiting`: local ranks
  // that attend and wait for it; they get it now. `network`: variables of
  // the network plan, for ranks that the agent did not start.
  void SetWorld(const v1::World& world, const v1::WorldCommit& world_commit,
                uint32_t node_rank, const std::vector<uint32_t>& waiting = {},
                const RankVariables& network = {});

  // Ends a generation for the ranks: those that wait for a key get ABORTED, all
  // linked ones are told to tear down.
  void EndWorld(uint64_t generation, v1::ReasonCode code,
                const std::string& reason);

  // Sends a notice to the ranks that attend, now or later, in the notice's
  // world.
  void Tell(const v1::RankNotice& notice);

  // Asks a rank where it is; a RankIsHere follows if it answers. Returns the
  // pid that the rank gave; 0: no such rank attends.
  int32_t AskWhere(uint64_t generation, uint32_t local_rank);

  // The agent wants these attached ranks gone; RanksGone follows for each,
  // which may be never: see attached_places.h. Only with `attached`.
  void Stop(const std::vector<RankIncarnation>& ranks);

  // Exchanges and operations on the store that wait, of this generation or an
  // older one, get ABORTED.
  void FailRequests(uint64_t generation, const std::string& reason);

  void Answer(const v1::ExchangeOut& exchange);

  // The result of a RankAsksStore.
  void Answer(const AnswerStore& answer);

 private:
  class Core;
  explicit RankService(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_RANK_SERVICE_RANK_SERVICE_H_
