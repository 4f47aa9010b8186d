// Guests with real sockets on loopback: who is shown out, who may stay.
#include "daemon/server/front_door/guests.h"

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
#include "tests/unit/server/door_client.h"

namespace rollcall {
namespace {

constexpr size_t kBytesMax = 10'000;
constexpr absl::Duration kSoon = absl::Milliseconds(50);

// Both ends of a connection; `served` is the one that gRPC would have.
struct Pair {
  DoorClient client;
  int served = -1;
  std::string key;

  ~Pair() {
    if (served >= 0) close(served);
  }
};

class GuestsTest : public testing::Test {
 protected:
  GuestsTest() : listening_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in own = {};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof own;
    EXPECT_EQ(bind(listening_, reinterpret_cast<sockaddr*>(&own), size), 0);
    EXPECT_EQ(listen(listening_, 64), 0);
    getsockname(listening_, reinterpret_cast<sockaddr*>(&own), &size);
    port_ = ntohs(own.sin_port);
  }
  ~GuestsTest() override { close(listening_); }

  static DoorLimits Limits() {
    DoorLimits limits;
    limits.guest_bytes_max = kBytesMax;
    limits.guest_bytes_before_call = kBytesMax / 10;
    limits.guest_calls_max = 2;
    limits.guests_bytes_max = 2 * kBytesMax;
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
    limits_.guest_patience = patience;
    auto made = Guests::Make(limits_, [this](Guests::DoorId id) {
      MutexLock lock(mutex_);
      released_.push_back(id);
    });
    ASSERT_TRUE(made.ok()) << made.status();
    guests_ = *std::move(made);
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
      if (guests_->size() == wanted) return true;
    }
    return false;
  }

  // Until the door was told of so many.
  std::vector<Guests::DoorId> Released(size_t count) {
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
    EXPECT_TRUE(guests_->Arrive(pair->served, ++last_));
    guests_->Called(pair->key);
    absl::StatusOr<AgentStream> attends = guests_->Attend(pair->key, right);
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
    const size_t before = guests_->size();
    const auto last = Connect();
    ASSERT_TRUE(guests_->Arrive(last->served, ++last_));
    last->client.Close();
    ASSERT_TRUE(BecomesSize(before));
  }

  static bool Stands(Pair& pair) {
    return send(pair.served, "x", 1, MSG_NOSIGNAL) == 1 &&
           pair.client.Hear() == "x";
  }

  const int listening_;
  int port_ = 0;
  DoorLimits limits_ = Limits();
  Guests::DoorId last_ = 0;
  Mutex mutex_;
  std::vector<Guests::DoorId> released_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Guests> guests_;
};

TEST_F(GuestsTest, WhoShowsNoRightIsShownOut) {
  Begin(kSoon);
  const auto pair = Connect();
  ASSERT_TRUE(guests_->Arrive(pair->served, ++last_));
  // However busy he is.
  EXPECT_TRUE(pair->client.Say("something"));
  EXPECT_EQ(pair->client.Hear(), "reset");
  EXPECT_EQ(guests_->shown_out(), 1u);
  EXPECT_TRUE(BecomesSize(0));
}

TEST_F(GuestsTest, WhoSaysMoreThanAHelloIsShownOut) {
  Begin(absl::Hours(1));
  const auto pair = Connect();
  ASSERT_TRUE(guests_->Arrive(pair->served, ++last_));
  guests_->Called(pair->key);
  EXPECT_TRUE(pair->client.Say(std::string(kBytesMax, 'x')));
  // Read or not.
  std::string taken(kBytesMax, 0);
  EXPECT_EQ(recv(pair->served, taken.data(), taken.size(), MSG_WAITALL),
            static_cast<ssize_t>(kBytesMax));
  EXPECT_EQ(guests_->shown_out(), 0u);
  EXPECT_TRUE(pair->client.Say("x"));
  EXPECT_EQ(pair->client.Hear(), "reset");
  EXPECT_EQ(guests_->shown_out(), 1u);
}

TEST_F(GuestsTest, BeforeACallThereIsLittleToSay) {
  Begin(absl::Hours(1));
  const auto pair = Connect();
  ASSERT_TRUE(guests_->Arrive(pair->served, ++last_));
  EXPECT_TRUE(pair->client.Say(std::string(kBytesMax / 10 + 1, 'x')));
  EXPECT_NE(pair->client.Hear(), "nothing");
  EXPECT_EQ(guests_->shown_out(), 1u);
}

