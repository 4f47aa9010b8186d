// GlooRing: a rank's connections to its two neighbours on the ring of all
// ranks, by Gloo, and waits on them that another thread can end.
//
// Gloo's own collectives cannot be woken: closing connections leaves a waiter
// where it is. Here every wait is on a buffer that is known, so that Interrupt
// reaches it; while connecting, closing the connections does.
//
// Thread rule: Interrupt from any thread; all else from one. Gloo's exceptions
// end here.
#ifndef ROLLCALL_TRAINER_COLLECTIVE_GLOO_RING_H_
#define ROLLCALL_TRAINER_COLLECTIVE_GLOO_RING_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "daemon/server/mutex.h"
#include "trainer/collective/gloo.h"

namespace gloo::transport {
class Context;
class Device;
class UnboundBuffer;
}  // namespace gloo::transport

namespace rollcall {

class GlooRing {
 public:
  // Shared with whoever may interrupt it. `options.size` is at least 2.
  static std::shared_ptr<GlooRing> Make(const GlooOptions& options);
  ~GlooRing();

  // Finds the neighbours by the exchange and connects. Errors: see ConnectGloo.
  absl::Status Connect();

  // Sends `out` to the right and receives `in` from the left, at once; either
  // may be empty, on both sides. Errors: see Collective; then no more is to be
  // passed.
  absl::Status Pass(absl::Span<const char> out, absl::Span<char> in);
  // The same to the left, from the right.
  absl::Status PassBack(absl::Span<const char> out, absl::Span<char> in);

  // Ends what waits here, now and from now on, with ABORTED.
  void Interrupt();

 private:
  using Buffer = std::shared_ptr<gloo::transport::UnboundBuffer>;

  // One way round. Its messages' tags, told from the other way's, which may
  // go over the same connection.
  struct Way {
    int to, from;
    uint64_t tags;
    uint64_t sent = 0, received = 0;  // Each is the other side's counterpart.
  };

  explicit GlooRing(const GlooOptions& options);
  absl::Status PassOn(Way& way, absl::Span<const char> out,
                      absl::Span<char> in);
  int left() const {
    return (options_.rank + options_.size - 1) % options_.size;
  }
  int right() const { return (options_.rank + 1) % options_.size; }
  // What the neighbours' connections are reached by, or why they are not known.
  absl::Status Meet(std::vector<char>* to_left, std::vector<char>* to_right);
  // Makes the waits on these ones that Interrupt ends.
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
  // While connecting; those that are passed afterwards.
  bool connecting_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Buffer> held_ ABSL_GUARDED_BY(mutex_);
  // How many are at waking those, and the word that one is done.
  int waking_ ABSL_GUARDED_BY(mutex_) = 0;
  CondVar woken_;
};

}  // namespace rollcall

#endif  // ROLLCALL_TRAINER_COLLECTIVE_GLOO_RING_H_
