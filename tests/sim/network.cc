#include "tests/sim/network.h"

#include <algorithm>
#include <utility>

namespace rollcall::sim {
namespace {

// If bytes are not acknowledged, the kernel gives up after TCP_USER_TIMEOUT,
// which gRPC sets to its keepalive timeout.
constexpr Nanos kUserTimeout = 10 * kSecond;
constexpr Nanos kUserTimeoutLate = 13 * kSecond;
constexpr Nanos kDaemonNotices = 40 * kSecond;

Way Other(Way way) { return way == kUp ? kDown : kUp; }

}  // namespace

Network::Network(World& world, Ends& ends, size_t nodes)
    : world_(world), ends_(ends), links_(nodes), living_(nodes) {
  for (Link& link : links_) {
    link.latency = world_.chance.Skewed(20 * kMicro, 20 * kMilli);
    link.jitter = world_.chance.Skewed(10 * kMicro, 20 * kMilli);
  }
}

Nanos Network::Delay(const Link& link) {
  Nanos delay = link.latency + world_.chance.Between(0, link.jitter);
  // A lost segment is sent again.
  if (!calm_ && world_.chance.OneIn(128)) {
    delay += world_.chance.Between(200 * kMilli, 900 * kMilli);
  }
  return delay;
}

void Network::Arm(StreamId id, Way way, Nanos at) {
  At(id).pipe[way].scheduled = true;
  world_.Schedule(at, Wake::Kind::kDeliver, way, id);
}

StreamId Network::Dial(uint32_t node, Nanos patience, uint32_t daemon) {
  streams_.push_back(std::make_unique<Stream>());
  const StreamId id = streams_.size();
  streams_.back()->node = node;
  streams_.back()->daemon = daemon;
  living_[node].push_back(id);
  if (links_[node].refused && !IsCut(node)) {
    world_.Schedule(world_.now() + Delay(links_[node]),
                    Wake::Kind::kConnectFails, 0, id);
    return id;
  }
  if (IsCut(node)) {
    world_.Schedule(world_.now() + patience, Wake::Kind::kConnectFails, 0, id);
  }
  Send(id, kUp, Opened{});
  return id;
}

bool Network::AgentOpen(StreamId stream) const {
  return streams_[stream - 1]->open[kUp];
}

void Network::Send(StreamId id, Way way, Parcel parcel) {
  Stream& stream = At(id);
  const Link& link = links_[stream.node];
  Pipe& pipe = stream.pipe[way];
  const Nanos due = std::max(world_.now() + Delay(link), pipe.last_due + 1);
  pipe.last_due = due;
  pipe.sent.push_back(Sent{due, std::move(parcel)});
  if (!pipe.scheduled && !link.cut[way]) Arm(id, way, due);
}

void Network::Drop(StreamId id, Way sender, bool told) {
  Stream& stream = At(id);
  if (!stream.open[sender]) return;
  Close(id, sender);
  if (sender == kUp && !stream.established) {
    // The other side never learned of the stream.
    stream.pipe[kUp].sent.clear();
  } else if (told) {
    Send(id, sender, sim::Broken{});
  }
}

void Network::Close(StreamId id, Way end) {
  Stream& stream = At(id);
  stream.open[end] = false;
  if (stream.open[kUp] || stream.open[kDown]) return;
  std::erase(living_[stream.node], id);
}

void Network::OnDeliver(StreamId id, Way way) {
  Stream& stream = At(id);
  Pipe& pipe = stream.pipe[way];
  pipe.scheduled = false;
  Link& link = links_[stream.node];
  if (pipe.sent.empty() || link.cut[way]) return;
  const bool opens = std::holds_alternative<Opened>(pipe.sent.front().parcel);
  // A handshake needs both ways.
  if (opens && link.cut[Other(way)]) return;
  Sent sent = std::move(pipe.sent.front());
  pipe.sent.pop_front();
  if (!pipe.sent.empty()) {
    Arm(id, way, std::max(world_.now(), pipe.sent.front().due));
  }
  if (opens) {
    stream.established = true;
    stream.open[kDown] = true;
  }
  const Way receiver = Other(way);
  const bool breaks = std::holds_alternative<sim::Broken>(sent.parcel);
  bool heard = stream.open[receiver];
  if (heard && (breaks || std::holds_alternative<Ended>(sent.parcel))) {
    Close(id, receiver);
  }
  if (heard) {
    heard = way == kUp ? ends_.ToDaemon(id, stream.node, sent.parcel)
                       : ends_.ToNode(id, stream.node, sent.parcel);
    if (!heard && opens) Close(id, kDown);
  }
  if (!heard && !breaks && stream.open[Other(receiver)]) {
    Send(id, receiver, sim::Broken{});
  }
}

void Network::OnConnectFails(StreamId id) {
  Stream& stream = At(id);
  if (stream.established || !stream.open[kUp]) return;
  Drop(id, kUp, false);
  Parcel broken = sim::Broken{};
  ends_.ToNode(id, stream.node, broken);
}

void Network::OnNoticed(StreamId id, Way sender) {
  Stream& stream = At(id);
  if (!stream.open[sender] || !stream.established || !IsCut(stream.node)) {
    return;
  }
  Parcel broken = sim::Broken{};
  const uint32_t node = stream.node;
  Drop(id, sender, true);
  if (sender == kUp) {
    ends_.ToNode(id, node, broken);
  } else {
    ends_.ToDaemon(id, node, broken);
  }
}

void Network::Cut(uint32_t node, Way way) {
  Link& link = links_[node];
  if (link.cut[way]) return;
  const bool first = !IsCut(node);
  link.cut[way] = true;
  if (!first) return;
  for (const StreamId id : living_[node]) {
    const Nanos now = world_.now();
    if (!At(id).established) {
      world_.Schedule(now + 3 * kSecond, Wake::Kind::kConnectFails, 0, id);
    }
    world_.Schedule(now + world_.chance.Between(kUserTimeout, kUserTimeoutLate),
                    Wake::Kind::kNoticed, kUp, id);
    world_.Schedule(now + world_.chance.Between(kUserTimeout, kDaemonNotices),
                    Wake::Kind::kNoticed, kDown, id);
  }
}

void Network::Refuse(uint32_t node) {
  links_[node].refused = true;
  Reset(node);
}

void Network::Mend(uint32_t node) {
  Link& link = links_[node];
  link.refused = false;
  if (!IsCut(node)) return;
  link.cut[kUp] = link.cut[kDown] = false;
  // What was sent while the way was cut is sent again, each stream at its own
  // time.
  for (StreamId id = 1; id <= streams_.size(); ++id) {
    if (At(id).node != node) continue;
    for (const Way way : {kUp, kDown}) {
      const Pipe& pipe = At(id).pipe[way];
      if (pipe.scheduled || pipe.sent.empty()) continue;
      Arm(id, way,
          std::max(pipe.sent.front().due, world_.now()) +
              world_.chance.Between(0, kSecond));
    }
  }
}

bool Network::IsCut(uint32_t node) const {
  return links_[node].cut[kUp] || links_[node].cut[kDown];
}

void Network::Reset(uint32_t node) {
  const std::vector<StreamId> streams = living_[node];
  for (const StreamId id : streams) {
    for (const Way to : {kDown, kUp}) {
      if (At(id).established && At(id).open[Other(to)]) {
        Send(id, to, sim::Broken{});
      }
    }
  }
}

}  // namespace rollcall::sim
