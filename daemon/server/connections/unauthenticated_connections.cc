#include "daemon/server/connections/unauthenticated_connections.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/base/clock.h"
#include "daemon/base/text/address_text.h"
#include "daemon/server/connections/listening_socket.h"
#include "daemon/server/connections/peer_address.h"

namespace rollcall {
namespace {

constexpr uint64_t kWakeEvent = std::numeric_limits<uint64_t>::max();
constexpr size_t kEventsARound = 256;

// In the format of PeerKey.
std::string KeyOf(const sockaddr_storage& peer) {
  const in_port_t port =
      peer.ss_family == AF_INET
          ? reinterpret_cast<const sockaddr_in&>(peer).sin_port
          : reinterpret_cast<const sockaddr_in6&>(peer).sin6_port;
  return absl::StrCat(AddressText(peer), ":", ntohs(port));
}

absl::Status TooManyAgents(size_t agents_max) {
  return absl::UnavailableError(absl::StrCat(
      "this daemon has ", agents_max,
      " connections of agents, the maximum; if its limit of open files is the "
      "reason, raise that limit (ulimit -n) on its machine; dial again later"));
}

}  // namespace

UnauthenticatedConnections::Wake::~Wake() { close(fd); }

void UnauthenticatedConnections::Wake::Up() const {
  const uint64_t one = 1;
  (void)!write(fd, &one, sizeof one);
}

void UnauthenticatedConnections::Wake::Ended(Id id) {
  bool first = false;
  {
    MutexLock lock(mutex);
    first = ended.empty();
    ended.push_back(id);
  }
  if (first) Up();
}

std::string PeerKey(std::string_view peer) {
  const std::string address = AddressOfPeer(peer);
  if (address.empty()) return "";
  return absl::StrCat(address, std::string(peer.substr(peer.rfind(':'))));
}

absl::StatusOr<std::unique_ptr<UnauthenticatedConnections>>
UnauthenticatedConnections::Make(
    const ConnectionLimits& limits, std::function<void(ConnectionId)> released,
    std::function<void(const SourceAddress&, uint64_t)> charged) {
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  const int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u64 = kWakeEvent;
  if (epoll >= 0 && wake >= 0 &&
      epoll_ctl(epoll, EPOLL_CTL_ADD, wake, &event) == 0) {
    return std::unique_ptr<UnauthenticatedConnections>(
        new UnauthenticatedConnections(limits, std::move(released),
                                       std::move(charged), epoll, wake));
  }
  const int error = errno;
  if (epoll >= 0) close(epoll);
  if (wake >= 0) close(wake);
  return absl::UnavailableError(
      absl::StrCat("cannot watch connections: ", std::strerror(error),
                   "; raise the limit of open files (ulimit -n)"));
}

UnauthenticatedConnections::UnauthenticatedConnections(
    const ConnectionLimits& limits, std::function<void(ConnectionId)> released,
    std::function<void(const SourceAddress&, uint64_t)> charged, int epoll,
    int wake)
    : limits_(limits),
      released_(std::move(released)),
      charged_(std::move(charged)),
      epoll_(epoll),
      wake_(std::make_shared<Wake>(wake)),
      viewers_(limits.viewer_connections_max, limits.viewers_max),
      agents_(limits.agents_max) {
  thread_ = std::thread([this] { Run(); });
}

UnauthenticatedConnections::~UnauthenticatedConnections() {
  Stop();
  close(epoll_);
}

void UnauthenticatedConnections::Stop() {
  if (!thread_.joinable()) return;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_->Up();
  thread_.join();
  MutexLock lock(mutex_);
  while (!connections_.empty()) Forget(connections_.begin()->first);
  gone_.clear();
  in_vain_.clear();
}

void UnauthenticatedConnections::EndAllAt(absl::Time when) {
  {
    MutexLock lock(mutex_);
    end_all_at_ = when;
  }
  wake_->Up();
}

bool UnauthenticatedConnections::Arrive(int fd, ConnectionId connection_id) {
  sockaddr_storage peer = {};
  socklen_t size = sizeof peer;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) {
    return false;  // Already disconnected.
  }
  ServedConnection connection{
      fcntl(fd, F_DUPFD_CLOEXEC, 0),
      ServedSocket(fd),
      connection_id,
      KeyOf(peer),
      SourceAddressOf(peer),
      MonotonicNow() + limits_.unauthenticated_patience};
  if (connection.fd < 0) return false;
  // Behind a write that the peer does not read, gRPC's keepalive cannot send
  // its ping.
  const unsigned patience =
      static_cast<unsigned>(absl::ToInt64Milliseconds(limits_.write_patience));
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience, sizeof patience);
  bool first = false;
  bool watched = false;
  {
    MutexLock lock(mutex_);
    const auto named = by_key_.find(connection.key);
    if (named != by_key_.end()) {
      if (connections_.at(named->second).served.IsOpen()) {
        ++disconnected_;
        close(connection.fd);
        return false;
      }
      Forget(named->second);  // Its end was missed.
    }
    const Id id = ++newest_;
    epoll_event event = {};
    // Edge-triggered, so that each arrival of data causes an event. If gRPC has
    // already read the data, epoll still reports an event because the socket is
    // writable.
    event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
    event.data.u64 = id;
    watched = epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0;
    if (watched) {
      first = waiting_.empty();
      waiting_.insert(id);
      by_key_[connection.key] = id;
      by_connection_id_[connection_id] = id;
      connections_.emplace(id, std::move(connection));
    } else {
      close(connection.fd);
    }
  }
  // Until now, the thread had no deadline for unauthenticated connections.
  if (first) wake_->Up();
  Tell();
  return watched;
}

