// GlooRing: a rank's connections, by Gloo, to its two neighbours on the ring of
// all ranks. Another thread can end its waits.
//
// Gloo's own collectives cannot be woken, because closing the connections does
// not wake a waiter. Here every wait is on a known buffer, so that Interrupt
// can wake it. While the ring connects, Interrupt closes the connections, which
// does end that wait.
//
// Thread rule: Interrupt may be called from any thread, everything else from
// one thread. Gloo's exceptions are caught here.
#ifndef ROLLCALL_TRAINER_COLLECTIVE_GLOO_RING_H_
#define ROLLCALL_TRAINER_COLLECTIVE_GLOO_RING_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "daemon/base/mutex.h"
#include "trainer/collective/gloo.h"

namespace gloo::transport {
class Context;
class Device;
class UnboundBuffer;
}  // namespace gloo::transport

namespace rollcall {

class GlooRing {
 public:
  // The ring is shared with the thread that may interrupt it. `options.size` is
  // at least 2.
  static std::shared_ptr<GlooRing> Make(const GlooOptions& options);
  ~GlooRing();

  // Finds the neighbours through the exchange and connects. Errors: see
  // ConnectGloo.
  absl::Status Connect();

  // Sends `out` to the right and receives `in` from the left, at the same time.
  // A buffer may be empty if the other side's buffer is empty too. For errors
  // see Collective; after an error, do not call it again.
  absl::Status Pass(absl::Span<const char> out, absl::Span<char> in);
  // Does the same in the other direction: sends to the left, receives from the
  // right.
  absl::Status PassBack(absl::Span<const char> out, absl::Span<char> in);

  // Makes blocked and later calls fail with ABORTED.
  void Interrupt();

 private:
  using Buffer = std::shared_ptr<gloo::transport::UnboundBuffer>;

  // One direction of the ring. Each count equals its counterpart on the other
  // side. Each direction has its own tags, because both may use the same
  // connection.
  struct Way {
    int to, from;
    uint64_t tags;
    uint64_t sent = 0, received = 0;
  };

  explicit GlooRing(const GlooOptions& options);
  absl::Status PassOn(Way& way, absl::Span<const char> out,
                      absl::Span<char> in);
  int left() const {
    return (options_.rank + options_.size - 1) % options_.size;
  }
  int right() const { return (options_.rank + 1) % options_.size; }
  // Exchanges the addresses for the neighbours' connections.
  absl::Status ExchangeAddresses(std::vector<char>* to_left,
                                 std::vector<char>* to_right);
  // Registers the buffers whose waits Interrupt must end.
  absl::Status Hold(const std::vector<Buffer>& buffers);
  absl::Status Interrupted() const;
  absl::Status Failure(absl::string_view what);
  std::vector<std::string> GonePeers();

  const GlooOptions options_;
  std::shared_ptr<gloo::transport::Device> device_;
  std::shared_ptr<gloo::transport::Context> context_;
  Way onward_, back_;

  mutable Mutex mutex_;
  bool interrupted_ ABSL_GUARDED_BY(mutex_) = false;
  // True while the ring connects; after that, `held_` has the buffers in use.
  bool connecting_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Buffer> held_ ABSL_GUARDED_BY(mutex_);
  // The number of threads that wake those buffers, and the condition that one
  // of them is done.
  int waking_ ABSL_GUARDED_BY(mutex_) = 0;
  CondVar woken_;
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_COLLECTIVE_GLOO_RING_H_
