// Agents' connections: how many may be open, and what they may send.
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/server/connections/unauthenticated_connections.h"
#include "tests/unit/server/connections/unauthenticated_connections_fixture.h"

namespace rollcall {
namespace {

// --- Agents' connections -----------------------------------------------------

TEST_F(UnauthenticatedConnectionsTest, AgentsHaveSoManyConnections) {
  Begin(absl::Hours(1));
  AgentStream first, second, third, none;
  const auto a = Agent(&first);
  const auto b = Agent(&second);
  EXPECT_EQ(Released(2),
            (std::vector<UnauthenticatedConnections::ConnectionId>{1, 2}));
  // Both connections have a stream, so a third one gets none, however often it
  // asks.
  const auto c = Agent(&none);
  EXPECT_EQ(none, nullptr);
  EXPECT_FALSE(connections_->Attend(c->key, {"token1"}).ok());
  EXPECT_EQ(connections_->size(), 1u);
  // A connection whose stream has ended makes room.
  second.reset();
  const auto attends = connections_->Attend(c->key, {"token1"});
  EXPECT_TRUE(attends.ok()) << attends.status();
  EXPECT_EQ(b->client.Hear(), "reset");
  EXPECT_TRUE(Stands(*a));
  // A connection with an admin's token does not count as an agent's.
  connections_->Know(c->key);
  const auto d = Agent(&third);
  EXPECT_NE(third, nullptr);
  EXPECT_TRUE(Stands(*c));
}

TEST_F(UnauthenticatedConnectionsTest, AnAgentHasOneStreamAConnection) {
  Begin(absl::Hours(1));
  AgentStream stream;
  const auto agent = Agent(&stream);
  ASSERT_NE(stream, nullptr);
  connections_->Called(agent->key);
  EXPECT_TRUE(absl::IsUnavailable(
      connections_->Attend(agent->key, {"token1"}).status()));
  // After that stream, the connection may have another one.
  stream.reset();
  EXPECT_TRUE(connections_->Attend(agent->key, {"token1"}).ok());
  EXPECT_TRUE(Stands(*agent));
}

TEST_F(UnauthenticatedConnectionsTest, AnAgentMakesFewCalls) {
  Begin(absl::Hours(1));
  AgentStream stream;
  const auto agent = Agent(&stream);
  connections_->Called(agent->key);
  EXPECT_TRUE(Stands(*agent));
  connections_->Called(agent->key);
  EXPECT_EQ(agent->client.Hear(), "reset");
  EXPECT_EQ(connections_->disconnected(), 1u);
}

TEST_F(UnauthenticatedConnectionsTest,
       AnAgentSaysAsMuchAsItLikesInWholeMessages) {
  Begin(absl::Hours(1));
  AgentStream stream;
  const auto agent = Agent(&stream);
  for (int i = 0; i < 5; ++i) {
    Pour(*agent, 2 * kBytesMax);
    ++*stream;
    AwaitLooked();
  }
  // The messages that were counted cover the bytes before, so the next bytes
  // are allowed.
  Pour(*agent, 1);
  AwaitLooked();
  EXPECT_TRUE(Stands(*agent));
  // A message that never ends is cut off at the bound.
  EXPECT_TRUE(agent->client.Say(std::string(3 * kBytesMax + 1, 'x')));
  EXPECT_NE(agent->client.Hear(), "nothing");
  EXPECT_EQ(connections_->disconnected(), 1u);
}

TEST_F(UnauthenticatedConnectionsTest,
       MessagesOfOneStreamDoNotMakeUpForAnotherCall) {
  Begin(absl::Hours(1));
  AgentStream stream;
  const auto agent = Agent(&stream);
  connections_->Called(agent->key);
  Pour(*agent, 2 * kBytesMax);
  ++*stream;
  AwaitLooked();
  EXPECT_TRUE(Stands(*agent));
  EXPECT_TRUE(agent->client.Say(std::string(kBytesMax + 1, 'x')));
  EXPECT_NE(agent->client.Hear(), "nothing");
}

TEST_F(UnauthenticatedConnectionsTest, AViewersCallsCountWhereItAttends) {
  Begin(absl::Hours(1));
  const auto agent = Connect();
  ASSERT_TRUE(connections_->Arrive(agent->served, ++last_));
  connections_->Called(agent->key);
  connections_->Know(agent->key, "viewer1");
  connections_->Called(agent->key);
  const auto stream = connections_->Attend(agent->key, {"token1"});
  ASSERT_TRUE(stream.ok()) << stream.status();
  Pour(*agent, 2 * kBytesMax);
  ++**stream;
  AwaitLooked();
  EXPECT_TRUE(agent->client.Say(std::string(kBytesMax + 1, 'x')));
  EXPECT_NE(agent->client.Hear(), "nothing");
  // The agent no longer has a viewer's place.
  for (int i = 0; i < 2; ++i) {
    const auto viewer = Connect();
    ASSERT_TRUE(connections_->Arrive(viewer->served, ++last_));
    connections_->Know(viewer->key, "viewer1");
    EXPECT_TRUE(Stands(*viewer));
  }
}

TEST_F(UnauthenticatedConnectionsTest,
       WhereAgentsHaveSaidTooMuchTheOneThatSaidMostGoes) {
  Begin(absl::Hours(1));
  AgentStream first, second;
  const auto a = Agent(&first);
  const auto b = Agent(&second);
  Pour(*a, 3 * kBytesMax);
  AwaitLooked();
  EXPECT_TRUE(Stands(*a));
  Pour(*b, kBytesMax + 1);
  EXPECT_EQ(a->client.Hear(), "reset");
  // The bytes that the closed connection had sent no longer count.
  Pour(*b, kBytesMax);
  AwaitLooked();
  EXPECT_TRUE(Stands(*b));
}

TEST_F(UnauthenticatedConnectionsTest, WithoutAStreamAnAgentDoesNotStay) {
  limits_.agent_grace = kSoon;
  limits_.agents_max = 3;
  Begin(absl::Hours(1));
  AgentStream stays, ends, comes_back, idle;
  const auto a = Agent(&stays);
  const auto b = Agent(&ends);
  const auto c = Agent(&comes_back);
  comes_back.reset();
  const auto back = connections_->Attend(c->key, {"token1"});
  ASSERT_TRUE(back.ok()) << back.status();
  ends.reset();
  EXPECT_EQ(b->client.Hear(), "reset");
  EXPECT_TRUE(Stands(*a));
  EXPECT_TRUE(Stands(*c));
  EXPECT_EQ(connections_->disconnected(), 0u);
}

TEST_F(UnauthenticatedConnectionsTest, AStreamMayOutliveWhatItWasMadeBy) {
  Begin(absl::Hours(1));
  AgentStream stream;
  const auto agent = Agent(&stream);
  connections_.reset();
  ++*stream;
  stream.reset();
  EXPECT_TRUE(Stands(*agent));
}

TEST_F(UnauthenticatedConnectionsTest, ATokenWithMoreThanHalfLosesItsNewest) {
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
  // The token gets no further place, and must give one up for another token.
  EXPECT_FALSE(attend({"many"}));
  EXPECT_TRUE(attend({"other"}));
  EXPECT_EQ(pairs[3]->client.Hear(), "reset");
  streams[3].reset();
  // The token keeps half of the places.
  EXPECT_FALSE(attend({"other"}));
  for (const int stays : {0, 1, 2, 5}) EXPECT_TRUE(Stands(*pairs[stays]));
}

TEST_F(UnauthenticatedConnectionsTest,
       AnAgentThatReturnsIsLetInWhereNewcomersAreNot) {
  limits_.agents_max = 4;
  Begin(absl::Hours(1));
  std::vector<std::unique_ptr<Pair>> pairs;
  std::vector<AgentStream> streams(10);
  const auto attend = [&](const AgentRight& right) {
    const size_t at = pairs.size();
    pairs.push_back(Agent(&streams[at], right));
    return streams[at] != nullptr;
  };
  // A connection by an admin's token has no token id, and stays.
  ASSERT_TRUE(attend({"", true}));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(attend({"token1"}));
  EXPECT_FALSE(attend({"token1"}));
  // The newest connection admitted by the token is closed, until none is left.
  ASSERT_TRUE(attend({"token1", true}));
  EXPECT_EQ(pairs[3]->client.Hear(), "reset");
  ASSERT_TRUE(attend({"token1", true}));
  EXPECT_EQ(pairs[2]->client.Hear(), "reset");
  ASSERT_TRUE(attend({"token1", true}));
  EXPECT_EQ(pairs[1]->client.Hear(), "reset");
  // Then the connection of the agent that returned longest ago is closed.
  ASSERT_TRUE(attend({"token1", true}));
  EXPECT_EQ(pairs[5]->client.Hear(), "reset");
  for (const int stays : {0, 6, 7, 8}) EXPECT_TRUE(Stands(*pairs[stays]));
}

TEST_F(UnauthenticatedConnectionsTest,
       AnotherFilesDescriptorIsNotAnAgentsConnection) {
  Begin(absl::Hours(1));
  AgentStream ended, stays;
  const auto gone = Agent(&ended);
  const auto here = Agent(&stays);
  // Another socket gets the same descriptor number.
  const int number = gone->served;
  close(std::exchange(gone->served, -1));
  const auto next = Connect();
  ASSERT_EQ(next->client.fd(), number);
  ended.reset();
  ASSERT_TRUE(connections_->Arrive(next->served, ++last_));
  EXPECT_TRUE(connections_->Attend(next->key, {"token1"}).ok());
  EXPECT_TRUE(Stands(*next));
}

}  // namespace
}  // namespace rollcall