void UnauthenticatedConnections::Called(const std::string& key) {
  {
    MutexLock lock(mutex_);
    const auto at = by_key_.find(key);
    if (at == by_key_.end()) return;
    ServedConnection& connection = connections_.at(at->second);
    ++connection.calls;
    if (connection.admin) return;
    const bool fits =
        connection.viewer.has_value()
            ? connection.viewer->calls.Charge(1, 1, MonotonicNow())
            : connection.calls <=
                  static_cast<uint64_t>(limits_.unauthenticated_calls_max);
    if (!fits) DisconnectAndCount(at->second);
  }
  Tell();
}

std::optional<UnauthenticatedConnections::ConnectionId>
UnauthenticatedConnections::Introduce(const std::string& key) {
  MutexLock lock(mutex_);
  const auto at = by_key_.find(key);
  if (at == by_key_.end() || !waiting_.contains(at->second)) {
    return std::nullopt;
  }
  ServedConnection& connection = connections_.at(at->second);
  connection.introduced = true;
  SetReceiveBuffer(connection.fd, limits_.receive_buffer);
  return connection.connection_id;
}

absl::StatusOr<AgentStream> UnauthenticatedConnections::Attend(
    const std::string& key, const AgentRight& right) {
  absl::StatusOr<AgentStream> stream;
  {
    MutexLock lock(mutex_);
    TakeEnded();
    stream = LetAttend(key, right);
  }
  Tell();
  return stream;
}

absl::StatusOr<AgentStream> UnauthenticatedConnections::LetAttend(
    const std::string& key, const AgentRight& right) {
  const auto named = by_key_.find(key);
  // The connection is disconnected, or has authenticated as an admin.
  if (named == by_key_.end() || connections_.at(named->second).admin) {
    return std::make_shared<std::atomic<uint64_t>>(0);
  }
  const Id id = named->second;
  ServedConnection& connection = connections_.at(id);
  if (!connection.agent.has_value()) {
    if (agents_.IsFull()) {
      const std::optional<Id> gives_way = agents_.GivesWayTo(right);
      if (!gives_way.has_value()) return TooManyAgents(limits_.agents_max);
      Disconnect(*gives_way);
    }
    LetSendMore(id, connection);
    connection.bytes = 0;
    connection.agent = Agent();
    connection.agent->heard = std::make_shared<std::atomic<uint64_t>>(0);
    connection.agent->received_before = BytesReceived(connection.fd);
    close(std::exchange(connection.fd, -1));
  }
  if (!agents_.Attend(id, right)) {
    return absl::UnavailableError(
        "this connection has an agent's stream already; dial again with "
        "another connection");
  }
  const Agent& agent = *connection.agent;
  return AgentStream(agent.heard.get(),
                     [heard = agent.heard, wake = wake_,
                      id](std::atomic<uint64_t>*) { wake->Ended(id); });
}

