// Collective: what the ranks of one world compute together.
//
// Every rank must call the same functions in the same order with the same
// sizes. A function that fails leaves the communicator unusable, and what it
// was given half changed: the caller ends, or gets another world. ABORTED: the
// world is over (interruption.h); UNAVAILABLE: a peer is gone;
// DEADLINE_EXCEEDED: one stayed silent. The latter two name it as far as it is
// known.
//
// Thread rule: one thread at a time.
#ifndef ROLLCALL_TRAINER_COLLECTIVE_COLLECTIVE_H_
#define ROLLCALL_TRAINER_COLLECTIVE_COLLECTIVE_H_

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace rollcall {

enum class Reduction { kSum, kMax };

class Collective {
 public:
  virtual ~Collective() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Replaces `values` on every rank by their reduction over all ranks; the
  // result is the same to the bit everywhere.
  virtual absl::Status AllReduce(absl::Span<float> values,
                                 Reduction reduction) = 0;

  // Replaces `bytes` on every rank by those of rank `root`.
  virtual absl::Status Broadcast(absl::Span<char> bytes, int root) = 0;

  // All ranks have got everything that they wait for: none still needs another
  // one's connection. The last call.
  virtual absl::Status Finish() = 0;
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_COLLECTIVE_COLLECTIVE_H_
