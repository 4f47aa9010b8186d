// Shared by the tests of UnauthenticatedConnections.
#ifndef ROLLCALL_TESTS_UNIT_SERVER_CONNECTIONS_UNAUTHENTICATED_CONNECTIONS_FIXTURE_H_
#define ROLLCALL_TESTS_UNIT_SERVER_CONNECTIONS_UNAUTHENTICATED_CONNECTIONS_FIXTURE_H_

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "daemon/base/mutex.h"
#include "daemon/server/connections/unauthenticated_connections.h"
#include "tests/unit/server/connections/listener_client.h"

namespace rollcall {

inline constexpr size_t kBytesMax = 10'000;
inline constexpr absl::Duration kSoon = absl::Milliseconds(50);

// Both ends of a connection. `served` is the end that gRPC would have.
struct Pair {
  ListenerClient client;
  int served = -1;
  std::string key;

  ~Pair() {
    if (served >= 0) close(served);
  }
};

class UnauthenticatedConnectionsTest : public testing::Test {
 protected:
  UnauthenticatedConnectionsTest() : listening_(Listen(&port_)) {}
  ~UnauthenticatedConnectionsTest() override { close(listening_); }

  // Returns a listening socket on loopback, and its port.
  static int Listen(int* port) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in own = {};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof own;
    EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&own), size), 0);
    EXPECT_EQ(listen(fd, 64), 0);
    getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size);
    *port = ntohs(own.sin_port);
    return fd;
  }

  static ConnectionLimits Limits() {
    ConnectionLimits limits;
    limits.unauthenticated_bytes_max = kBytesMax;
    limits.introduced_bytes_max = 3 * kBytesMax;
    limits.unauthenticated_calls_max = 2;
    limits.viewer_bytes_max = 3 * kBytesMax;
    limits.viewer_bytes_burst = 4 * kBytesMax;
    limits.viewer_bytes_per_second = 1;
    limits.viewer_calls_burst = 100;
    limits.viewer_connections_max = 2;
    limits.viewers_max = 4;
    limits.agents_max = 2;
    limits.agent_bytes_max = 3 * kBytesMax;
    limits.agents_bytes_max = 4 * kBytesMax;
    limits.agent_grace = absl::Hours(1);
    limits.end_grace = absl::Hours(1);
    return limits;
  }

  void Begin(absl::Duration patience) {
    limits_.unauthenticated_patience = patience;
    auto made = UnauthenticatedConnections::Make(
        limits_,
        [this](UnauthenticatedConnections::ConnectionId id) {
          MutexLock lock(mutex_);
          released_.push_back(id);
        },
        [this](const SourceAddress& from, uint64_t bytes) {
          MutexLock lock(mutex_);
          charged_[from] += bytes;
        });
    ASSERT_TRUE(made.ok()) << made.status();
    connections_ = *std::move(made);
  }

  std::unique_ptr<Pair> Connect(const char* from = "127.0.0.1") {
    return ConnectTo(listening_, port_, from, 0);
  }
  // A connection from the same address and port to another port of this
  // machine.
  static std::unique_ptr<Pair> TwinOf(const Pair& pair) {
    int port = 0;
    const int listening = Listen(&port);
    auto twin = ConnectTo(listening, port, "127.0.0.1",
                          std::stoi(pair.key.substr(pair.key.rfind(':') + 1)));
    EXPECT_EQ(twin->key, pair.key);
    close(listening);
    return twin;
  }
  static std::unique_ptr<Pair> ConnectTo(int listening, int port,
                                         const char* from, int from_port) {
    auto pair = std::make_unique<Pair>();
    const bool connected =
        pair->client.From(from, from_port) && pair->client.Connect(port);
    EXPECT_TRUE(connected);
    if (!connected) return pair;
    sockaddr_in peer = {};
    socklen_t size = sizeof peer;
    pair->served = accept(listening, reinterpret_cast<sockaddr*>(&peer), &size);
    EXPECT_GE(pair->served, 0);
    pair->key = absl::StrCat(from, ":", ntohs(peer.sin_port));
    return pair;
  }
  // Both ends close the connection, as gRPC does when it has read the peer's
  // end.
  static void End(Pair& pair) {
    pair.client.Close();
    shutdown(pair.served, SHUT_RDWR);
  }

  // Waits until `wanted` connections are left. The thread may need a moment to
  // see an end.
  bool BecomesSize(size_t wanted) {
    for (const absl::Time until = absl::Now() + absl::Seconds(60);
         absl::Now() < until; std::this_thread::yield()) {
      if (connections_->size() == wanted) return true;
    }
    return false;
  }

  // Waits until the callback has been called for `count` connections.
  std::vector<UnauthenticatedConnections::ConnectionId> Released(size_t count) {
    for (const absl::Time until = absl::Now() + absl::Seconds(60);
         absl::Now() < until; std::this_thread::yield()) {
      MutexLock lock(mutex_);
      if (released_.size() >= count) return released_;
    }
    return {};
  }

  // Returns the bytes that 127.0.0.`last` was charged for.
  uint64_t Charged(uint8_t last) {
    MutexLock lock(mutex_);
    return charged_[SourceAddressOfIpv4({127, 0, 0, last})];
  }

  // Makes a connection that arrives, makes a call, and gets a stream if it may
  // attend.
  std::unique_ptr<Pair> Agent(AgentStream* stream,
                              const AgentRight& right = {"token1"}) {
    auto pair = Connect();
    EXPECT_TRUE(connections_->Arrive(pair->served, ++last_));
    connections_->Called(pair->key);
    absl::StatusOr<AgentStream> attends =
        connections_->Attend(pair->key, right);
    EXPECT_TRUE(attends.ok() || absl::IsUnavailable(attends.status()))
        << attends.status();
    *stream = attends.ok() ? *std::move(attends) : nullptr;
    return pair;
  }

  // Sends `size` bytes to the server's end, and reads them there.
  void Pour(Pair& pair, size_t size) {
    EXPECT_TRUE(pair.client.Say(std::string(size, 'x')));
    std::string taken(size, 0);
    EXPECT_EQ(recv(pair.served, taken.data(), taken.size(), MSG_WAITALL),
              static_cast<ssize_t>(size));
  }

  // Waits until all earlier events at sockets have been handled. They are
  // handled in the order in which they happened.
  void AwaitLooked() {
    const auto last = Connect();
    ASSERT_TRUE(connections_->Arrive(last->served, ++last_));
    End(*last);
    const auto looked = [&] {
      MutexLock lock(mutex_);
      return std::find(released_.begin(), released_.end(), last_) !=
             released_.end();
    };
    const absl::Time until = absl::Now() + absl::Seconds(60);
    while (!looked()) {
      ASSERT_LT(absl::Now(), until);
      std::this_thread::yield();
    }
  }

  static bool Stands(Pair& pair) {
    return send(pair.served, "x", 1, MSG_NOSIGNAL) == 1 &&
           pair.client.Hear() == "x";
  }

  int port_ = 0;  // Set by Listen, so declared before listening_.
  const int listening_;
  ConnectionLimits limits_ = Limits();
  UnauthenticatedConnections::ConnectionId last_ = 0;
  Mutex mutex_;
  std::vector<UnauthenticatedConnections::ConnectionId> released_
      ABSL_GUARDED_BY(mutex_);
  std::map<SourceAddress, uint64_t> charged_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<UnauthenticatedConnections> connections_;
};

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_SERVER_CONNECTIONS_UNAUTHENTICATED_CONNECTIONS_FIXTURE_H_
