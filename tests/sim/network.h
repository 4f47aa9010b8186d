// Network: the streams between agents and their daemons, with the behaviour of
// TCP.
//
// Within one stream and one way, messages keep their order; between streams,
// any order is possible. A way that is cut keeps what is sent and delivers it
// after it is mended: both sides think that they are connected until one of
// them gives up. What is sent to a closed end is answered with a reset. The
// network knows nothing of what the messages mean.
#ifndef ROLLCALL_TESTS_SIM_NETWORK_H_
#define ROLLCALL_TESTS_SIM_NETWORK_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "rollcall/v1/membership.pb.h"
#include "tests/sim/world.h"

namespace rollcall::sim {

using StreamId = uint64_t;  // Counted from 1.

// --- What travels -----------------------------------------------------------

// The connection is made; Hello follows at once.
struct Opened {};
using FromAgent = std::unique_ptr<v1::AgentMessage>;
// Shared, because one message goes to many agents.
using ToAgent = std::shared_ptr<const v1::DaemonMessage>;
// The other side has ended the stream in order.
struct Ended {
  absl::Status status;
  std::optional<v1::Refusal> refusal;
};
// The other side is gone; the stream was reset.
struct Broken {};
using Parcel = std::variant<Opened, FromAgent, ToAgent, Ended, Broken>;

enum Way : uint32_t { kUp = 0, kDown = 1 };  // Up: to the daemon.

// Receives what the streams deliver. Both functions are called only from
// Network::Wake.
class Ends {
 public:
  virtual ~Ends() = default;
  // Both return false if no process listens there.
  virtual bool ToDaemon(StreamId stream, uint32_t node, Parcel& parcel) = 0;
  virtual bool ToNode(StreamId stream, uint32_t node, Parcel& parcel) = 0;
};

class Network {
 public:
  Network(World& world, Ends& ends, size_t nodes);

  // --- Streams, used by their two ends ---------------------------------------

  // `daemon`: the number of one of several daemons.
  StreamId Dial(uint32_t node, Nanos patience, uint32_t daemon = 0);
  uint32_t DaemonOf(StreamId stream) const {
    return streams_[stream - 1]->daemon;
  }
  void Send(StreamId stream, Way way, Parcel parcel);
  // Closes the sender's end. `told`: the other side learns of it. (The kernel
  // tells it when a process dies; a machine that loses power does not.)
  void Drop(StreamId stream, Way sender, bool told);
  bool AgentOpen(StreamId stream) const;

  // --- Faults of the way between a node and the daemon -----------------------

  void Cut(uint32_t node, Way way);
  // A middlebox resets the node's streams and refuses new ones.
  void Refuse(uint32_t node);
  // Ends both, a cut and a refusal.
  void Mend(uint32_t node);
  bool IsCut(uint32_t node) const;
  // A middlebox forgets all streams of a node: both ends get a reset.
  void Reset(uint32_t node);
  // From now on no segment is lost.
  void Calm() { calm_ = true; }

  void OnDeliver(StreamId stream, Way way);
  void OnConnectFails(StreamId stream);
  void OnNoticed(StreamId stream, Way sender);

 private:
  struct Sent {
    Nanos due;
    Parcel parcel;
  };
  struct Pipe {
    std::deque<Sent> sent;
    Nanos last_due = 0;
    bool scheduled = false;
  };
  struct Stream {
    uint32_t node;
    uint32_t daemon;
    bool established = false;
    bool open[2] = {true, false};  // The agent's end, the daemon's end.
    Pipe pipe[2];
  };
  struct Link {
    bool cut[2] = {false, false};
    bool refused = false;
    Nanos latency;
    Nanos jitter;
  };

  Stream& At(StreamId stream) { return *streams_[stream - 1]; }
  Nanos Delay(const Link& link);
  void Arm(StreamId id, Way way, Nanos at);
  void Close(StreamId id, Way end);

  World& world_;
  Ends& ends_;
  bool calm_ = false;
  std::vector<Link> links_;
  std::vector<std::unique_ptr<Stream>> streams_;
  // By node: the streams that still have an open end.
  std::vector<std::vector<StreamId>> living_;
};

}  // namespace rollcall::sim

#endif  // ROLLCALL_TESTS_SIM_NETWORK_H_
