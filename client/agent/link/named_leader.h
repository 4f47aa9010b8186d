// NamedLeader: where a daemon that stands by has said that the leader listens.
//
// Each of its endpoints is dialled once, those first that the agent was given
// itself: a daemon may have addresses that lead nowhere from here. What it says
// is a hint and no more: whoever answers there must be known in the same way as
// all others.
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
  // More addresses of one daemon are passed over.
  static constexpr size_t kEndpointsMax = 8;

  // `given`: endpoints that were known before. `loopback_only`: nothing else is
  // dialled (no TLS).
  NamedLeader(std::vector<std::string> given, bool loopback_only)
      : given_(std::move(given)), loopback_only_(loopback_only) {}

  // What it names takes the place of what was named before. Endpoints that
  // break the grammar are passed over.
  void Hear(const v1::Refusal& refusal);

  // The endpoint to dial next, each once; nothing: none is left.
  std::optional<std::string> Next();

 private:
  const std::vector<std::string> given_;
  const bool loopback_only_;
  std::deque<std::string> endpoints_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_LINK_NAMED_LEADER_H_
