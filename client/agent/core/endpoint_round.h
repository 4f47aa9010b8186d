// EndpointRound: which of a daemon's endpoints is dialed next, and whether all
// of them belong to other services.
//
// A join string may name several addresses of one daemon, and on another
// network one of them may belong to another server. A failed endpoint is dialed
// again in the next round. The agent gives up only when every endpoint was
// tried and at least one was answered by another server. Once the daemon has
// welcomed the agent, the agent no longer gives up: another server may use the
// daemon's port for a time.
//
// Pure; one thread.
#ifndef ROLLCALL_CLIENT_AGENT_CORE_ENDPOINT_ROUND_H_
#define ROLLCALL_CLIENT_AGENT_CORE_ENDPOINT_ROUND_H_

#include <cstddef>
#include <vector>

#include "absl/time/time.h"

namespace rollcall {

class EndpointRound {
 public:
  explicit EndpointRound(size_t endpoints) : found_(endpoints) {}

  // The index of the endpoint to dial; 0 if there is none.
  size_t Next();
  // The attempt that Next returned last has failed. `other_daemon`: the server
  // that answered is not the daemon. Returns true if the agent should give up.
  bool Failed(bool other_daemon);
  void Welcomed() { welcomed_ = true; }
  // How long the latest attempt may take to connect: 3 s in the first round, so
  // that an unreachable address does not delay the others; then twice as long
  // each round, up to 20 s, because thousands of nodes may do the TLS handshake
  // at once.
  absl::Duration patience() const;

 private:
  enum class Found { kUntried, kNobody, kOtherDaemon };

  std::vector<Found> found_;
  size_t next_ = 0;
  size_t last_ = 0;
  bool welcomed_ = false;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_ENDPOINT_ROUND_H_
