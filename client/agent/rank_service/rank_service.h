// RankService: the agent's Unix socket, where linked ranks get their worlds and
// notices, exchange values, and say where they stand.
//
// It holds who is connected and who waits for which key, and nothing else: what
// an exchange needs from other nodes is the agent core's business. Who may
// connect is decided by the folder of the socket (0700).
//
// Thread rule: all functions from the agent's loop thread; `post` is called
// from gRPC's threads and must only post.
//
// Invariants:
//   1. A local rank has at most one stream: a newer one ends the older.
//   2. A call that waits for a key ends with its values, with ABORTED when its
//      generation ends, or with its caller's deadline; it is then forgotten.
#ifndef ROLLCALL_CLIENT_AGENT_RANK_SERVICE_RANK_SERVICE_H_
#define ROLLCALL_CLIENT_AGENT_RANK_SERVICE_RANK_SERVICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/agent/core/agent.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class RankService {
 public:
  // False: it cannot be taken in now; the rank's call ends with UNAVAILABLE.
  using Post = std::function<bool(AgentEvent)>;

  // Listens on the Unix socket `path` (at most 107 bytes). INVALID_ARGUMENT: it
  // is longer. UNAVAILABLE: it cannot be listened on.
  static absl::StatusOr<std::unique_ptr<RankService>> Start(
      const std::string& path, Post post);

  // Ends all calls.
  ~RankService();

  // The world that ranks which attend from now on are told. `waiting`: local
  // ranks that attend and wait for it; they are told now.
  void SetWorld(const v1::World& world, const v1::Seal& seal,
                uint32_t node_rank, const std::vector<uint32_t>& waiting = {});

  // Ends a generation for the ranks: those that wait for a key get ABORTED,
  // those that attend are told to tear down.
  void EndWorld(uint64_t generation, v1::ReasonCode code,
                const std::string& reason);

  // For ranks that attend, or will, in the world that it is for.
  void Tell(const v1::RankNotice& notice);

  // Asks a rank where it is; a RankIsHere follows if it answers. The process
  // that it says it is; 0: none attends there.
  int32_t AskWhere(uint64_t generation, uint32_t local_rank);

  // Those that wait for a key of this generation or an older one get ABORTED.
  void FailExchanges(uint64_t generation, const std::string& reason);

  void Answer(const v1::ExchangeOut& exchange);

 private:
  class Core;
  explicit RankService(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_RANK_SERVICE_RANK_SERVICE_H_