void UnauthenticatedConnections::TakeEnded() {
  std::vector<Id> ended;
  {
    MutexLock lock(wake_->mutex);
    ended.swap(wake_->ended);
  }
  const absl::Time expires = MonotonicNow() + limits_.agent_grace;
  for (const Id id : ended) agents_.StreamEnded(id, expires);
}

void UnauthenticatedConnections::Know(const std::string& key,
                                      const std::string& viewer) {
  {
    MutexLock lock(mutex_);
    const auto at = by_key_.find(key);
    if (at == by_key_.end()) return;
    const Id id = at->second;
    ServedConnection& connection = connections_.at(id);
    if (connection.admin) return;
    if (viewer.empty()) {
      connection.admin = true;
      if (connection.agent.has_value()) {
        Forget(id);  // It has no second descriptor.
      } else {
        LetSendMore(id, connection);
      }
    } else if (!connection.viewer.has_value() &&
               !connection.agent.has_value()) {
      Leave(id, connection);
      connection.viewer = {
          viewer,
          {limits_.viewer_bytes_per_second, limits_.viewer_bytes_burst},
          {limits_.viewer_calls_per_second, limits_.viewer_calls_burst}};
      connection.bytes = BytesReceived(connection.fd);
      const std::optional<Id> too_many = viewers_.Add(viewer, id);
      if (too_many.has_value()) DisconnectAndCount(*too_many);
    }
  }
  Tell();
}

std::string UnauthenticatedConnections::ArrivedAt(
    const std::string& key) const {
  MutexLock lock(mutex_);
  const auto at = by_key_.find(key);
  if (at == by_key_.end()) return "";
  return connections_.at(at->second).served.LocalAddress();
}

void UnauthenticatedConnections::Displace(ConnectionId connection_id) {
  {
    MutexLock lock(mutex_);
    const auto at = by_connection_id_.find(connection_id);
    if (at != by_connection_id_.end()) DisconnectAndCount(at->second);
  }
  Tell();
}

uint64_t UnauthenticatedConnections::disconnected() const {
  MutexLock lock(mutex_);
  return disconnected_;
}

uint64_t UnauthenticatedConnections::hung_up() const {
  MutexLock lock(mutex_);
  return hung_up_;
}

size_t UnauthenticatedConnections::size() const {
  MutexLock lock(mutex_);
  return waiting_.size();
}

size_t UnauthenticatedConnections::agents() const {
  MutexLock lock(mutex_);
  return agents_.size();
}

void UnauthenticatedConnections::Tell() {
  std::vector<ConnectionId> gone;
  std::vector<std::pair<SourceAddress, uint64_t>> in_vain;
  {
    MutexLock lock(mutex_);
    gone.swap(gone_);
    in_vain.swap(in_vain_);
  }
  for (const auto& [from, bytes] : in_vain) charged_(from, bytes);
  for (const ConnectionId id : gone) released_(id);
}

void UnauthenticatedConnections::Run() {
  std::array<epoll_event, kEventsARound> events;
  for (;;) {
    const int ready = epoll_wait(epoll_, events.data(),
                                 static_cast<int>(events.size()), TimeoutMs());
    CHECK(ready >= 0 || errno == EINTR);
    uint64_t woken = 0;
    (void)!read(wake_->fd, &woken, sizeof woken);
    {
      MutexLock lock(mutex_);
      if (stopping_) return;
      TakeEnded();
      for (int i = 0; i < ready; ++i) {
        if (events[i].data.u64 != kWakeEvent) {
          Look(events[i].data.u64, events[i].events);
        }
      }
    }
    DisconnectLate(MonotonicNow());
    Tell();
  }
}

