// DaemonLink: connects the agent to its daemon over all endpoints. Each Dial
// opens a new stream to the next endpoint, or to a leader that a standby daemon
// named.
//
// Thread rule: call all functions from the agent's loop thread. gRPC's threads
// post events to the inbox.
#ifndef ROLLCALL_CLIENT_AGENT_LINK_DAEMON_LINK_H_
#define ROLLCALL_CLIENT_AGENT_LINK_DAEMON_LINK_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/agent/core/agent_events.h"
#include "client/agent/core/endpoint_round.h"
#include "client/agent/link/daemon_stream.h"
#include "client/agent/link/named_leader.h"
#include "daemon/base/inbox.h"
#include "daemon/security/trust.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

// An event of the agent, and the number of the dial to whose stream it belongs;
// 0: it belongs to no stream.
struct LinkEvent {
  uint64_t dial = 0;
  AgentEvent event;
};

class DaemonLink {
 public:
  // `inbox` outlives this object. `endpoints`, HOST:PORT each, may be empty:
  // every dial then fails.
  DaemonLink(std::vector<std::string> endpoints, Trust trust,
             Inbox<LinkEvent>& inbox);

  // Ends the previous stream and opens a new one. Posts StreamUp at once,
  // because messages may be sent before the connection is up, and later
  // StreamDown.
  void Dial();

  // Returns whether to handle this event: false if it is a late event of an
  // older stream. Also notes whether the endpoint belongs to the daemon. Call
  // it for each event from the inbox, in order.
  bool Take(LinkEvent& in);

  bool is_up() const { return stream_ != nullptr; }
  // Queues a message. Requires is_up().
  void Send(v1::AgentMessage message);
  // Sends the queued messages and waits at most `patience` for the stream's
  // end.
  void Close(absl::Duration patience);

 private:
  void PostDown(uint64_t dial, StreamDown down);

  const std::vector<std::string> endpoints_;
  const Trust trust_;
  Inbox<LinkEvent>& inbox_;
  EndpointRound round_;
  NamedLeader leader_;
  // The latest dial was to an endpoint that leader_ named.
  bool to_leader_ = false;
  uint64_t dial_ = 0;
  std::unique_ptr<DaemonStream> stream_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_LINK_DAEMON_LINK_H_
