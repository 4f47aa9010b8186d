// The listener on real sockets, on loopback and on ports that the kernel
// chooses. These tests only wait for timed events. HandshakeLimiter sets the
// times, and is tested without a clock.
#include "daemon/server/connections/listener.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <cstddef>
#include <ctime>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/clock.h"
#include "tests/unit/server/connections/listener_client.h"

namespace rollcall {
namespace {

// A listener whose handed-on connections can be awaited.
class Door {
 public:
  explicit Door(Listener::Options options, size_t agents = 0)
      : handed_(eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC)) {
    absl::StatusOr<std::unique_ptr<Listener>> opened =
        Listener::Open(std::move(options));
    if (!opened.ok()) {
      ADD_FAILURE() << opened.status();
      std::exit(1);
    }
    listener_ = *std::move(opened);
    const auto hand_on = [this](int fd, int listener_fd,
                                HandshakeLimiter::Id id) {
      {
        MutexLock lock(mutex_);
        fds_.push_back(fd);
        listener_fd_ = listener_fd;
        newest_ = id;
      }
      const uint64_t one = 1;
      ASSERT_EQ(write(handed_, &one, sizeof one), ssize_t{sizeof one});
    };
    listener_->Start(
        hand_on, [](HandshakeLimiter::Id) {}, [agents] { return agents; });
  }
  ~Door() {
    listener_->Stop();
    for (int fd : fds_) close(fd);
    close(handed_);
  }

  // Waits for the next connection that is handed on; the caller closes it. -1:
  // none came.
  int Next() {
    pollfd ready = {handed_, POLLIN, 0};
    if (poll(&ready, 1, kPatienceMs) <= 0) return -1;
    uint64_t one;
    if (read(handed_, &one, sizeof one) != ssize_t{sizeof one}) return -1;
    MutexLock lock(mutex_);
    const int fd = fds_.front();
    fds_.pop_front();
    return fd;
  }

  // Lets one client in. All clients that had connected and sent data before are
  // handled before it.
  void Pass(std::string_view hello) {
    ListenerClient client(listener_->port());
    ASSERT_TRUE(client.Say(hello));
    const int fd = Next();
    ASSERT_GE(fd, 0);
    close(fd);
  }
  // Returns the counts of everything that happened before.
  HandshakeCounts CountsNow(std::string_view hello) {
    Pass(hello);
    return listener_->counts();
  }

  Listener& operator*() { return *listener_; }
  Listener* operator->() { return listener_.get(); }
  int listener_fd() {
    MutexLock lock(mutex_);
    return listener_fd_;
  }
  // The newest connection that was handed on.
  HandshakeLimiter::Id newest() {
    MutexLock lock(mutex_);
    return newest_;
  }

 private:
  const int handed_;
  std::unique_ptr<Listener> listener_;
  Mutex mutex_;
  std::deque<int> fds_ ABSL_GUARDED_BY(mutex_);
  int listener_fd_ ABSL_GUARDED_BY(mutex_) = -1;
  HandshakeLimiter::Id newest_ ABSL_GUARDED_BY(mutex_) = 0;
};

Listener::Options Plain() { return {.listen = "127.0.0.1:0", .plain = true}; }
Listener::Options Tls() { return {.listen = "127.0.0.1:0", .plain = false}; }

bool HasIpv6() { return Listener::Open({.listen = "[::1]:0"}).ok(); }

// The lowest free descriptor.
int NextDescriptor() {
  const int fd = dup(STDERR_FILENO);
  close(fd);
  return fd;
}

// While this object lives, the process can open no descriptor of this number or
// above.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(int most) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit limit = {static_cast<rlim_t>(most), before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  ~DescriptorLimit() { Lift(); }
  void Lift() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_;
};

// The CPU time of all threads since the process started.
absl::Duration CpuTime() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return absl::DurationFromTimespec(time);
}

TEST(ListenerTest, ListensWhereItIsTold) {
  const struct {
    const char* listen;
    const char* socket;
  } kRows[] = {
      {"127.0.0.1:0", "127.0.0.1:"},
      {"0.0.0.0:0", "0.0.0.0:"},
      {"[::1]:0", "[::1]:"},
      {"[::]:0", "[::]:"},
  };
  for (const auto& row : kRows) {
    if (row.listen[0] == '[' && !HasIpv6()) continue;
    const auto listener = Listener::Open({.listen = row.listen});
    ASSERT_TRUE(listener.ok()) << listener.status();
    EXPECT_GT((*listener)->port(), 0);
    ASSERT_EQ((*listener)->sockets().size(), 1u) << row.listen;
    EXPECT_EQ((*listener)->sockets()[0],
              absl::StrCat(row.socket, (*listener)->port()));
  }
}