int UnauthenticatedConnections::TimeoutMs() const {
  MutexLock lock(mutex_);
  absl::Time next = end_all_at_;
  if (!waiting_.empty()) {
    next = std::min(next, connections_.at(*waiting_.begin()).until);
  }
  if (const auto idle = agents_.NextExpiry())
    next = std::min(next, idle->first);
  if (!ended_.empty()) next = std::min(next, ended_.front().first);
  if (next == absl::InfiniteFuture()) return -1;
  const absl::Duration left =
      std::clamp(next - MonotonicNow(), absl::ZeroDuration(), absl::Minutes(1));
  return static_cast<int>(
      absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1))));
}

void UnauthenticatedConnections::Look(Id id, uint32_t events) {
  const auto at = connections_.find(id);
  if (at == connections_.end()) return;
  ServedConnection& connection = at->second;
  // gRPC has closed the connection, or the peer has reset it.
  if ((events & (EPOLLHUP | EPOLLERR)) != 0) {
    if (waiting_.contains(id) && connection.calls == 0) ++hung_up_;
    return Forget(id);
  }
  // The peer alone has closed its side. gRPC closes the connection when it has
  // read so far, but it reads nothing while the peer reads nothing.
  if ((events & EPOLLRDHUP) != 0 && !connection.peer_ended) {
    connection.peer_ended = true;
    ended_.emplace_back(MonotonicNow() + limits_.end_grace, id);
  }
  if (connection.admin) return;
  if (connection.agent.has_value()) return LookAtAgent(id, connection);
  if (connection.viewer.has_value()) {
    if (!CountViewer(connection)) DisconnectAndCount(id);
    return;
  }
  const size_t bytes = BytesReceived(connection.fd);
  if (bytes > (connection.introduced ? limits_.introduced_bytes_max
                                     : limits_.unauthenticated_bytes_max)) {
    return DisconnectAndCount(id);
  }
  if (!connection.introduced) return;
  agents_bytes_ += bytes - std::exchange(connection.bytes, bytes);
  MakeRoomForMessages();
}

void UnauthenticatedConnections::LookAtAgent(Id id,
                                             ServedConnection& connection) {
  const std::optional<size_t> bytes = BytesSinceMessage(connection);
  if (!bytes.has_value()) return;
  agents_bytes_ += *bytes - connection.bytes;
  connection.bytes = *bytes;
  if (*bytes > limits_.agent_bytes_max) return DisconnectAndCount(id);
  MakeRoomForMessages();
}

std::optional<size_t> UnauthenticatedConnections::BytesSinceMessage(
    ServedConnection& connection) {
  Agent& agent = *connection.agent;
  const size_t received = BytesReceived(connection.served.fd());
  // gRPC has closed the socket, so the byte count may be that of another file.
  if (!connection.served.IsOpen()) return std::nullopt;
  const uint64_t heard = *agent.heard;
  // If there was a second call, some bytes belong to it, and a message of the
  // stream does not account for them.
  if (heard != agent.heard_before && connection.calls <= 1) {
    agent.heard_before = heard;
    agent.received_before = received;
  }
  return received - agent.received_before;
}

void UnauthenticatedConnections::DisconnectLate(absl::Time now) {
  MutexLock lock(mutex_);
  if (end_all_at_ <= now) {
    end_all_at_ = absl::InfiniteFuture();
    while (!connections_.empty()) Disconnect(connections_.begin()->first);
  }
  for (auto idle = agents_.NextExpiry(); idle.has_value() && idle->first <= now;
       idle = agents_.NextExpiry()) {
    Disconnect(idle->second);
  }
  for (; !ended_.empty() && ended_.front().first <= now; ended_.pop_front()) {
    const auto at = connections_.find(ended_.front().second);
    if (at == connections_.end()) continue;
    if (at->second.served.IsOpen()) {
      DisconnectAndCount(at->first);
    } else {
      Forget(at->first);
    }
  }
  while (!waiting_.empty() && connections_.at(*waiting_.begin()).until <= now) {
    DisconnectAndCount(*waiting_.begin());
  }
}

