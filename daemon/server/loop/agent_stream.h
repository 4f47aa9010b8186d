// AgentStream: stands for the one stream of an agent's connection, until the
// last copy is gone. Whoever takes a whole message from the stream adds one to
// it; see Guests, which makes it and reads it.
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

// By what an agent is let in.
struct AgentRight {
  // Id of the token that admitted its node; empty: an admin's, or not known.
  std::string token;
  // It has a node credential of a live job, or an admin's token.
  bool returns = false;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_LOOP_AGENT_STREAM_H_
