// GlooCollective: the ranks' CPU collective, round a ring of TCP connections
// between their nodes' addresses, by Gloo; the ranks find each other through an
// Exchange.
//
// Gloo listens on one port a neighbour while it connects, and trusts whoever
// connects: neither is authenticated, as with NCCL. A peer that dies is noticed
// when its connections break; one that is stopped, after `timeout`; an
// interruption, at once.
//
// Thread rule: one thread at a time. Gloo's exceptions end here.
#ifndef ROLLCALL_TRAINER_COLLECTIVE_GLOO_H_
#define ROLLCALL_TRAINER_COLLECTIVE_GLOO_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "trainer/collective/blob_exchange.h"
#include "trainer/collective/collective.h"
#include "trainer/collective/interruption.h"

namespace rollcall {

struct GlooOptions {
  int rank = 0;
  int size = 1;
  // This node's address as its peers reach it; never a name, which a hosts
  // file may turn into loopback.
  std::string address;
  absl::Duration timeout = absl::Seconds(30);
  Exchange exchange;
  // How a message names a rank, for example "rank 2 on node-b".
  std::function<std::string(int rank)> name;
  // Ends what waits; may be null. Shared with whoever raises it.
  std::shared_ptr<Interruption> interruption;
};

// Connects each rank with its neighbours. `size` is at least 2. UNAVAILABLE: a
// peer could not be reached; ABORTED: interrupted; else the exchange's own
// error. Not to be retried within a generation.
absl::StatusOr<std::unique_ptr<Collective>> ConnectGloo(GlooOptions options);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_COLLECTIVE_GLOO_H_
