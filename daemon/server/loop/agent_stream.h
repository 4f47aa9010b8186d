// AgentStream: represents the one stream of an agent's connection until its
// last copy is destroyed. The reader of the stream adds one to it for each
// whole message; UnauthenticatedConnections creates and reads it, see there.
//
// Thread rule: any thread.
#ifndef ROLLCALL_DAEMON_SERVER_LOOP_AGENT_STREAM_H_
#define ROLLCALL_DAEMON_SERVER_LOOP_AGENT_STREAM_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace rollcall {

using AgentStream = std::shared_ptr<std::atomic<uint64_t>>;

// What an agent was admitted with.
struct AgentRight {
  // Id of the token that admitted its node; empty: an admin's, or unknown.
  std::string token;
  // It has a node credential of a live job, or an admin's token.
  bool returns = false;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_LOOP_AGENT_STREAM_H_
