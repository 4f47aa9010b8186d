// Collective: communication among the ranks of one world.
//
// Every rank must call the same functions in the same order with the same
// sizes. After a failure the communicator is unusable and the buffers may be
// partly changed, so the caller must exit or enter another world. ABORTED: the
// world is over (interruption.h). UNAVAILABLE: a peer is gone.
// DEADLINE_EXCEEDED: a peer has sent nothing within the timeout. The latter two
// name the peer if it is known.
//
// Buffers are in host memory; a device's collective also takes that device's
// memory.
//
// Thread rule: one thread at a time.
#ifndef ROLLCALL_TRAINER_COLLECTIVE_COLLECTIVE_H_
#define ROLLCALL_TRAINER_COLLECTIVE_COLLECTIVE_H_

#include <cstdint>
#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace rollcall {

enum class Reduction { kSum, kMax };

// The numbers (1, 2, ...) of the collectives of this world that this rank has
// entered and left last. A collective has the same number on all ranks, so the
// numbers show which rank stalls.
struct CollectiveSeen {
  uint64_t entered = 0;
  uint64_t left = 0;
};

class Collective {
 public:
  virtual ~Collective() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // How messages name a rank: "rank 2 on node-b".
  virtual std::string NameOf(int which) const {
    return "rank " + std::to_string(which);
  }

  // Replaces `values` on every rank by their reduction over all ranks. All
  // ranks get bitwise equal results.
  virtual absl::Status AllReduce(absl::Span<float> values,
                                 Reduction reduction) = 0;

  // Begins a sum over all ranks and returns. `values` must not be used until
  // Wait returns. Sums run in the order in which they were begun, before the
  // work of any later call.
  virtual absl::Status BeginSum(absl::Span<float> values) = 0;
  // Waits for all sums that were begun. On a device, later work in the model's
  // stream also runs after them.
  virtual absl::Status Wait() = 0;

  // Replaces `bytes` on every rank by those of rank `root`.
  virtual absl::Status Broadcast(absl::Span<char> bytes, int root) = 0;

  // Every rank gives `mine`. `all` receives the pieces of all ranks, by rank;
  // it has size() pieces of mine.size() bytes.
  virtual absl::Status AllGather(absl::Span<const char> mine,
                                 absl::Span<char> all) = 0;
  // `all` holds size() pieces of mine.size() values. `mine` becomes the sum
  // over all ranks of this rank's piece. `all` may be overwritten.
  virtual absl::Status ReduceScatter(absl::Span<float> all,
                                     absl::Span<float> mine) = 0;
  // Sends `out` to the next rank and receives `in` from the previous rank, at
  // the same time. Rank 0 follows the last rank. A buffer may be empty if the
  // other side's buffer is empty too.
  virtual absl::Status SendReceive(absl::Span<const char> out,
                                   absl::Span<char> in) = 0;
  // Does the same in the other direction: sends `out` to the previous rank and
  // receives `in` from the next. UNIMPLEMENTED: this collective cannot send
  // backward; it stays usable.
  virtual absl::Status SendReceiveBack(absl::Span<const char> out,
                                       absl::Span<char> in) {
    (void)out, (void)in;
    return absl::UnimplementedError(transport() +
                                    " cannot send to the previous rank");
  }

  // The transport that carries the bytes, as a text for users: "Socket", "IB",
  // "single".
  virtual std::string transport() const = 0;

  // May be called from any thread.
  virtual CollectiveSeen seen() const = 0;

  // Must be the last call. When it returns, every rank has received everything
  // it waits for, so no rank still needs another rank's connection.
  virtual absl::Status Finish() = 0;
};

// The memory of plain values, as a collective moves it.
template <typename T>
absl::Span<char> BytesOf(absl::Span<T> values) {
  static_assert(std::is_trivially_copyable_v<T>);
  return {reinterpret_cast<char*>(values.data()), values.size() * sizeof(T)};
}

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_COLLECTIVE_COLLECTIVE_H_
