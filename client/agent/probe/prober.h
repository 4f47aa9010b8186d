// Prober: tries to reach the addresses of other nodes, and answers their
// probes.
//
// The prober listens on its own port on all addresses. Another prober connects,
// sends the 8 bytes "rollcall" and the 16 bytes `ask` of the round, and gets
// the 16 bytes with which this node answers at the address where the connection
// arrived. Other callers get no answer. The prober decides nothing: its results
// go to the daemon.
//
// Thread rule: Run may be called from any thread. `begins` and `done` are
// called on the prober's own thread; `done` must only post.
#ifndef ROLLCALL_CLIENT_AGENT_PROBE_PROBER_H_
#define ROLLCALL_CLIENT_AGENT_PROBE_PROBER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/files/fd.h"
#include "daemon/base/mutex.h"
#include "rollcall/v1/membership.pb.h"

namespace rollcall {

class Prober {
 public:
  using Done = std::function<void(v1::Probed)>;

  // Limits on connections at once, in each direction: enough for a round of all
  // pairs. If there are too many incoming connections, the oldest one of the
  // address with the most connections is closed.
  static constexpr size_t kDialsMax = 512;
  static constexpr size_t kCallersMax = 512;

  // `begins`: called before each round; it may block.
  // UNAVAILABLE: no port is available; the message has the system's error.
  static absl::StatusOr<std::unique_ptr<Prober>> Start(
      std::function<void()> begins, Done done);
  ~Prober();

  uint32_t port() const { return port_; }

  // Answers to `probe.ask` from now on, and reports on its targets within
  // `probe.timeout`. If an earlier round has not ended, it is dropped without a
  // report.
  void Run(v1::Probe probe);

 private:
  // A connection to one address of one target.
  struct Dial {
    std::string node;
    std::string address;
    uint32_t port = 0;
    Fd fd;
    absl::Time since;
    bool connected = false;
    absl::Duration took;  // The time to connect.
    std::string heard;
  };
  // A connection from another prober.
  struct Caller {
    Fd fd;
    absl::Time until;
    std::string from;  // Its address, without the port.
    std::string heard;
  };

  Prober(Fd listening, uint32_t port, std::function<void()> begins, Done done);

  void Loop();
  void Begin(v1::Probe probe);
  void FillDials();
  // Returns whether the dial is over; its result is then in `probed_`. If no
  // descriptor is left and another dial will free one, returns false without a
  // socket, and the dial keeps waiting.
  bool Open(Dial& dial);
  bool Advance(Dial& dial);
  void Finish(const Dial& dial, const std::string& answer,
              const std::string& error);
  void EndRound();
  bool Accept();
  void CloseCallerOfBusiest();
  std::list<Caller>::iterator Close(std::list<Caller>::iterator caller);
  // Reads from the caller. Returns whether the caller can be closed.
  bool Hear(Caller& caller);
  bool Answer(const Caller& caller) const;
  absl::Duration UntilNext(absl::Time now) const;
  void Expire(absl::Time now);

  const std::function<void()> begins_;
  const Done done_;
  const Fd listening_;
  const uint32_t port_;
  const Fd wake_;
  Mutex mutex_;
  std::optional<v1::Probe> next_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;

  // Used by the prober's thread only.
  v1::Probe probe_;
  bool open_ = false;  // The report of the round is not sent yet.
  absl::Time until_;
  v1::Probed probed_;
  std::list<Dial> waiting_;
  std::list<Dial> dials_;
  std::list<Caller> callers_;
  std::map<std::string, size_t> callers_from_;  // Callers per address.
  bool accept_paused_ = false;  // No descriptor is left to accept with.
  std::thread thread_;
};

}  // namespace rollcall

#endif  // ROLLCALL_CLIENT_AGENT_PROBE_PROBER_H_
