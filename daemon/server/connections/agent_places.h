// AgentPlaces: which connections are agents', which of them have a stream, and
// which one gives way to another agent when all places are taken.
//
// A connection without a stream gives way first, the one that expires first. If
// all have a stream, one of the token with the most connections gives way: for
// an agent that returns always; for any other agent only if that is another
// token with more than half of all places. Of that token's connections, the
// newest of those that came by the token goes first, then the oldest of those
// that returned. Connections without a token id, which are an admin's, never
// give way.
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
#include "daemon/server/loop/agent_stream.h"

namespace rollcall {

class AgentPlaces {
 public:
  // Grows with each connection.
  using Id = uint64_t;

  explicit AgentPlaces(size_t places) : places_(places) {}

  bool IsFull() const { return agents_.size() >= places_; }
  // The connection that has to go so that one more agent may attend, if all
  // places are taken; nullopt: none has to give way to it.
  std::optional<Id> GivesWayTo(const AgentRight& right) const;

  // The connection has a stream now. False: it had one already.
  bool Attend(Id id, const AgentRight& right);
  // The connection keeps its place until `expires`, unless it attends again.
  void StreamEnded(Id id, absl::Time expires);
  void Remove(Id id);

  size_t size() const { return agents_.size(); }
  // The connection without a stream that expires first; nullopt: all have one.
  std::optional<std::pair<absl::Time, Id>> NextExpiry() const;

 private:
  struct Agent {
    AgentRight right;
    // It has no stream, and goes at this time.
    std::optional<absl::Time> expires;
  };
  // The connections of agents that one token has admitted.
  struct Share {
    std::set<Id> came;      // By the token itself.
    std::set<Id> returned;  // By a node credential.
    size_t size() const { return came.size() + returned.size(); }
  };
  void LeaveShare(Id id, const Agent& agent);

  const size_t places_;
  std::unordered_map<Id, Agent> agents_;
  // Those with a stream, by token id.
  std::map<std::string, Share> shares_;
  // Those without.
  std::set<std::pair<absl::Time, Id>> idle_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_CONNECTIONS_AGENT_PLACES_H_