TEST(ListenerTest, ANameMeansAllItsAddressesAndOnePort) {
  const auto listener = Listener::Open({.listen = "localhost:0"});
  ASSERT_TRUE(listener.ok()) << listener.status();
  ASSERT_FALSE((*listener)->sockets().empty());
  for (const std::string& socket : (*listener)->sockets()) {
    EXPECT_TRUE(absl::EndsWith(socket, absl::StrCat(":", (*listener)->port())))
        << socket;
  }
}

TEST(ListenerTest, TheIpv6WildcardTakesIpv4) {
  Door door({.listen = "[::]:0", .plain = true});
  door.Pass(kHttp2Preface);
}

// Simulates a machine whose kernel has no IPv6.
TEST(ListenerTest, TheIpv6WildcardIsTheIpv4OneWhereThereIsNoIpv6) {
  std::string socket_name = "none";
  // The filter applies to this thread only.
  std::thread thread([&] {
    sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog filter = {std::size(program), program};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
      return;
    }
    const auto listener = Listener::Open({.listen = "[::]:0"});
    socket_name = listener.ok() ? (*listener)->sockets()[0]
                                : listener.status().ToString();
  });
  thread.join();
  if (socket_name == "none") GTEST_SKIP() << "no seccomp filters here";
  EXPECT_TRUE(absl::StartsWith(socket_name, "0.0.0.0:")) << socket_name;
}

TEST(ListenerTest, SaysWhyItCannotListen) {
  const auto taken = Listener::Open(Plain());
  ASSERT_TRUE(taken.ok());
  const std::string taken_address = (*taken)->sockets()[0];
  const struct {
    std::string listen;
    absl::StatusCode code;
  } kRows[] = {
      {taken_address, absl::StatusCode::kUnavailable},
      {"192.0.2.1:0", absl::StatusCode::kUnavailable},
      {"", absl::StatusCode::kInvalidArgument},
      {"127.0.0.1", absl::StatusCode::kInvalidArgument},
      {"127.0.0.1:", absl::StatusCode::kInvalidArgument},
      {":80", absl::StatusCode::kInvalidArgument},
      {"127.0.0.1:65536", absl::StatusCode::kInvalidArgument},
      {"127.0.0.1:-1", absl::StatusCode::kInvalidArgument},
      {"::1:80", absl::StatusCode::kInvalidArgument},
      {"[localhost]:80", absl::StatusCode::kInvalidArgument},
      {"unix:/tmp/x:1", absl::StatusCode::kInvalidArgument},
  };
  for (const auto& row : kRows) {
    const absl::Status status = Listener::Open({.listen = row.listen}).status();
    EXPECT_EQ(status.code(), row.code) << row.listen << ": " << status;
    if (row.code == absl::StatusCode::kUnavailable) {
      EXPECT_TRUE(absl::StrContains(status.message(), row.listen)) << status;
      EXPECT_TRUE(absl::StrContains(status.message(), "--listen")) << status;
    }
  }
}

TEST(ListenerTest, RaisesTheLimitOfOpenFiles) {
  DescriptorLimit low(256);
  ASSERT_TRUE(Listener::Open(Plain()).ok());
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  EXPECT_EQ(limit.rlim_cur, limit.rlim_max);
}

