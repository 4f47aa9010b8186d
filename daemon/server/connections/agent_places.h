// AgentPlaces: which connections are agents', which of them have a stream, and
// which one is disconnected to make room for another agent when all places are
// taken (it gives way).
//
// Of the connections without a stream, the one that expires first gives way. If
// all have a stream, a connection of the token with the most connections gives
// way. To an agent that returns, it always does so; to any other agent, only if
// the agent has another token and that token has more than half of all places.
// Of that token's connections, those that were admitted by the token itself
// give way first, the newest one before the others; then those that returned,
// the oldest one before the others. Connections without a token id are an
// admin's, or their token is unknown; while they have a stream they never give
// way.
//
// Pure: it decides, and UnauthenticatedConnections disconnects. Thread rule:
// one thread at a time.
#ifndef ROLLCALL_DAEMON_SERVER_CONNECTIONS_AGENT_PLACES_H_
#define ROLLCALL_DAEMON_SERVER_CONNECTIONS_AGENT_PLACES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/time/time.h"
#include "daemon/server/loop/streams/agent_stream.h"

namespace rollcall {

class AgentPlaces {
 public:
  // Grows with each connection.
  using Id = uint64_t;

  explicit AgentPlaces(size_t places) : places_(places) {}

  bool IsFull() const { return agents_.size() >= places_; }
  // The connection that has to go so that one more agent may attend when all
  // places are taken; nullopt: none gives way to that agent.
  std::optional<Id> GivesWayTo(const AgentRight& right) const;

  // The connection has a stream now. Returns false if it had one already.
  bool Attend(Id id, const AgentRight& right);
  // The connection keeps its place until `expires`, unless it attends again.
  void StreamEnded(Id id, absl::Time expires);
  void Remove(Id id);

  size_t size() const { return agents_.size(); }
  // The connection without a stream that expires first; nullopt: all
  // connections have a stream.
  std::optional<std::pair<absl::Time, Id>> NextExpiry() const;

 private:
  struct Agent {
    AgentRight right;
    // If set, the connection has no stream and is removed at this time.
    std::optional<absl::Time> expires;
  };
  // The connections of agents that one token has admitted.
  struct Share {
    std::set<Id> came;      // Admitted by the token itself.
    std::set<Id> returned;  // Admitted by a node credential.
    size_t size() const { return came.size() + returned.size(); }
  };
  void LeaveShare(Id id, const Agent& agent);

  const size_t places_;
  std::unordered_map<Id, Agent> agents_;
  // The connections with a stream, by token id.
  std::map<std::string, Share> shares_;
  // The connections without a stream.
  std::set<std::pair<absl::Time, Id>> idle_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_CONNECTIONS_AGENT_PLACES_H_
