// EndpointRound: which of a daemon's endpoints is dialled next, and whether all
// of them have turned out to be somebody else's.
//
// A join string may name several addresses of one daemon, and on another
// network one of them may belong to a stranger: that one is passed over. Only
// when each has been tried, and a stranger was among them, is there nobody to
// wait for. Once the daemon has let us in, a stranger at its address (who took
// a port that became free) is waited out.
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

  // The index of the endpoint to dial; 0 where there is none at all.
  size_t Next();
  // The attempt that Next named last has failed; `stranger`: somebody answered
  // who is not the daemon. True: that was the last hope.
  bool Failed(bool stranger);
  void Welcomed() { welcomed_ = true; }
  // How long the attempt that Next named last may take to connect: 3 s in the
  // first round, so that an address that leads nowhere does not hold up the
  // others, then twice as long each round, up to 20 s, since thousands of nodes
  // may shake hands at once.
  absl::Duration patience() const;

 private:
  enum class Found { kUntried, kNobody, kStranger };

  std::vector<Found> found_;
  size_t next_ = 0;
  size_t last_ = 0;
  bool welcomed_ = false;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_CORE_ENDPOINT_ROUND_H_
