// AgentStream: represents the one stream of an agent's connection. The stream
// counts as ended when the last copy is destroyed. The value is the number of
// complete messages; the loop increases it. UnauthenticatedConnections creates
// and reads it, see there.
//
// Thread rule: any thread.
#ifndef ROLLCALL_DAEMON_SERVER_LOOP_STREAMS_AGENT_STREAM_H_
#define ROLLCALL_DAEMON_SERVER_LOOP_STREAMS_AGENT_STREAM_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace rollcall {

using AgentStream = std::shared_ptr<std::atomic<uint64_t>>;

// What an agent was admitted with.
struct AgentRight {
  // Id of the token that admitted the agent's node; empty: an admin's token, or
  // unknown.
  std::string token;
  // The agent has a node credential of a live job, or an admin's token.
  bool returns = false;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_LOOP_STREAMS_AGENT_STREAM_H_