TEST_F(GuestsTest, CallAfterCallIsTooMany) {
  Begin(absl::Hours(1));
  const auto pair = Connect();
  ASSERT_TRUE(guests_->Arrive(pair->served, ++last_));
  guests_->Called(pair->key);
  guests_->Called(pair->key);
  EXPECT_EQ(guests_->shown_out(), 0u);
  guests_->Called(pair->key);
  EXPECT_EQ(guests_->shown_out(), 1u);
  EXPECT_EQ(pair->client.Hear(), "reset");
}

TEST_F(GuestsTest, TheDoorMayTakeOneAway) {
  Begin(absl::Hours(1));
  const auto stays = Connect();
  const auto goes = Connect("127.0.0.2");
  ASSERT_TRUE(guests_->Arrive(stays->served, 7));
  ASSERT_TRUE(guests_->Arrive(goes->served, 8));
  guests_->Displace(8);
  guests_->Displace(9);  // It has never been here.
  EXPECT_EQ(goes->client.Hear(), "reset");
  EXPECT_EQ(guests_->size(), 1u);
  EXPECT_EQ(Released(1), std::vector<Guests::DoorId>{8});
}

TEST_F(GuestsTest, TheDoorIsToldOfEachOnce) {
  Begin(absl::Hours(1));
  const auto known = Connect();
  const auto gone = Connect();
  const auto here = Connect();
  ASSERT_TRUE(guests_->Arrive(known->served, 1));
  ASSERT_TRUE(guests_->Arrive(gone->served, 2));
  ASSERT_TRUE(guests_->Arrive(here->served, 3));
  guests_->Know(known->key);
  guests_->Know(known->key);
  EXPECT_EQ(Released(1), std::vector<Guests::DoorId>{1});
  gone->client.Close();
  EXPECT_EQ(Released(2), (std::vector<Guests::DoorId>{1, 2}));
  EXPECT_EQ(guests_->hung_up(), 1u);
}

TEST_F(GuestsTest, WhereAllHaveSaidTooMuchTheNetworkThatSaidMostGoes) {
  Begin(absl::Hours(1));
  std::vector<std::unique_ptr<Pair>> loud;
  const struct {
    const char* from;
    size_t said;
  } kSaid[] = {{"127.0.0.9", kBytesMax * 6 / 10},
               // The largest one, and yet not of the network that said most.
               {"127.0.0.1", kBytesMax * 9 / 10},
               {"127.0.0.9", kBytesMax * 6 / 10}};
  for (const auto& [from, said] : kSaid) {
    loud.push_back(Connect(from));
    ASSERT_TRUE(guests_->Arrive(loud.back()->served, ++last_));
    guests_->Called(loud.back()->key);
    EXPECT_TRUE(loud.back()->client.Say(std::string(said, 'x')));
  }
  EXPECT_NE(loud[2]->client.Hear(), "nothing");
  EXPECT_TRUE(BecomesSize(2));
}

TEST_F(GuestsTest, AViewerMayStayAndSayOnlySoMuch) {
  Begin(kSoon);
  const auto viewer = Connect();
  const auto unknown = Connect();
  ASSERT_TRUE(guests_->Arrive(viewer->served, 1));
  guests_->Know(viewer->key, "token1");
  EXPECT_EQ(Released(1), std::vector<Guests::DoorId>{1});
  ASSERT_TRUE(guests_->Arrive(unknown->served, 2));
  EXPECT_EQ(unknown->client.Hear(), "reset");
  // It is still here, calls as often as it likes, and may say what it may.
  for (int i = 0; i < 100; ++i) guests_->Called(viewer->key);
  EXPECT_TRUE(viewer->client.Say(std::string(2 * kBytesMax, 'x')));
  EXPECT_EQ(send(viewer->served, "x", 1, MSG_NOSIGNAL), 1);
  EXPECT_EQ(viewer->client.Hear(), "x");
  EXPECT_TRUE(viewer->client.Say(std::string(kBytesMax + 1, 'x')));
  EXPECT_NE(viewer->client.Hear(), "nothing");
  EXPECT_EQ(guests_->shown_out(), 2u);
}

TEST_F(GuestsTest, AViewerHasSoManyConnections) {
  Begin(absl::Hours(1));
  std::vector<std::unique_ptr<Pair>> pairs;
  for (int i = 0; i < 3; ++i) {
    pairs.push_back(Connect());
    ASSERT_TRUE(guests_->Arrive(pairs.back()->served, ++last_));
    guests_->Know(pairs.back()->key, "token1");
  }
  EXPECT_EQ(pairs[2]->client.Hear(), "reset");
  const auto other = Connect();
  ASSERT_TRUE(guests_->Arrive(other->served, ++last_));
  guests_->Know(other->key, "token2");
  // Whoever shows an admin's token as well is bounded no more.
  guests_->Know(pairs[0]->key);
  const auto another = Connect();
  ASSERT_TRUE(guests_->Arrive(another->served, ++last_));
  guests_->Know(another->key, "token1");
  EXPECT_EQ(guests_->shown_out(), 1u);
}

