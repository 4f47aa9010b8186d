// NamedLeader: the endpoints of the leader that a standby daemon named.
//
// Each endpoint is dialed once. Endpoints that the agent was given itself come
// first, because a daemon may have addresses that are unreachable from here.
// The endpoints are only a hint: the server there must prove its identity like
// any other.
//
// Pure; one thread.
#ifndef ROLLCALL_CLIENT_AGENT_LINK_NAMED_LEADER_H_
#define ROLLCALL_CLIENT_AGENT_LINK_NAMED_LEADER_H_

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class NamedLeader {
 public:
  // More addresses of one daemon are ignored.
  static constexpr size_t kEndpointsMax = 8;

  // `given`: the endpoints that the agent was given. `loopback_only`: only
  // loopback addresses are dialed (no TLS).
  NamedLeader(std::vector<std::string> given, bool loopback_only)
      : given_(std::move(given)), loopback_only_(loopback_only) {}

  // Takes the endpoints of a NOT_LEADER refusal in place of the earlier ones.
  // Malformed endpoints are ignored.
  void Hear(const v1::Refusal& refusal);

  // Returns the endpoint to dial next, each once; nullopt: none is left.
  std::optional<std::string> Next();

 private:
  const std::vector<std::string> given_;
  const bool loopback_only_;
  std::deque<std::string> endpoints_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_LINK_NAMED_LEADER_H_