void UnauthenticatedConnections::DisconnectAndCount(Id id) {
  ++disconnected_;
  Disconnect(id);
}

void UnauthenticatedConnections::Disconnect(Id id) {
  ServedConnection& connection = connections_.at(id);
  Charge(connection);  // After the reset, the kernel does not know its bytes.
  if (connection.fd >= 0) {
    ResetConnection(connection.fd);
  } else {
    connection.served.Reset();
  }
  Remove(id);
}

void UnauthenticatedConnections::MakeRoomForMessages() {
  while (agents_bytes_ > limits_.agents_bytes_max) {
    const auto most = std::max_element(
        connections_.begin(), connections_.end(),
        [](const auto& a, const auto& b) {
          const auto held = [](const ServedConnection& of) {
            return of.agent.has_value() || of.introduced ? of.bytes : 0;
          };
          return held(a.second) < held(b.second);
        });
    DisconnectAndCount(most->first);
  }
}

void UnauthenticatedConnections::Charge(ServedConnection& connection) {
  if (connection.admin) return;
  size_t bytes = 0;
  if (connection.agent.has_value()) {
    bytes = BytesSinceMessage(connection).value_or(connection.bytes);
  } else if (connection.viewer.has_value()) {
    CountViewer(connection);
    bytes = connection.viewer->bytes.Taken(MonotonicNow());
  } else {
    bytes = BytesReceived(connection.fd);
  }
  if (bytes == 0) return;
  in_vain_.emplace_back(connection.network,
                        std::min(bytes, limits_.bytes_in_vain_max));
}

bool UnauthenticatedConnections::CountViewer(ServedConnection& connection) {
  const size_t bytes = BytesReceived(connection.fd);
  const size_t more = bytes - std::exchange(connection.bytes, bytes);
  return connection.viewer->bytes.Charge(more, 1, MonotonicNow()) &&
         bytes <= limits_.viewer_bytes_max;
}

void UnauthenticatedConnections::LetSendMore(Id id,
                                             ServedConnection& connection) {
  Leave(id, connection);
  EndViewer(id, connection);
  SetReceiveBuffer(connection.fd, limits_.receive_buffer);
}

void UnauthenticatedConnections::EndViewer(Id id,
                                           ServedConnection& connection) {
  if (!connection.viewer.has_value()) return;
  viewers_.Remove(connection.viewer->token_id, id);
  connection.viewer.reset();
}

void UnauthenticatedConnections::Leave(Id id, ServedConnection& connection) {
  if (waiting_.erase(id) == 0) return;
  if (std::exchange(connection.introduced, false)) {
    agents_bytes_ -= std::exchange(connection.bytes, 0);
  }
  by_connection_id_.erase(connection.connection_id);
  gone_.push_back(connection.connection_id);
}

void UnauthenticatedConnections::Forget(Id id) {
  const auto at = connections_.find(id);
  if (at == connections_.end()) return;
  Charge(at->second);
  Remove(id);
}

void UnauthenticatedConnections::Remove(Id id) {
  const auto at = connections_.find(id);
  ServedConnection& connection = at->second;
  Leave(id, connection);
  const auto named = by_key_.find(connection.key);
  if (named != by_key_.end() && named->second == id) by_key_.erase(named);
  EndViewer(id, connection);
  agents_.Remove(id);
  if (connection.agent.has_value()) agents_bytes_ -= connection.bytes;
  // The socket may still be open in gRPC. If gRPC has closed it and another
  // file has its number, epoll has nothing to remove. That file is not a socket
  // that is watched here, because the caller has the lock, which Arrive needs
  // to add one.
  if (connection.served.IsOpen()) {
    epoll_ctl(epoll_, EPOLL_CTL_DEL, connection.served.fd(), nullptr);
  }
  if (connection.fd >= 0) close(connection.fd);
  connections_.erase(at);
}

}  // namespace rollcall
