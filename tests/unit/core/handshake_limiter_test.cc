// Which connections wait at the listener, and when each is let in. Tables in
// text.
#include "daemon/core/handshake_limiter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "tests/unit/core/handshake_limiter_fixture.h"

namespace rollcall {
namespace {

TEST(HandshakeLimiterTest, WhoSpeaksIsHandedOnAndWhoIsSilentIsClosed) {
  Play(OpenListener(), {
                           {0.0, "next", "never"},
                           {0.0, "arrive 1 a", ""},
                           {1.0, "arrive 2 a", ""},
                           {1.0, "arrive 3 b", ""},
                           {1.0, "next", "5"},
                           {2.0, "ask 2", "in 2"},
                           {2.1, "free 2", ""},
                           {2.5, "ask 2", ""},   // Already handed on.
                           {2.5, "gone 2", ""},  // The same.
                           {4.9, "tick", ""},
                           {5.0, "tick", "silent 1"},
                           {5.0, "next", "6"},
                           {6.5, "tick", "silent 3"},
                           {7.5, "tick", ""},
                           {7.5, "next", "never"},
                       });
}

TEST(HandshakeLimiterTest, ALateCallerHearsThoseWhoSpokeBeforeItJudges) {
  Play(OpenListener(), {
                           {0.0, "arrive 1 a", ""},
                           {0.0, "arrive 2 b", ""},
                           {60.0, "ask 1", "in 1"},
                           {60.0, "arrive 3 c", ""},
                           {60.0, "tick", "silent 2"},
                           {61.0, "tick", ""},
                           {61.0, "next", "65"},
                       });
}

TEST(HandshakeLimiterTest, WhoHangsUpOrTalksGarbageIsForgotten) {
  Play(OpenListener(), {
                           {0.0, "arrive 1 a", ""},
                           {0.0, "arrive 2 a", ""},
                           {0.0, "gone 1", ""},
                           {0.0, "garbage 2", ""},
                           {0.0, "next", "never"},
                           {9.0, "tick", ""},
                       });
}

TEST(HandshakeLimiterTest, AFullAddressClosesItsOwnOldest) {
  Play(OpenListener(), {
                           {0.0, "arrive 1 b", ""},
                           {0.1, "arrive 2 a", ""},
                           {0.2, "arrive 3 a", ""},
                           {0.3, "arrive 4 a", ""},
                           {0.4, "arrive 5 a", "crowded 2"},
                           {0.5, "arrive 6 a", "crowded 3"},
                           {0.6, "arrive 7 b", ""},
                           {5.0, "tick", "silent 1"},
                       });
}

TEST(HandshakeLimiterTest, AFullDoorClosesTheOldestWhereMostWait) {
  Play(OpenListener(), {
                           {0.0, "arrive 1 a", ""},
                           {0.1, "arrive 2 b", ""},
                           {0.2, "arrive 3 c", ""},
                           {0.3, "arrive 4 c", ""},
                           {0.4, "arrive 5 d", ""},
                           {0.5, "arrive 6 e", "crowded 3"},
                           // Each address has one connection now, so the one
                           // that has waited longest goes.
                           {0.6, "arrive 7 f", "crowded 1"},
                           {0.7, "room", "crowded 2"},
                           {0.8, "arrive 8 c", ""},
                           {0.9, "room", "crowded 4"},
                           {0.9, "room", "crowded 5"},
                           {0.9, "room", "crowded 6"},
                           {0.9, "room", "crowded 7"},
                           {0.9, "room", "crowded 8"},
                           {0.9, "room", ""},
                       });
}

TEST(HandshakeLimiterTest, AboveTheRateOfAllTheyWaitInTurnAmongAddresses) {
  ConnectionLimits limits = SmallLimits();
  limits.waiting_max = 8;
  limits.handshakes_per_second = 1;
  limits.handshakes_burst = 1;
  Play(limits, {
                   {0.0, "arrive 1 a", ""}, {0.0, "ask 1", "in 1"},
                   {0.0, "arrive 2 a", ""}, {0.0, "arrive 3 a", ""},
                   {0.0, "arrive 4 b", ""}, {0.0, "arrive 5 c", ""},
                   {0.0, "ask 2", ""},      {0.0, "ask 3", ""},
                   {0.0, "ask 4", ""},      {0.0, "ask 5", ""},
                   {0.0, "next", "1"},      {1.0, "tick", "in 3"},
                   {2.0, "tick", "in 4"},  // Not 2: it is b's turn.
                   {2.5, "gone 5", ""},     {3.0, "tick", "in 2"},
                   {3.0, "free 1", ""},     {3.0, "free 2", ""},
                   {3.0, "free 3", ""},     {3.0, "free 4", ""},
                   {3.0, "next", "4"},  // a's burst is full then; b's already.
               });
}

TEST(HandshakeLimiterTest, AboveTheRateOfAnAddressOnlyThatOneWaits) {
  Play(SmallLimits(), {
                          {0.0, "arrive 1 a", ""},
                          {0.0, "arrive 2 a", ""},
                          {0.0, "arrive 3 a", ""},
                          {0.0, "ask 1", "in 1"},
                          {0.0, "ask 2", "in 2"},
                          {0.0, "ask 3", ""},
                          {0.0, "next", "1"},
                          {0.5, "arrive 4 b", ""},
                          {0.5, "ask 4", "in 4"},
                          {0.9, "tick", ""},
                          {1.0, "tick", "in 3"},
                          // A second later, one more connection of a may enter.
                          {1.0, "arrive 5 a", ""},
                          {1.0, "ask 5", ""},
                          {2.0, "tick", "in 5"},
                          {2.0, "free 1", ""},
                          {2.0, "free 2", ""},
                          {2.0, "free 3", ""},
                          {2.0, "free 4", ""},
                          {2.0, "free 5", ""},
                          // The bursts are full again at 1.5 for b and at 4 for
                          // a.
                          {2.0, "next", "4"},
                          {4.0, "tick", ""},
                          {4.0, "next", "never"},
                      });
}

TEST(HandshakeLimiterTest, WhoseTurnDoesNotComeIsClosedWhenHisPatienceEnds) {
  ConnectionLimits limits = SmallLimits();
  limits.waiting_per_address_max = 5;
  limits.patience = absl::Milliseconds(2500);
  limits.silence = absl::Seconds(2);
  limits.handshakes_per_address_burst = 1;
  Play(limits, {
                   {0.0, "arrive 1 a", ""},
                   {0.0, "arrive 2 a", ""},
                   {0.0, "arrive 3 a", ""},
                   {0.0, "arrive 4 a", ""},
                   {0.0, "ask 1", "in 1"},
                   {0.0, "ask 2", ""},
                   {0.0, "ask 3", ""},
                   {0.0, "ask 4", ""},
                   {1.0, "tick", "in 4"},
                   {2.0, "tick", "in 3"},
                   {2.0, "next", "2.5"},
                   {2.5, "tick", "impatient 2"},
                   {3.0, "tick", ""},
                   {3.0, "next", "never"},
               });
}

TEST(HandshakeLimiterTest, AFullAddressClosesNoneThatAsks) {
  ConnectionLimits limits = SmallLimits();
  limits.waiting_per_address_max = 2;
  limits.handshakes_per_address_burst = 1;
  Play(limits, {
                   {0.0, "arrive 1 a", ""},
                   {0.0, "ask 1", "in 1"},
                   {0.0, "arrive 2 a", ""},
                   {0.0, "ask 2", ""},
                   {0.0, "arrive 3 a", ""},
                   {0.0, "arrive 4 a", ""},
                   {0.0, "arrive 5 a", "crowded 3"},
                   {0.0, "ask 4", ""},
                   {0.0, "ask 5", ""},
                   {0.0, "arrive 6 a", ""},
                   {1.0, "tick", "in 5"},
                   {2.0, "tick", "in 4"},
               });
}

TEST(HandshakeLimiterTest, AFullDoorClosesWhoIsSilentAndThenTheFirstThatAsked) {
  ConnectionLimits limits = SmallLimits();
  limits.handshakes_per_address_burst = 1;
  Play(limits, {
                   {0.0, "arrive 1 a", ""},
                   {0.0, "ask 1", "in 1"},
                   {0.0, "arrive 2 a", ""},
                   {0.0, "ask 2", ""},
                   {0.0, "arrive 3 a", ""},
                   {0.0, "ask 3", ""},
                   {0.0, "arrive 4 a", ""},
                   {0.0, "ask 4", ""},
                   {0.0, "arrive 5 a", ""},
                   {0.0, "arrive 6 b", ""},
                   {0.1, "arrive 7 a", "crowded 5"},
                   {0.1, "ask 7", ""},
                   {0.2, "arrive 8 a", "crowded 2"},
                   {0.2, "room", "crowded 8"},
                   {0.2, "room", "crowded 3"},
                   {1.0, "tick", "in 7"},
                   {2.0, "tick", "in 4"},
               });
}

TEST(HandshakeLimiterTest, AsManyWaitAsAgentsLeaveRoomFor) {
  ConnectionLimits limits = SmallLimits();
  limits.handshakes_per_address_burst = 1;
  Play(limits, {
                   {0.0, "arrive 1 a", ""},
                   {0.0, "ask 1", "in 1"},
                   {0.0, "arrive 2 a", ""},
                   {0.0, "arrive 3 a", ""},
                   {0.0, "arrive 4 b", ""},
                   {0.0, "limit 3", ""},
                   {0.0, "ask 3", ""},
                   {0.0, "arrive 5 c", "crowded 2"},
                   {0.0, "limit 2", "crowded 3"},
                   {0.0, "limit 0", "crowded 4"},  // At least one may wait.
                   {0.0, "limit 9", ""},
                   {0.0, "arrive 6 d", ""},
                   {0.0, "arrive 7 d", ""},
                   {0.0, "arrive 8 d", ""},
                   {0.0, "arrive 9 e", ""},
                   {0.0, "arrive 10 f", "crowded 6"},
               });
}

// --- Connections that have not authenticated yet -----------------------------

// No rate limits; at most `all` unauthenticated connections, `each` per
// network.
ConnectionLimits Room(size_t all, size_t each) {
  ConnectionLimits limits = OpenListener();
  limits.unauthenticated_max = all;
  limits.unauthenticated_per_network_max = each;
  return limits;
}

TEST(HandshakeLimiterTest, ANetworkAtItsBoundWaitsAndLosesNothing) {
  Play(Room(10, 2), {
                        {0.0, "arrive 1 a", ""},
                        {0.0, "ask 1", "in 1"},
                        {0.0, "arrive 2 a", ""},
                        {0.0, "ask 2", "in 2"},
                        {0.0, "arrive 3 a", ""},
                        {0.0, "ask 3", ""},
                        {0.0, "arrive 4 a", ""},
                        {0.0, "ask 4", ""},
                        {0.1, "arrive 5 b", ""},
                        {0.1, "ask 5", "in 5"},  // Network b need not wait.
                        {0.2, "tick", ""},
                        {1.0, "free 1", "in 4"},
                        {1.0, "free 1", ""},  // A second report has no effect.
                        {1.9, "free 5", ""},
                        {1.9, "free 4", "in 3"},
                        {20.0, "tick", ""},
                        {20.0, "next", "never"},
                    });
}

TEST(HandshakeLimiterTest, ANetworkAtItsBoundReplacesThoseThatStopHalfway) {
  ConnectionLimits limits = Room(10, 2);
  limits.handshake_time = absl::Seconds(2);
  Play(limits, {
                   {0.0, "arrive 1 a", ""},
                   {0.0, "arrive 2 a", ""},
                   {0.0, "ask 2", "in 2"},
                   {0.5, "ask 1", "in 1"},
                   {0.6, "arrive 3 a", ""},
                   {0.6, "ask 3", ""},
                   {0.7, "arrive 4 a", ""},
                   {0.7, "ask 4", ""},
                   {1.0, "next", "2"},
                   {1.9, "tick", ""},
                   // The one whose handshake began first, and the newest of
                   // those that wait.
                   {2.0, "tick", "displaced 2, in 4"},
                   {2.0, "free 2", ""},
                   {2.0, "next", "2.5"},
                   {2.1, "gone 3", ""},
                   {2.5, "tick", ""},
                   // Nobody needs the place of 1 until here.
                   {4.5, "arrive 5 a", ""},
                   {4.5, "ask 5", "displaced 1, in 5"},
                   {4.5, "arrive 6 a", ""},
                   {4.5, "ask 6", "displaced 4, in 6"},
                   {4.5, "arrive 7 a", ""},
                   {4.5, "ask 7", ""},
                   {5.0, "free 6", "in 7"},
               });
}

TEST(HandshakeLimiterTest, AnIntroductionGivesAConnectionMoreTime) {
  ConnectionLimits limits = Room(10, 2);
  limits.handshake_time = absl::Seconds(2);
  Play(limits, {
                   {0.0, "arrive 1 a", ""},
                   {0.0, "ask 1", "in 1"},
                   {0.0, "arrive 2 a", ""},
                   {0.0, "ask 2", "in 2"},
                   {0.5, "arrive 3 a", ""},
                   {0.5, "ask 3", ""},
                   {1.5, "introduce 1", ""},
                   {1.5, "introduce 9", ""},  // Is not here.
                   {1.5, "next", "2"},
                   {2.0, "tick", "displaced 2, in 3"},
                   {2.5, "arrive 4 a", ""},
                   {2.5, "ask 4", ""},
                   {3.4, "tick", ""},
                   {3.5, "tick", "displaced 1, in 4"},
               });
}

TEST(HandshakeLimiterTest, AfterAnIntroductionNoHandshakeIsUnderWay) {
  ConnectionLimits limits = Room(10, 10);
  limits.handshakes_at_once = 1;
  Play(limits, {
                   {0.0, "arrive 1 a", ""},
                   {0.0, "ask 1", "in 1"},
                   {0.0, "arrive 2 a", ""},
                   {0.0, "ask 2", ""},
                   {0.5, "introduce 1", "in 2"},
                   {0.6, "free 1", ""},
               });
}

TEST(HandshakeLimiterTest, ANetworkAtItsBoundStillWaitsForHandshakesElsewhere) {
  ConnectionLimits limits = Room(10, 1);
  limits.handshake_time = absl::Seconds(2);
  limits.handshakes_at_once = 1;
  Play(limits, {
                   {0.0, "arrive 1 a", ""},
                   {0.0, "ask 1", "in 1"},
                   {2.0, "arrive 2 b", ""},
                   {2.0, "ask 2", "in 2"},
                   {2.5, "arrive 3 a", ""},
                   {2.5, "ask 3", ""},
                   {3.0, "free 2", "displaced 1, in 3"},
               });
}

TEST(HandshakeLimiterTest, WhereAllIsFullTheNetworkWithMostMakesRoom) {
  Play(Room(4, 4), {
                       // The address that sorts first is not the one that is
                       // displaced.
                       {0.0, "arrive 1 a", ""},
                       {0.0, "ask 1", "in 1"},
                       {0.0, "arrive 2 z", ""},
                       {0.0, "ask 2", "in 2"},
                       {0.0, "arrive 3 z", ""},
                       {0.0, "ask 3", "in 3"},
                       {0.0, "arrive 4 z", ""},
                       {0.0, "ask 4", "in 4"},
                       // The network with the most connections waits.
                       {0.1, "arrive 5 z", ""},
                       {0.1, "ask 5", ""},
                       // Another network displaces the newest connection of
                       // that network.
                       {0.2, "arrive 6 b", ""},
                       {0.2, "ask 6", "displaced 4, in 6"},
                       {0.2, "free 4", ""},
                       // The counts of a and z differ by too little, so a
                       // waits.
                       {0.3, "arrive 7 a", ""},
                       {0.3, "ask 7", ""},
                       // The network with the fewest connections comes first.
                       {0.4, "free 6", "in 7"},
                       {0.5, "free 2", "in 5"},
                       {0.5, "next", "never"},
                   });
}

TEST(HandshakeLimiterTest, AFleetBehindOneAddressIsSlowedDown) {
  ConnectionLimits limits = Room(100, 10);
  limits.waiting_max = limits.waiting_per_address_max = 1000;
  limits.addresses_max = 1000;
  HandshakeLimiter limiter(limits);
  HandshakeLimiter::Verdicts in;
  for (HandshakeLimiter::Id id = 1; id <= 500; ++id) {
    EXPECT_EQ(Text(limiter.Arrive(id, Address(1), At(0))), "");
    for (const auto& verdict : limiter.Ask(id, At(0))) in.push_back(verdict);
  }
  EXPECT_EQ(in.size(), 10u);
  // Each connection that authenticates lets the next one in; none is refused.
  for (size_t i = 0; i < in.size(); ++i) {
    EXPECT_EQ(in[i].fate, Fate::kHandedOn);
    for (const auto& verdict :
         limiter.Release(in[i].id, At(0.01 * double(i)))) {
      in.push_back(verdict);
    }
  }
  EXPECT_EQ(in.size(), 500u);
  EXPECT_EQ(limiter.counts().unauthenticated, 0u);
}

TEST(HandshakeLimiterTest, AnAttackFromANetworkTakesNoOneElsesPlace) {
  // The attacker has a /64 with any number of addresses, and never
  // authenticates. With a larger bound for each network, few networks fill all
  // places.
  ConnectionLimits limits;
  // Not limited by the number of handshakes that may run at once.
  limits.handshakes_at_once = limits.unauthenticated_max;
  limits.unauthenticated_per_network_max = 4096;
  HandshakeLimiter limiter(limits);
  HandshakeLimiter::Id id = 0;
  const auto six = [](uint16_t network, uint32_t host) {
    std::array<uint8_t, 16> bytes = {0x20, 1, 0xd, 0xb8};
    bytes[6] = static_cast<uint8_t>(network >> 8);
    bytes[7] = static_cast<uint8_t>(network & 0xff);
    bytes[14] = static_cast<uint8_t>(host >> 8);
    bytes[15] = static_cast<uint8_t>(host & 0xff);
    return SourceAddressOfIpv6(bytes);
  };
  for (uint16_t network = 1; network <= 5; ++network) {
    for (uint32_t host = 0; host < 5000; ++host) {
      limiter.Arrive(++id, six(network, host), At(0));
      limiter.Ask(id, At(0));
    }
  }
  // The bursts fill again, but the places of the attacker's connections stay
  // taken.
  for (int second = 1; second < 5; ++second) limiter.Tick(At(second));
  EXPECT_EQ(limiter.counts().unauthenticated, limits.unauthenticated_max);
  limiter.Tick(At(20));
  const HandshakeLimiter::Id agent = ++id;
  EXPECT_EQ(Text(limiter.Arrive(agent, Address(1), At(20))), "");
  const HandshakeLimiter::Verdicts verdicts = limiter.Ask(agent, At(20));
  ASSERT_EQ(verdicts.size(), 2u);
  EXPECT_EQ(verdicts[0].fate, Fate::kDisplaced);
  EXPECT_EQ(verdicts[1].id, agent);
  EXPECT_EQ(verdicts[1].fate, Fate::kHandedOn);
}

TEST(HandshakeLimiterTest, CountsByFate) {
  HandshakeLimiter limiter(SmallLimits());
  for (HandshakeLimiter::Id id = 1; id <= 9; ++id) {
    limiter.Arrive(id, Address(static_cast<uint8_t>(id % 3)), At(0));
  }
  limiter.Ask(9, At(0));
  limiter.Leave(8, Fate::kGarbage);
  limiter.Leave(7, Fate::kHungUp);
  EXPECT_EQ(limiter.counts().waiting, 2u);
  limiter.Tick(At(5));
  const HandshakeCounts counts = limiter.counts();
  EXPECT_EQ(counts.arrived, 9u);
  EXPECT_EQ(counts.crowded, 4u);
  EXPECT_EQ(counts.handed_on, 1u);
  EXPECT_EQ(counts.garbage, 1u);
  EXPECT_EQ(counts.hung_up, 1u);
  EXPECT_EQ(counts.silent, 2u);
  EXPECT_EQ(counts.impatient, 0u);
  EXPECT_EQ(counts.waiting, 0u);
}

TEST(HandshakeLimiterTest, AnAddressIsAnIpv4OneOrAnIpv6Network) {
  const std::array<uint8_t, 16> one = {0x20, 1, 0xd, 0xb8, 0, 0, 0, 1,
                                       0,    0, 0,   0,    0, 0, 0, 1};
  std::array<uint8_t, 16> same_network = one;
  same_network[8] = same_network[15] = 0xff;
  std::array<uint8_t, 16> other_network = one;
  other_network[7] = 2;
  EXPECT_EQ(SourceAddressOfIpv6(one), SourceAddressOfIpv6(same_network));
  EXPECT_NE(SourceAddressOfIpv6(one), SourceAddressOfIpv6(other_network));

  const std::array<uint8_t, 16> mapped = {0, 0, 0,    0,    0,  0, 0, 0,
                                          0, 0, 0xff, 0xff, 10, 0, 0, 1};
  EXPECT_EQ(SourceAddressOfIpv6(mapped), SourceAddressOfIpv4({10, 0, 0, 1}));
  EXPECT_NE(SourceAddressOfIpv4({10, 0, 0, 1}),
            SourceAddressOfIpv4({10, 0, 0, 2}));
}

TEST(FittedTo, LeavesDescriptorsForTheRest) {
  for (const size_t descriptors :
       {16u, 64u, 256u, 1024u, 4096u, 20000u, 65536u, 1u << 20}) {
    const ConnectionLimits limits = FittedTo(ConnectionLimits(), descriptors);
    const size_t taken = limits.waiting_and_agents_max +
                         2 * limits.unauthenticated_max +
                         2 * limits.viewers_max;
    if (descriptors >= 64) {
      EXPECT_LE(taken, descriptors / 32 * 29) << descriptors;
    }
    EXPECT_GE(limits.waiting_max, 1u);
    EXPECT_LE(limits.waiting_max, limits.waiting_and_agents_max);
    EXPECT_LE(limits.agents_max, limits.waiting_and_agents_max);
    EXPECT_GE(limits.unauthenticated_per_network_max, 1u);
    EXPECT_LE(limits.unauthenticated_per_network_max,
              limits.unauthenticated_max);
    EXPECT_GE(limits.viewer_connections_max, 1u);
    EXPECT_GE(limits.agents_max,
              std::min(descriptors / 16, ConnectionLimits().agents_max));
    // As many agents as may be connected may also wait at the same time.
    EXPECT_GE(limits.waiting_max,
              std::min(limits.agents_max, size_t{Limits::nodes_max}));
  }
  EXPECT_GE(FittedTo(ConnectionLimits(), 20'000).agents_max, 12'288u);
  // With enough descriptors, the limits stay as they are.
  const ConnectionLimits all = FittedTo(ConnectionLimits(), 1 << 20);
  EXPECT_EQ(all.agents_max, ConnectionLimits().agents_max);
  EXPECT_EQ(all.unauthenticated_max, ConnectionLimits().unauthenticated_max);
  EXPECT_EQ(all.viewers_max, ConnectionLimits().viewers_max);
}

}  // namespace
}  // namespace rollcall
