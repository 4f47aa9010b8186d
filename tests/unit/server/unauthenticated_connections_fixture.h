// What the tests of UnauthenticatedConnections share.
#ifndef ROLLCALL_TESTS_UNIT_SERVER_UNAUTHENTICATED_CONNECTIONS_FIXTURE_H_
#define ROLLCALL_TESTS_UNIT_SERVER_UNAUTHENTICATED_CONNECTIONS_FIXTURE_H_

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/base/mutex.h"
#include "daemon/server/connections/unauthenticated_connections.h"
#include "tests/unit/server/listener_client.h"

namespace rollcall {

inline constexpr size_t kBytesMax = 10'000;
inline constexpr absl::Duration kSoon = absl::Milliseconds(50);

// Both ends of a connection; `served` is the one that gRPC would have.
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
  UnauthenticatedConnectionsTest()
      : listening_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in own = {};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof own;
    EXPECT_EQ(bind(listening_, reinterpret_cast<sockaddr*>(&own), size), 0);
    EXPECT_EQ(listen(listening_, 64), 0);
    getsockname(listening_, reinterpret_cast<sockaddr*>(&own), &size);
    port_ = ntohs(own.sin_port);
  }
  ~UnauthenticatedConnectionsTest() override { close(listening_); }

  static ConnectionLimits Limits() {
    ConnectionLimits limits;
    limits.unauthenticated_bytes_max = kBytesMax;
    limits.unauthenticated_bytes_before_call = kBytesMax / 10;
    limits.unauthenticated_calls_max = 2;
    limits.unauthenticated_bytes_total_max = 2 * kBytesMax;
    limits.viewer_bytes_max = 3 * kBytesMax;
    limits.viewer_connections_max = 2;
    limits.viewers_max = 4;
    limits.agents_max = 2;
    limits.agent_bytes_max = 3 * kBytesMax;
    limits.agents_bytes_max = 4 * kBytesMax;
    limits.agent_grace = absl::Hours(1);
    return limits;
  }

  void Begin(absl::Duration patience) {
    limits_.unauthenticated_patience = patience;
    auto made = UnauthenticatedConnections::Make(
        limits_, [this](UnauthenticatedConnections::ConnectionId id) {
          MutexLock lock(mutex_);
          released_.push_back(id);
        });
    ASSERT_TRUE(made.ok()) << made.status();
    connections_ = *std::move(made);
  }

  std::unique_ptr<Pair> Connect(const char* from = "127.0.0.1") {
    auto pair = std::make_unique<Pair>();
    EXPECT_TRUE(pair->client.From(from));
    EXPECT_TRUE(pair->client.Connect(port_));
    sockaddr_in peer = {};
    socklen_t size = sizeof peer;
    pair->served =
        accept(listening_, reinterpret_cast<sockaddr*>(&peer), &size);
    EXPECT_GE(pair->served, 0);
    pair->key = absl::StrCat(from, ":", ntohs(peer.sin_port));
    return pair;
  }

  // Until the thread has seen what the kernel told it.
  bool BecomesSize(size_t wanted) {
    for (const absl::Time until = absl::Now() + absl::Seconds(60);
         absl::Now() < until; std::this_thread::yield()) {
      if (connections_->size() == wanted) return true;
    }
    return false;
  }

  // Until the door was told of so many.
  std::vector<UnauthenticatedConnections::ConnectionId> Released(size_t count) {
    for (const absl::Time until = absl::Now() + absl::Seconds(60);
         absl::Now() < until; std::this_thread::yield()) {
      MutexLock lock(mutex_);
      if (released_.size() >= count) return released_;
    }
    return {};
  }

  // A connection that arrives, makes a call, and is an agent's if it may be.
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

  // `size` bytes reach the server's end and are read there.
  void Pour(Pair& pair, size_t size) {
    EXPECT_TRUE(pair.client.Say(std::string(size, 'x')));
    std::string taken(size, 0);
    EXPECT_EQ(recv(pair.served, taken.data(), taken.size(), MSG_WAITALL),
              static_cast<ssize_t>(size));
  }

  // Until all that has happened at sockets so far has been looked at: they are
  // in the order in which it happened.
  void AwaitLooked() {
    const size_t before = connections_->size();
    const auto last = Connect();
    ASSERT_TRUE(connections_->Arrive(last->served, ++last_));
    last->client.Close();
    ASSERT_TRUE(BecomesSize(before));
  }

  static bool Stands(Pair& pair) {
    return send(pair.served, "x", 1, MSG_NOSIGNAL) == 1 &&
           pair.client.Hear() == "x";
  }

  const int listening_;
  int port_ = 0;
  ConnectionLimits limits_ = Limits();
  UnauthenticatedConnections::ConnectionId last_ = 0;
  Mutex mutex_;
  std::vector<UnauthenticatedConnections::ConnectionId> released_
      ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<UnauthenticatedConnections> connections_;
};

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_SERVER_UNAUTHENTICATED_CONNECTIONS_FIXTURE_H_
