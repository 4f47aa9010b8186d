// Network: the streams between agents and their daemons, as TCP gives them.
//
// In one stream and one way, nothing overtakes; between streams, anything may.
// A way that is cut keeps what is sent and delivers it after it is mended: both
// sides think that they are connected until one of them gives up. What is said
// to an end that is gone is answered with a reset. It knows nothing of what the
// messages mean.
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

using StreamId = uint64_t;  // From 1 on.

// --- What travels -----------------------------------------------------------

// The connection is made; Hello follows at once.
struct Opened {};
using FromAgent = std::unique_ptr<v1::AgentMessage>;
// Shared, since one message goes to many.
using ToAgent = std::shared_ptr<const v1::DaemonMessage>;
// The other side has ended the stream in order.
struct Ended {
  absl::Status status;
  std::optional<v1::Refusal> refusal;
};
// The other side is gone.
struct Broken {};
using Parcel = std::variant<Opened, FromAgent, ToAgent, Ended, Broken>;

enum Way : uint32_t { kUp = 0, kDown = 1 };  // Up: to the daemon.

// Who is told. Both are called from Network::Wake alone.
class Ends {
 public:
  virtual ~Ends() = default;
  // False: nobody listens there.
  virtual bool ToDaemon(StreamId stream, uint32_t node, Parcel& parcel) = 0;
  virtual bool ToNode(StreamId stream, uint32_t node, Parcel& parcel) = 0;
};

class Network {
 public:
  Network(World& world, Ends& ends, size_t nodes);

  // --- Streams, by whoever is at one of their ends --------------------------

  // `daemon`: which of several.
  StreamId Dial(uint32_t node, Nanos patience, uint32_t daemon = 0);
  uint32_t DaemonOf(StreamId stream) const {
    return streams_[stream - 1]->daemon;
  }
  void Send(StreamId stream, Way way, Parcel parcel);
  // The sender's end is no more. `told`: the other side hears of it (the
  // kernel of a process that dies tells; a machine without power does not).
  void Drop(StreamId stream, Way sender, bool told);
  bool AgentOpen(StreamId stream) const;

  // --- What befalls the way between a node and the daemon -------------------

  void Cut(uint32_t node, Way way);
  // A middlebox resets the node's streams and refuses new ones.
  void Refuse(uint32_t node);
  // Ends both.
  void Mend(uint32_t node);
  bool IsCut(uint32_t node) const;
  // A middlebox forgets all streams of a node: both ends get a reset.
  void Reset(uint32_t node);
  // From here on no segment is lost.
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
  // By node: those of which one end lives.
  std::vector<std::vector<StreamId>> living_;
};

}  // namespace rollcall::sim

#endif  // ROLLCALL_TESTS_SIM_NETWORK_H_