TEST_F(GuestsTest, ViewersHaveSoManyConnectionsInAll) {
  Begin(absl::Hours(1));
  std::vector<std::unique_ptr<Pair>> pairs;
  for (const char* token : {"few", "many", "many", "other", "another"}) {
    pairs.push_back(Connect());
    ASSERT_TRUE(guests_->Arrive(pairs.back()->served, ++last_));
    guests_->Know(pairs.back()->key, token);
  }
  // The newest of the token that has most.
  EXPECT_EQ(pairs[2]->client.Hear(), "reset");
  EXPECT_EQ(guests_->shown_out(), 1u);
}

// --- Agents' connections -----------------------------------------------------

TEST_F(GuestsTest, AgentsHaveSoManyConnections) {
  Begin(absl::Hours(1));
  AgentStream first, second, third, none;
  const auto a = Agent(&first);
  const auto b = Agent(&second);
  EXPECT_EQ(Released(2), (std::vector<Guests::DoorId>{1, 2}));
  // Both have a stream: no third one, however often it asks.
  const auto c = Agent(&none);
  EXPECT_EQ(none, nullptr);
  EXPECT_FALSE(guests_->Attend(c->key, {"token1"}).ok());
  EXPECT_EQ(guests_->size(), 1u);
  // One that has no stream any more makes room.
  second.reset();
  const auto attends = guests_->Attend(c->key, {"token1"});
  EXPECT_TRUE(attends.ok()) << attends.status();
  EXPECT_EQ(b->client.Hear(), "reset");
  EXPECT_TRUE(Stands(*a));
  // An admin's is none of an agent's.
  guests_->Know(c->key);
  const auto d = Agent(&third);
  EXPECT_NE(third, nullptr);
  EXPECT_TRUE(Stands(*c));
}

TEST_F(GuestsTest, AnAgentHasOneStreamAConnection) {
  Begin(absl::Hours(1));
  AgentStream stream;
  const auto agent = Agent(&stream);
  ASSERT_NE(stream, nullptr);
  guests_->Called(agent->key);
  EXPECT_TRUE(
      absl::IsUnavailable(guests_->Attend(agent->key, {"token1"}).status()));
  // It may have another one after it.
  stream.reset();
  EXPECT_TRUE(guests_->Attend(agent->key, {"token1"}).ok());
  EXPECT_TRUE(Stands(*agent));
}

TEST_F(GuestsTest, AnAgentMakesFewCalls) {
  Begin(absl::Hours(1));
  AgentStream stream;
  const auto agent = Agent(&stream);
  guests_->Called(agent->key);
  EXPECT_TRUE(Stands(*agent));
  guests_->Called(agent->key);
  EXPECT_EQ(agent->client.Hear(), "reset");
  EXPECT_EQ(guests_->shown_out(), 1u);
}

TEST_F(GuestsTest, AnAgentSaysAsMuchAsItLikesInWholeMessages) {
  Begin(absl::Hours(1));
  AgentStream stream;
  const auto agent = Agent(&stream);
  for (int i = 0; i < 5; ++i) {
    Pour(*agent, 2 * kBytesMax);
    ++*stream;
    AwaitLooked();
  }
  // Its messages are made up for by the next bytes.
  Pour(*agent, 1);
  AwaitLooked();
  EXPECT_TRUE(Stands(*agent));
  // And no more than so much of one that never ends.
  EXPECT_TRUE(agent->client.Say(std::string(3 * kBytesMax + 1, 'x')));
  EXPECT_NE(agent->client.Hear(), "nothing");
  EXPECT_EQ(guests_->shown_out(), 1u);
}

TEST_F(GuestsTest, MessagesOfOneStreamDoNotMakeUpForAnotherCall) {
  Begin(absl::Hours(1));
  AgentStream stream;
  const auto agent = Agent(&stream);
  guests_->Called(agent->key);
  Pour(*agent, 2 * kBytesMax);
  ++*stream;
  AwaitLooked();
  EXPECT_TRUE(Stands(*agent));
  EXPECT_TRUE(agent->client.Say(std::string(kBytesMax + 1, 'x')));
  EXPECT_NE(agent->client.Hear(), "nothing");
}