TEST(ListenerTest, HandsOnWhoBeginsAHandshake) {
  for (const bool plain : {false, true}) {
    Door door(plain ? Plain() : Tls());
    const std::string_view hello = plain ? kHttp2Preface : kTlsHello;
    ListenerClient client(door->port());
    ASSERT_TRUE(client.Say(hello));
    const int fd = door.Next();
    ASSERT_GE(fd, 0);
    // The listener has read no byte of the hello.
    char bytes[64];
    EXPECT_EQ(recv(fd, bytes, sizeof bytes, 0), ssize_t(hello.size()));
    EXPECT_NE(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    EXPECT_NE(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
    const auto option = [](int of, int level, int name) {
      int value = 0;
      socklen_t size = sizeof value;
      getsockopt(of, level, name, &value, &size);
      return value;
    };
    EXPECT_NE(option(door.listener_fd(), SOL_SOCKET, SO_ACCEPTCONN), 0);
    EXPECT_NE(option(fd, IPPROTO_TCP, TCP_NODELAY), 0);
    // The kernel doubles it, for its own overhead.
    EXPECT_EQ(option(fd, SOL_SOCKET, SO_RCVBUF),
              2 * ConnectionLimits().small_receive_buffer);
    // Only the caller owns the connection.
    EXPECT_EQ(send(fd, "x", 1, 0), 1);
    EXPECT_EQ(client.Hear(), "x");
    close(fd);
    EXPECT_EQ(client.Hear(), "end");
  }
}

TEST(ListenerTest, BytesMayComeOneByOne) {
  for (const bool plain : {false, true}) {
    Door door(plain ? Plain() : Tls());
    const std::string_view hello = plain ? kHttp2Preface : kTlsHello;
    ListenerClient client(door->port());
    for (const char& byte : hello) {
      ASSERT_TRUE(client.Say({&byte, 1}));
    }
    const int fd = door.Next();
    ASSERT_GE(fd, 0);
    close(fd);
  }
}

TEST(ListenerTest, GarbageIsClosedAtOnce) {
  const struct {
    bool plain;
    std::string_view said;
  } kRows[] = {
      {false, "GET / HTTP/1.1\r\n\r\n"},
      {false, kHttp2Preface},
      {false, "\x16\x02"},
      {false, "\x16\x03\x01\x02\x10\x02"},  // Not a ClientHello.
      {false, "\x15"},
      {true, "PRI * HTTP/3.0"},
      {true, "PUT"},
      {true, kTlsHello},
  };
  Door tls(Tls());
  Door plain(Plain());
  for (const auto& row : kRows) {
    ListenerClient client((row.plain ? plain : tls)->port());
    ASSERT_TRUE(client.Say(row.said));
    EXPECT_EQ(client.Hear(), "end") << row.said;
  }
  EXPECT_EQ(tls.CountsNow(kTlsHello).garbage, 5u);
  EXPECT_EQ(plain.CountsNow(kHttp2Preface).garbage, 3u);
}

TEST(ListenerTest, SilenceIsClosedAndCostsNoTimeMeanwhile) {
  Listener::Options options = Tls();
  options.limits.silence = absl::Milliseconds(500);
  Door door(std::move(options));
  ListenerClient silent(door->port());
  ListenerClient one_byte(door->port());
  ASSERT_TRUE(one_byte.Say("\x16"));
  const absl::Duration before = CpuTime();
  EXPECT_EQ(silent.Hear(), "end");
  EXPECT_EQ(one_byte.Hear(), "end");
  EXPECT_LT(CpuTime() - before, absl::Milliseconds(250));
  EXPECT_EQ(door.CountsNow(kTlsHello).silent, 2u);
}

TEST(ListenerTest, WhoHangsUpIsForgotten) {
  Door door(Tls());
  ListenerClient(door->port()).Close();
  ListenerClient one_byte(door->port());
  ASSERT_TRUE(one_byte.Say("\x16"));
  one_byte.Close();
  const HandshakeCounts counts = door.CountsNow(kTlsHello);
  EXPECT_EQ(counts.hung_up, 2u);
  EXPECT_EQ(counts.waiting, 0u);
}

TEST(ListenerTest, ACrowdClosesItsOwnOldest) {
  Listener::Options options = Tls();
  options.limits.waiting_per_address_max = 2;
  Door door(std::move(options));
  ListenerClient other;
  ASSERT_TRUE(other.From("127.0.0.2"));
  ASSERT_TRUE(other.Connect(door->port()));
  std::vector<ListenerClient> crowd;
  for (int i = 0; i < 3; ++i) crowd.emplace_back(door->port());
  EXPECT_EQ(crowd[0].Hear(), "end");
  // The other client is still connected.
  ASSERT_TRUE(other.Say(kTlsHello));
  const int fd = door.Next();
  ASSERT_GE(fd, 0);
  close(fd);
}

TEST(ListenerTest, AboveTheRateTheyWaitAndAreHandedOnInTime) {
  Listener::Options options = Tls();
  options.limits.handshakes_per_address_per_second = 20;
  options.limits.handshakes_per_address_burst = 1;
  Door door(std::move(options));
  const absl::Time start = MonotonicNow();
  std::vector<ListenerClient> clients;
  for (int i = 0; i < 3; ++i) {
    clients.emplace_back(door->port());
    ASSERT_TRUE(clients.back().Say(kTlsHello));
  }
  for (int i = 0; i < 3; ++i) {
    const int fd = door.Next();
    ASSERT_GE(fd, 0);
    close(fd);
  }
  EXPECT_GE(MonotonicNow() - start, absl::Milliseconds(100));
}

TEST(ListenerTest, WhereHandshakesAreFewOneBeginsWhereAnotherEnds) {
  Listener::Options options = Tls();
  options.limits.handshakes_at_once = 1;
  // Only the end of a handshake lets the next one begin.
  options.limits.handshake_time = absl::Hours(1);
  options.limits.patience = absl::Hours(1);
  Door door(std::move(options));
  std::vector<ListenerClient> clients;
  for (int i = 0; i < 3; ++i) {
    clients.emplace_back(door->port());
    ASSERT_TRUE(clients.back().Say(kTlsHello));
  }
  for (uint64_t i = 1; i <= 3; ++i) {
    const int fd = door.Next();
    ASSERT_GE(fd, 0);
    close(fd);
    EXPECT_EQ(door->counts().handed_on, i);
    door->Release(door.newest());
  }
}

TEST(ListenerTest, AsManyWaitAsAgentsLeaveRoomFor) {
  Listener::Options options = Tls();
  options.limits.waiting_and_agents_max = 5;
  options.limits.silence = absl::Hours(1);
  Door door(std::move(options), /*agents=*/3);
  std::vector<ListenerClient> clients;
  for (int i = 0; i < 3; ++i) clients.emplace_back(door->port());
  EXPECT_EQ(clients[0].Hear(), "end");
  for (int i = 1; i < 3; ++i) {
    ASSERT_TRUE(clients[i].Say(kTlsHello));
    const int fd = door.Next();
    ASSERT_GE(fd, 0);
    close(fd);
  }
}

TEST(ListenerTest, StrangersDoNotKeepAnybodyOut) {
  Door door(Tls());
  std::vector<ListenerClient> silent;
  for (int i = 0; i < 1500; ++i) silent.emplace_back(door->port());
  std::vector<ListenerClient> loud;
  for (int i = 0; i < 500; ++i) {
    loud.emplace_back(door->port());
    ASSERT_TRUE(loud.back().Say("garbage"));
  }
  door.Pass(kTlsHello);
  for (ListenerClient& client : loud) EXPECT_EQ(client.Hear(), "end");
  const HandshakeCounts counts = door.CountsNow(kTlsHello);
  EXPECT_EQ(counts.arrived, 1500u + 500u + 2u);
  EXPECT_EQ(counts.handed_on, 2u);
  // Each other client was displaced, was counted as garbage or silent, or still
  // waits.
  EXPECT_EQ(counts.garbage + counts.crowded + counts.silent + counts.waiting,
            2000u);
  EXPECT_LE(counts.waiting, ConnectionLimits{}.waiting_per_address_max);
}

TEST(ListenerTest, WithoutDescriptorsTheLongestWaitingGoes) {
  Door door(Tls());
  ListenerClient first;
  ListenerClient second;
  DescriptorLimit one_more(NextDescriptor() + 1);
  ASSERT_TRUE(first.Connect(door->port()));
  ASSERT_TRUE(second.Connect(door->port()));
  EXPECT_EQ(first.Hear(), "end");
  ASSERT_TRUE(second.Say(kTlsHello));
  const int fd = door.Next();
  EXPECT_GE(fd, 0);
  close(fd);
}

TEST(ListenerTest, WithoutAnyDescriptorItWaitsForOne) {
  Listener::Options options = Tls();
  options.limits.descriptor_pause = absl::Milliseconds(10);
  Door door(std::move(options));
  ListenerClient client;
  DescriptorLimit none(NextDescriptor());
  ASSERT_TRUE(client.Connect(door->port()));
  ASSERT_TRUE(client.Say(kTlsHello));
  // Meanwhile the client is not closed, and accept is not retried without a
  // pause.
  const absl::Duration before = CpuTime();
  pollfd closed = {client.fd(), POLLIN, 0};
  EXPECT_EQ(poll(&closed, 1, /*timeout=*/300), 0);
  EXPECT_LT(CpuTime() - before, absl::Milliseconds(150));
  none.Lift();
  const int fd = door.Next();
  EXPECT_GE(fd, 0);
  close(fd);
}

TEST(ListenerTest, StopFreesThePortAndClosesWhatWaits) {
  auto listener = Listener::Open(Tls());
  ASSERT_TRUE(listener.ok());
  (*listener)->Start([](int fd, int, HandshakeLimiter::Id) {
    ADD_FAILURE() << "handed on";
    close(fd);
  });
  std::vector<ListenerClient> clients;
  for (int i = 0; i < 200; ++i) clients.emplace_back((*listener)->port());
  (*listener)->Stop();
  (*listener)->Stop();
  for (ListenerClient& client : clients) {
    // A reset means that the connection was still in the kernel's queue.
    const std::string heard = client.Hear();
    EXPECT_TRUE(heard == "end" || heard == "reset") << heard;
  }
  const auto next = Listener::Open({.listen = (*listener)->sockets()[0]});
  EXPECT_TRUE(next.ok()) << next.status();
}

TEST(ListenerTest, StopWithoutStart) {
  auto listener = Listener::Open(Tls());
  ASSERT_TRUE(listener.ok());
  ListenerClient client((*listener)->port());
  (*listener)->Stop();
  EXPECT_EQ(client.Hear(), "reset");
}

}  // namespace
}  // namespace rollcall
