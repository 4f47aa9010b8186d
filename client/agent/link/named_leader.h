// NamedLeader: the endpoints at which, by a standby daemon's word, the leader
// listens.
//
// Each endpoint is dialled once, first those that were given to the agent
// itself, because a daemon may have addresses that are unreachable from here.
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
  // Further addresses of one daemon are ignored.
  static constexpr size_t kEndpointsMax = 8;

  // `given`: endpoints that were known before. `loopback_only`: only loopback
  // addresses are dialled (no TLS).
  NamedLeader(std::vector<std::string> given, bool loopback_only)
      : given_(std::move(given)), loopback_only_(loopback_only) {}

  // Replaces the endpoints named before. Malformed endpoints are ignored.
  void Hear(const v1::Refusal& refusal);

  // The endpoint to dial next, each once; nullopt: none is left.
  std::optional<std::string> Next();

 private:
  const std::vector<std::string> given_;
  const bool loopback_only_;
  std::deque<std::string> endpoints_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_LINK_NAMED_LEADER_H_