TEST_F(GuestsTest, AViewersCallsCountWhereItAttends) {
  Begin(absl::Hours(1));
  const auto agent = Connect();
  ASSERT_TRUE(guests_->Arrive(agent->served, ++last_));
  guests_->Called(agent->key);
  guests_->Know(agent->key, "viewer1");
  guests_->Called(agent->key);
  const auto stream = guests_->Attend(agent->key, {"token1"});
  ASSERT_TRUE(stream.ok()) << stream.status();
  Pour(*agent, 2 * kBytesMax);
  ++**stream;
  AwaitLooked();
  EXPECT_TRUE(agent->client.Say(std::string(kBytesMax + 1, 'x')));
  EXPECT_NE(agent->client.Hear(), "nothing");
  // It left its place as a viewer.
  for (int i = 0; i < 2; ++i) {
    const auto viewer = Connect();
    ASSERT_TRUE(guests_->Arrive(viewer->served, ++last_));
    guests_->Know(viewer->key, "viewer1");
    EXPECT_TRUE(Stands(*viewer));
  }
}

TEST_F(GuestsTest, WhereAgentsHaveSaidTooMuchTheOneThatSaidMostGoes) {
  Begin(absl::Hours(1));
  AgentStream first, second;
  const auto a = Agent(&first);
  const auto b = Agent(&second);
  Pour(*a, 3 * kBytesMax);
  AwaitLooked();
  EXPECT_TRUE(Stands(*a));
  Pour(*b, kBytesMax + 1);
  EXPECT_EQ(a->client.Hear(), "reset");
  // What it had said counts no more.
  Pour(*b, kBytesMax);
  AwaitLooked();
  EXPECT_TRUE(Stands(*b));
}

TEST_F(GuestsTest, WithoutAStreamAnAgentDoesNotStay) {
  limits_.agent_grace = kSoon;
  limits_.agents_max = 3;
  Begin(absl::Hours(1));
  AgentStream stays, ends, comes_back, idle;
  const auto a = Agent(&stays);
  const auto b = Agent(&ends);
  const auto c = Agent(&comes_back);
  comes_back.reset();
  const auto back = guests_->Attend(c->key, {"token1"});
  ASSERT_TRUE(back.ok()) << back.status();
  ends.reset();
  EXPECT_EQ(b->client.Hear(), "reset");
  EXPECT_TRUE(Stands(*a));
  EXPECT_TRUE(Stands(*c));
  EXPECT_EQ(guests_->shown_out(), 0u);
}

TEST_F(GuestsTest, AStreamMayOutliveWhatItWasMadeBy) {
  Begin(absl::Hours(1));
  AgentStream stream;
  const auto agent = Agent(&stream);
  guests_.reset();
  ++*stream;
  stream.reset();
  EXPECT_TRUE(Stands(*agent));
}

TEST_F(GuestsTest, ATokenWithMoreThanHalfLosesItsNewest) {
  limits_.agents_max = 4;
  Begin(absl::Hours(1));
  std::vector<std::unique_ptr<Pair>> pairs;
  std::vector<AgentStream> streams(8);
  const auto attend = [&](const AgentRight& right) {
    const size_t at = pairs.size();
    pairs.push_back(Agent(&streams[at], right));
    return streams[at] != nullptr;
  };
  ASSERT_TRUE(attend({"many"}));
  ASSERT_TRUE(attend({"many"}));
  ASSERT_TRUE(attend({"few"}));
  ASSERT_TRUE(attend({"many"}));
  // No more of its own, and one less for another.
  EXPECT_FALSE(attend({"many"}));
  EXPECT_TRUE(attend({"other"}));
  EXPECT_EQ(pairs[3]->client.Hear(), "reset");
  streams[3].reset();
  // Half of them it keeps.
  EXPECT_FALSE(attend({"other"}));
  for (const int stays : {0, 1, 2, 5}) EXPECT_TRUE(Stands(*pairs[stays]));
}

