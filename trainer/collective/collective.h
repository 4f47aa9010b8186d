// Collective: what the ranks of one world compute together.
//
// Every rank must call the same functions in the same order with the same
// sizes. A function that fails leaves the communicator unusable, and what it
// was given half changed: the caller ends, or gets another world. ABORTED: the
// world is over (interruption.h); UNAVAILABLE: a peer is gone;
// DEADLINE_EXCEEDED: one stayed silent. The latter two name it as far as it is
// known.
//
// Memory is the host's; a collective of a device takes that device's as well.
//
// Thread rule: one thread at a time.
#ifndef ROLLCALL_TRAINER_COLLECTIVE_COLLECTIVE_H_
#define ROLLCALL_TRAINER_COLLECTIVE_COLLECTIVE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace rollcall {

enum class Reduction { kSum, kMax };

// Which collective this rank has entered and left last, by their numbers in
// this world (1, 2, ...): equal on all ranks that are equally far. Told to
// whoever looks for the one that stalls.
struct CollectiveSeen {
  uint64_t entered = 0;
  uint64_t left = 0;
};

class Collective {
 public:
  virtual ~Collective() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Replaces `values` on every rank by their reduction over all ranks; the
  // result is the same to the bit everywhere.
  virtual absl::Status AllReduce(absl::Span<float> values,
                                 Reduction reduction) = 0;

  // Begins a sum of that kind and returns; `values` must stay, untouched, until
  // Wait. Those that were begun are carried out in their order, before any
  // other function's work.
  virtual absl::Status BeginSum(absl::Span<float> values) = 0;
  // Waits for all that were begun (a device's: until its stream may go on).
  virtual absl::Status Wait() = 0;

  // Replaces `bytes` on every rank by those of rank `root`.
  virtual absl::Status Broadcast(absl::Span<char> bytes, int root) = 0;

  // `all` holds size() pieces of mine.size(), by rank, on every rank.
  virtual absl::Status AllGather(absl::Span<const char> mine,
                                 absl::Span<char> all) = 0;
  // `all` holds size() pieces of mine.size(): `mine` becomes the sum of the
  // piece of this rank over all ranks. `all` may be used as room.
  virtual absl::Status ReduceScatter(absl::Span<float> all,
                                     absl::Span<float> mine) = 0;
  // Sends `out` to the next rank and receives `in` from the one before, at
  // once; the last one's next is rank 0. Either may be empty, where it is at
  // the other end.
  virtual absl::Status SendReceive(absl::Span<const char> out,
                                   absl::Span<char> in) = 0;
  // The other way round: `out` to the rank before, `in` from the next one.
  // UNIMPLEMENTED: this kind of collective has no way back; it stays usable.
  virtual absl::Status SendReceiveBack(absl::Span<const char> out,
                                       absl::Span<char> in) {
    (void)out, (void)in;
    return absl::UnimplementedError(transport() +
                                    " has no way back to the rank before");
  }

  // Over what its bytes really go, for a person: "Socket", "IB", "single".
  virtual std::string transport() const = 0;

  // Any thread.
  virtual CollectiveSeen seen() const = 0;

  // All ranks have got everything that they wait for: none still needs another
  // one's connection. The last call.
  virtual absl::Status Finish() = 0;
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_COLLECTIVE_COLLECTIVE_H_
