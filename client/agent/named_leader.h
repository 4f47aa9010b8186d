// NamedLeader: where a daemon that stands by has said that the leader listens.
//
// It is dialled next, each of its endpoints once, before the agent goes on with
// those that it was given. What it says is a hint and no more: whoever answers
// there must be known in the same way as all others.
//
// Pure; one thread.
#ifndef ROLLCALL_CLIENT_AGENT_NAMED_LEADER_H_
#define ROLLCALL_CLIENT_AGENT_NAMED_LEADER_H_

#include <cstddef>
#include <deque>
#include <optional>
#include <string>

#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class NamedLeader {
 public:
  // More addresses of one daemon are passed over.
  static constexpr size_t kEndpointsMax = 8;

  // `loopback_only`: nothing else is dialled (no TLS).
  explicit NamedLeader(bool loopback_only) : loopback_only_(loopback_only) {}

  // What it names takes the place of what was named before. Endpoints that
  // break the grammar are passed over.
  void Hear(const v1::Refusal& refusal);

  // The endpoint to dial next, each once; nothing: none is left.
  std::optional<std::string> Next();

 private:
  const bool loopback_only_;
  std::deque<std::string> endpoints_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_NAMED_LEADER_H_