TEST_F(GuestsTest, AnAgentThatReturnsIsLetInWhereNewcomersAreNot) {
  limits_.agents_max = 4;
  Begin(absl::Hours(1));
  std::vector<std::unique_ptr<Pair>> pairs;
  std::vector<AgentStream> streams(10);
  const auto attend = [&](const AgentRight& right) {
    const size_t at = pairs.size();
    pairs.push_back(Agent(&streams[at], right));
    return streams[at] != nullptr;
  };
  // An admin's has no token id, and stays.
  ASSERT_TRUE(attend({"", true}));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(attend({"token1"}));
  EXPECT_FALSE(attend({"token1"}));
  // The newest that came by the token goes, until there is none.
  ASSERT_TRUE(attend({"token1", true}));
  EXPECT_EQ(pairs[3]->client.Hear(), "reset");
  ASSERT_TRUE(attend({"token1", true}));
  EXPECT_EQ(pairs[2]->client.Hear(), "reset");
  ASSERT_TRUE(attend({"token1", true}));
  EXPECT_EQ(pairs[1]->client.Hear(), "reset");
  // Then the one that returned longest ago.
  ASSERT_TRUE(attend({"token1", true}));
  EXPECT_EQ(pairs[5]->client.Hear(), "reset");
  for (const int stays : {0, 6, 7, 8}) EXPECT_TRUE(Stands(*pairs[stays]));
}

TEST_F(GuestsTest, AnotherFilesDescriptorIsNotAnAgentsConnection) {
  Begin(absl::Hours(1));
  AgentStream ended, stays;
  const auto gone = Agent(&ended);
  const auto here = Agent(&stays);
  // Its number is another socket's.
  const int number = gone->served;
  close(std::exchange(gone->served, -1));
  const auto next = Connect();
  ASSERT_EQ(next->client.fd(), number);
  ended.reset();
  ASSERT_TRUE(guests_->Arrive(next->served, ++last_));
  EXPECT_TRUE(guests_->Attend(next->key, {"token1"}).ok());
  EXPECT_TRUE(Stands(*next));
}

// -----------------------------------------------------------------------------

TEST_F(GuestsTest, WhoIsKnownMaySayMore) {
  Begin(absl::Hours(1));
  const auto pair = Connect();
  ASSERT_TRUE(guests_->Arrive(pair->served, ++last_));
  guests_->Know(pair->key);
  EXPECT_TRUE(pair->client.Say(std::string(2 * kBytesMax, 'x')));
  const auto other = Connect();
  ASSERT_TRUE(guests_->Arrive(other->served, ++last_));
  EXPECT_TRUE(other->client.Say(std::string(kBytesMax + 1, 'x')));
  // A reset, since nobody has read it.
  EXPECT_NE(other->client.Hear(), "nothing");
  EXPECT_EQ(guests_->shown_out(), 1u);
  EXPECT_EQ(send(pair->served, "x", 1, MSG_NOSIGNAL), 1);
  EXPECT_EQ(pair->client.Hear(), "x");
}

TEST_F(GuestsTest, WhoIsKnownMayStay) {
  Begin(kSoon);
  const auto known = Connect();
  const auto unknown = Connect();
  ASSERT_TRUE(guests_->Arrive(known->served, ++last_));
  guests_->Know(known->key);
  ASSERT_TRUE(guests_->Arrive(unknown->served, ++last_));
  // The one who came later is out: the time of the first is over as well.
  EXPECT_EQ(unknown->client.Hear(), "reset");
  EXPECT_EQ(guests_->shown_out(), 1u);
  EXPECT_EQ(send(known->served, "x", 1, MSG_NOSIGNAL), 1);
  EXPECT_EQ(known->client.Hear(), "x");
}

TEST_F(GuestsTest, WhoGoesByHimselfIsForgotten) {
  Begin(absl::Hours(1));
  const auto here = Connect();
  const auto gone = Connect();
  ASSERT_TRUE(guests_->Arrive(here->served, ++last_));
  ASSERT_TRUE(guests_->Arrive(gone->served, ++last_));
  EXPECT_EQ(guests_->size(), 2u);
  gone->client.Close();
  EXPECT_TRUE(BecomesSize(1));
  EXPECT_EQ(guests_->shown_out(), 0u);
}

TEST_F(GuestsTest, TheServersOwnCloseIsTheEnd) {
  Begin(absl::Hours(1));
  const auto pair = Connect();
  ASSERT_TRUE(guests_->Arrive(pair->served, ++last_));
  // As gRPC ends a connection.
  shutdown(pair->served, SHUT_RDWR);
  close(pair->served);
  pair->served = -1;
  EXPECT_EQ(pair->client.Hear(), "end");
  EXPECT_TRUE(BecomesSize(0));
}

TEST_F(GuestsTest, StopLeavesTheConnectionsAlone) {
  Begin(absl::Hours(1));
  const auto pair = Connect();
  ASSERT_TRUE(guests_->Arrive(pair->served, ++last_));
  guests_->Stop();
  guests_.reset();
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
