// UnauthenticatedConnections with real sockets on loopback: which connections
// are closed, and which stay.
#include "daemon/server/connections/unauthenticated_connections.h"

#include <gtest/gtest.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "daemon/server/connections/served_socket.h"
#include "tests/unit/server/connections/unauthenticated_connections_fixture.h"

namespace rollcall {
namespace {

// How many bytes this client may send now, as its peer's kernel has told it.
uint32_t WindowOf(const ListenerClient& client) {
  tcp_info info = {};
  socklen_t size = sizeof info;
  EXPECT_EQ(getsockopt(client.fd(), IPPROTO_TCP, TCP_INFO, &info, &size), 0);
  return info.tcpi_snd_wnd;
}

TEST_F(UnauthenticatedConnectionsTest, WhoShowsNoRightIsDisconnected) {
  Begin(kSoon);
  const auto pair = Connect();
  ASSERT_TRUE(connections_->Arrive(pair->served, ++last_));
  // The client is closed although it sends data.
  EXPECT_TRUE(pair->client.Say("something"));
  EXPECT_EQ(pair->client.Hear(), "reset");
  EXPECT_EQ(connections_->disconnected(), 1u);
  EXPECT_TRUE(BecomesSize(0));
}

TEST_F(UnauthenticatedConnectionsTest, AStrangerMaySayLittle) {
  Begin(absl::Hours(1));
  const auto pair = Connect();
  ASSERT_TRUE(connections_->Arrive(pair->served, ++last_));
  connections_->Called(pair->key);
  EXPECT_TRUE(pair->client.Say(std::string(kBytesMax, 'x')));
  // The bytes count whether or not they have been read.
  std::string taken(kBytesMax, 0);
  EXPECT_EQ(recv(pair->served, taken.data(), taken.size(), MSG_WAITALL),
            static_cast<ssize_t>(kBytesMax));
  EXPECT_EQ(connections_->disconnected(), 0u);
  EXPECT_TRUE(pair->client.Say("x"));
  EXPECT_EQ(pair->client.Hear(), "reset");
  EXPECT_EQ(connections_->disconnected(), 1u);
}

TEST_F(UnauthenticatedConnectionsTest, AfterAnIntroductionAHelloMayBeLong) {
  Begin(absl::Hours(1));
  const auto pair = Connect();
  ASSERT_TRUE(connections_->Arrive(pair->served, ++last_));
  connections_->Called(pair->key);
  EXPECT_EQ(connections_->Introduce(pair->key), last_);
  EXPECT_EQ(connections_->Introduce("127.0.0.1:1"), std::nullopt);
  Pour(*pair, 3 * kBytesMax);
  AwaitLooked();
  EXPECT_EQ(connections_->size(), 1u);
  EXPECT_TRUE(pair->client.Say("x"));
  EXPECT_NE(pair->client.Hear(), "nothing");
  EXPECT_EQ(connections_->disconnected(), 1u);
}

TEST_F(UnauthenticatedConnectionsTest, LongHellosCountWithAgentsMessages) {
  Begin(absl::Hours(1));
  const auto introduced = [this] {
    auto pair = Connect();
    EXPECT_TRUE(connections_->Arrive(pair->served, ++last_));
    connections_->Called(pair->key);
    EXPECT_EQ(connections_->Introduce(pair->key), last_);
    return pair;
  };
  const auto large = introduced(), small = introduced();
  Pour(*large, 3 * kBytesMax);
  Pour(*small, kBytesMax);
  AwaitLooked();
  EXPECT_EQ(connections_->size(), 2u);
  EXPECT_TRUE(small->client.Say("x"));
  EXPECT_NE(large->client.Hear(), "nothing");
  EXPECT_EQ(connections_->size(), 1u);
  // Neither one that is closed nor one that has authenticated counts.
  connections_->Know(small->key);
  EXPECT_EQ(connections_->Introduce(small->key), std::nullopt);
  const auto another = introduced();
  Pour(*another, 3 * kBytesMax);
  AwaitLooked();
  EXPECT_EQ(connections_->size(), 1u);
  EXPECT_EQ(connections_->disconnected(), 1u);
}

TEST_F(UnauthenticatedConnectionsTest, CallAfterCallIsTooMany) {
  Begin(absl::Hours(1));
  const auto pair = Connect();
  ASSERT_TRUE(connections_->Arrive(pair->served, ++last_));
  connections_->Called(pair->key);
  connections_->Called(pair->key);
  EXPECT_EQ(connections_->disconnected(), 0u);
  connections_->Called(pair->key);
  EXPECT_EQ(connections_->disconnected(), 1u);
  EXPECT_EQ(pair->client.Hear(), "reset");
}

TEST_F(UnauthenticatedConnectionsTest, TheDoorMayTakeOneAway) {
  Begin(absl::Hours(1));
  const auto stays = Connect();
  const auto goes = Connect("127.0.0.2");
  ASSERT_TRUE(connections_->Arrive(stays->served, 7));
  ASSERT_TRUE(connections_->Arrive(goes->served, 8));
  connections_->Displace(8);
  connections_->Displace(9);  // Never arrived.
  EXPECT_EQ(goes->client.Hear(), "reset");
  EXPECT_EQ(connections_->size(), 1u);
  EXPECT_EQ(Released(1),
            std::vector<UnauthenticatedConnections::ConnectionId>{8});
}

TEST_F(UnauthenticatedConnectionsTest, TheDoorIsToldOfEachOnce) {
  Begin(absl::Hours(1));
  const auto known = Connect();
  const auto gone = Connect();
  const auto here = Connect();
  ASSERT_TRUE(connections_->Arrive(known->served, 1));
  ASSERT_TRUE(connections_->Arrive(gone->served, 2));
  ASSERT_TRUE(connections_->Arrive(here->served, 3));
  connections_->Know(known->key);
  connections_->Know(known->key);
  EXPECT_EQ(Released(1),
            std::vector<UnauthenticatedConnections::ConnectionId>{1});
  End(*gone);
  EXPECT_EQ(Released(2),
            (std::vector<UnauthenticatedConnections::ConnectionId>{1, 2}));
  EXPECT_EQ(connections_->hung_up(), 1u);
}

TEST_F(UnauthenticatedConnectionsTest, AnAddressIsChargedForBytesInVain) {
  limits_.bytes_in_vain_max = 900;
  Begin(absl::Hours(1));
  const struct {
    uint8_t last;
    uint64_t charged;
  } kExpected[] = {
      {6, 0},    // An admin.
      {2, 501},  // It ends; the kernel counts the end as one more byte.
      {3, 500},  // It makes too many calls.
      {4, 301},  // A viewer ends.
      {5, 301},  // An agent ends, and has sent 300 bytes since a message.
      {7, 900},  // As 3, and more bytes do not count.
  };
  std::vector<std::unique_ptr<Pair>> pairs;
  for (const auto& [last, charged] : kExpected) {
    pairs.push_back(Connect(absl::StrCat("127.0.0.", last).c_str()));
    ASSERT_TRUE(connections_->Arrive(pairs.back()->served, ++last_));
    Pour(*pairs.back(), 500);
  }
  connections_->Know(pairs[0]->key);
  connections_->Know(pairs[3]->key, "token1");
  Pour(*pairs[3], 300);
  Pour(*pairs[5], 450);
  for (int i = 0; i < 3; ++i) {
    connections_->Called(pairs[2]->key);
    connections_->Called(pairs[5]->key);
  }
  absl::StatusOr<AgentStream> stream =
      connections_->Attend(pairs[4]->key, {"token1"});
  ASSERT_TRUE(stream.ok()) << stream.status();
  Pour(*pairs[4], 200);
  ++**stream;
  Pour(*pairs[4], 1);  // Shows that the message has ended.
  AwaitLooked();
  Pour(*pairs[4], 300);
  for (const auto& pair : pairs) End(*pair);
  AwaitLooked();
  for (const auto& [last, charged] : kExpected) {
    EXPECT_LE(Charged(last), charged) << int{last};
    // What a viewer has sent is soon forgotten.
    EXPECT_GE(Charged(last), last == 4 ? charged - 100 : charged) << int{last};
  }
}

// Until it authenticates, a peer can send little that has not been read.
TEST_F(UnauthenticatedConnectionsTest, WhoIsKnownMaySendMoreAtOnce) {
  SetReceiveBuffer(listening_, limits_.small_receive_buffer);
  Begin(absl::Hours(1));
  const auto pair = Connect();
  EXPECT_LE(WindowOf(pair->client), 8u << 10);
  ASSERT_TRUE(connections_->Arrive(pair->served, ++last_));
  connections_->Know(pair->key, "token1");
  for (int i = 0; i < 8; ++i) Pour(*pair, 1 << 10);
  EXPECT_LE(WindowOf(pair->client), 8u << 10);
  connections_->Know(pair->key);
  // The window grows while data is read.
  for (int i = 0; i < 64; ++i) Pour(*pair, 4 << 10);
  EXPECT_GE(WindowOf(pair->client), 32u << 10);
}

TEST_F(UnauthenticatedConnectionsTest, AViewerMayStayAndSayOnlySoMuch) {
  Begin(kSoon);
  const auto viewer = Connect();
  const auto unknown = Connect();
  ASSERT_TRUE(connections_->Arrive(viewer->served, 1));
  connections_->Know(viewer->key, "token1");
  EXPECT_EQ(Released(1),
            std::vector<UnauthenticatedConnections::ConnectionId>{1});
  ASSERT_TRUE(connections_->Arrive(unknown->served, 2));
  EXPECT_EQ(unknown->client.Hear(), "reset");
  // The viewer is still connected, and may send its share of calls and bytes.
  for (int i = 0; i < 100; ++i) connections_->Called(viewer->key);
  EXPECT_TRUE(viewer->client.Say(std::string(2 * kBytesMax, 'x')));
  EXPECT_EQ(send(viewer->served, "x", 1, MSG_NOSIGNAL), 1);
  EXPECT_EQ(viewer->client.Hear(), "x");
  EXPECT_TRUE(viewer->client.Say(std::string(kBytesMax + 1, 'x')));
  EXPECT_NE(viewer->client.Hear(), "nothing");
  EXPECT_EQ(connections_->disconnected(), 2u);
}

TEST_F(UnauthenticatedConnectionsTest, AViewerMaySendOnlySoMuchAtOnce) {
  limits_.viewer_bytes_per_second = limits_.viewer_bytes_burst = 1000;
  limits_.viewer_calls_per_second = limits_.viewer_calls_burst = 1;
  Begin(absl::Hours(1));
  const auto says = Connect(), calls = Connect();
  for (const auto* pair : {&says, &calls}) {
    ASSERT_TRUE(connections_->Arrive((*pair)->served, ++last_));
    connections_->Know((*pair)->key, "token1");
  }
  EXPECT_TRUE(says->client.Say(std::string(3000, 'x')));
  EXPECT_NE(says->client.Hear(), "nothing");
  for (int i = 0; i < 4; ++i) connections_->Called(calls->key);
  EXPECT_EQ(calls->client.Hear(), "reset");
  EXPECT_EQ(connections_->disconnected(), 2u);
}

TEST_F(UnauthenticatedConnectionsTest, AViewerHasSoManyConnections) {
  Begin(absl::Hours(1));
  std::vector<std::unique_ptr<Pair>> pairs;
  for (int i = 0; i < 3; ++i) {
    pairs.push_back(Connect());
    ASSERT_TRUE(connections_->Arrive(pairs.back()->served, ++last_));
    connections_->Know(pairs.back()->key, "token1");
  }
  EXPECT_EQ(pairs[2]->client.Hear(), "reset");
  const auto other = Connect();
  ASSERT_TRUE(connections_->Arrive(other->served, ++last_));
  connections_->Know(other->key, "token2");
  // A connection that also shows an admin's token is no longer limited.
  connections_->Know(pairs[0]->key);
  const auto another = Connect();
  ASSERT_TRUE(connections_->Arrive(another->served, ++last_));
  connections_->Know(another->key, "token1");
  EXPECT_EQ(connections_->disconnected(), 1u);
}

TEST_F(UnauthenticatedConnectionsTest, ViewersHaveSoManyConnectionsInAll) {
  Begin(absl::Hours(1));
  std::vector<std::unique_ptr<Pair>> pairs;
  for (const char* token : {"few", "many", "many", "other", "another"}) {
    pairs.push_back(Connect());
    ASSERT_TRUE(connections_->Arrive(pairs.back()->served, ++last_));
    connections_->Know(pairs.back()->key, token);
  }
  // The newest connection of the token with the most connections was closed.
  EXPECT_EQ(pairs[2]->client.Hear(), "reset");
  EXPECT_EQ(connections_->disconnected(), 1u);
}

// -----------------------------------------------------------------------------

TEST_F(UnauthenticatedConnectionsTest, WhoIsKnownMaySayMore) {
  Begin(absl::Hours(1));
  const auto pair = Connect();
  ASSERT_TRUE(connections_->Arrive(pair->served, ++last_));
  connections_->Know(pair->key);
  EXPECT_TRUE(pair->client.Say(std::string(2 * kBytesMax, 'x')));
  const auto other = Connect();
  ASSERT_TRUE(connections_->Arrive(other->served, ++last_));
  EXPECT_TRUE(other->client.Say(std::string(kBytesMax + 1, 'x')));
  // The connection ends with a reset, because the bytes were not read.
  EXPECT_NE(other->client.Hear(), "nothing");
  EXPECT_EQ(connections_->disconnected(), 1u);
  EXPECT_EQ(send(pair->served, "x", 1, MSG_NOSIGNAL), 1);
  EXPECT_EQ(pair->client.Hear(), "x");
}

TEST_F(UnauthenticatedConnectionsTest, WhoIsKnownMayStay) {
  Begin(kSoon);
  const auto known = Connect();
  const auto unknown = Connect();
  ASSERT_TRUE(connections_->Arrive(known->served, ++last_));
  connections_->Know(known->key);
  ASSERT_TRUE(connections_->Arrive(unknown->served, ++last_));
  // The later connection is closed, so the time of the first one is over as
  // well.
  EXPECT_EQ(unknown->client.Hear(), "reset");
  EXPECT_EQ(connections_->disconnected(), 1u);
  EXPECT_EQ(send(known->served, "x", 1, MSG_NOSIGNAL), 1);
  EXPECT_EQ(known->client.Hear(), "x");
}

TEST_F(UnauthenticatedConnectionsTest, WhoGoesByHimselfIsForgotten) {
  Begin(absl::Hours(1));
  const auto here = Connect();
  const auto gone = Connect();
  ASSERT_TRUE(connections_->Arrive(here->served, ++last_));
  ASSERT_TRUE(connections_->Arrive(gone->served, ++last_));
  EXPECT_EQ(connections_->size(), 2u);
  End(*gone);
  EXPECT_TRUE(BecomesSize(1));
  EXPECT_EQ(connections_->disconnected(), 0u);
}

// gRPC does not read that the peer has closed its side while the peer reads
// nothing.
TEST_F(UnauthenticatedConnectionsTest, WhoOnlyEndsHisOwnSideIsDisconnected) {
  limits_.end_grace = kSoon;
  Begin(absl::Hours(1));
  AgentStream stream;
  const auto agent = Agent(&stream);
  const auto unknown = Connect(), viewer = Connect(), admin = Connect();
  for (const auto* pair : {&unknown, &viewer, &admin}) {
    ASSERT_TRUE(connections_->Arrive((*pair)->served, ++last_));
  }
  connections_->Know(viewer->key, "viewer");
  connections_->Know(admin->key);
  for (const auto* pair : {&agent, &unknown, &viewer, &admin}) {
    EXPECT_TRUE(Stands(**pair));
    shutdown((*pair)->client.fd(), SHUT_WR);
    EXPECT_EQ((*pair)->client.Hear(), "reset");
  }
  EXPECT_EQ(connections_->disconnected(), 4u);
  EXPECT_EQ(connections_->agents(), 0u);
  EXPECT_EQ(connections_->size(), 0u);
}

// gRPC names a connection by its peer's address and port, so calls of a second
// one with the same name would be counted for the first, and the end of one
// would end the limits of the other.
TEST_F(UnauthenticatedConnectionsTest, OfTwoWithOneNameTheSecondIsRefused) {
  Begin(absl::Hours(1));
  AgentStream stream;
  const auto agent = Agent(&stream);
  const auto unknown = Connect(), viewer = Connect(), admin = Connect();
  for (const auto* pair : {&unknown, &viewer, &admin}) {
    ASSERT_TRUE(connections_->Arrive((*pair)->served, ++last_));
  }
  connections_->Know(viewer->key, "viewer");
  connections_->Know(admin->key);
  for (const auto* pair : {&agent, &unknown, &viewer, &admin}) {
    EXPECT_FALSE(connections_->Arrive(TwinOf(**pair)->served, ++last_));
    EXPECT_TRUE(Stands(**pair));
  }
  EXPECT_EQ(connections_->disconnected(), 4u);
  // The end of an agent's connection may have been missed.
  close(std::exchange(agent->served, -1));
  const auto twin = TwinOf(*agent);
  EXPECT_TRUE(connections_->Arrive(twin->served, ++last_));
  EXPECT_EQ(connections_->agents(), 0u);
}

TEST_F(UnauthenticatedConnectionsTest, TheServersOwnCloseIsTheEnd) {
  Begin(absl::Hours(1));
  const auto pair = Connect();
  ASSERT_TRUE(connections_->Arrive(pair->served, ++last_));
  // gRPC ends a connection like this.
  shutdown(pair->served, SHUT_RDWR);
  close(pair->served);
  pair->served = -1;
  EXPECT_EQ(pair->client.Hear(), "end");
  EXPECT_TRUE(BecomesSize(0));
}

TEST_F(UnauthenticatedConnectionsTest, WhoIsLeftAtTheEndIsDisconnected) {
  Begin(absl::Hours(1));
  AgentStream stream;
  const auto agent = Agent(&stream);
  const auto unknown = Connect(), viewer = Connect(), admin = Connect();
  for (const auto* pair : {&unknown, &viewer, &admin}) {
    ASSERT_TRUE(connections_->Arrive((*pair)->served, ++last_));
  }
  connections_->Know(viewer->key, "viewer");
  connections_->Know(admin->key);
  connections_->EndAllAt(MonotonicNow() + kSoon);
  for (const auto* pair : {&agent, &unknown, &viewer, &admin}) {
    EXPECT_EQ((*pair)->client.Hear(), "reset");
  }
  EXPECT_EQ(connections_->disconnected(), 0u);
}

TEST_F(UnauthenticatedConnectionsTest, StopLeavesTheConnectionsAlone) {
  Begin(absl::Hours(1));
  const auto pair = Connect();
  ASSERT_TRUE(connections_->Arrive(pair->served, ++last_));
  connections_->Stop();
  connections_.reset();
  EXPECT_EQ(send(pair->served, "x", 1, MSG_NOSIGNAL), 1);
  EXPECT_EQ(pair->client.Hear(), "x");
}

TEST(PeerKey, IsAddressAndPort) {
  const struct {
    const char* peer;
    const char* key;
  } kRows[] = {
      {"ipv4:127.0.0.1:0", "127.0.0.1:0"},
      {"ipv6:[::1]:0", "::1:0"},
      {"ipv6:%5B::1%5D:0", "::1:0"},
      {"ipv6:[::ffff:10.0.0.1]:0", "10.0.0.1:0"},
      {"unix:/tmp/x", ""},
      {"", ""},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(PeerKey(row.peer), row.key) << row.peer;
  }
}

}  // namespace
}  // namespace rollcall
