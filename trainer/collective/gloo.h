// GlooCollective: the collective of CPU ranks, by Gloo. It uses a ring of TCP
// connections between the addresses of the ranks' nodes. The ranks find each
// other through an Exchange.
//
// While it connects, Gloo listens on one port per neighbour and accepts any
// connection; like NCCL, it has no authentication. A dead peer is noticed when
// its connections break, a stopped peer after `timeout`, and an interruption at
// once.
//
// Thread rule: one thread at a time. Gloo's exceptions are caught here.
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
  // The address at which peers reach this node. It is never a name, because a
  // hosts file may map a name to loopback.
  std::string address;
  absl::Duration timeout = absl::Seconds(30);
  Exchange exchange;
  // The name of a rank in messages, for example "rank 2 on node-b".
  std::function<std::string(int rank)> name;
  // Ends blocked calls; may be null. Shared with the thread that raises it.
  std::shared_ptr<Interruption> interruption;
};

// Connects each rank with its neighbours. `size` is at least 2. UNAVAILABLE: a
// peer could not be reached. ABORTED: interrupted. Other errors are the
// exchange's own. Do not retry within a generation.
absl::StatusOr<std::unique_ptr<Collective>> ConnectGloo(GlooOptions options);

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_COLLECTIVE_GLOO_H_
