// Who waits at the front door, and who is let in when: tables in text, and
// random crowds against the invariants.
#include "daemon/core/doorkeeper.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace rollcall {
namespace {

absl::Time At(double seconds) {
  return absl::UnixEpoch() + absl::Seconds(seconds);
}

DoorAddress Address(uint8_t last) {
  return DoorAddressOfIpv4({10, 0, 0, last});
}

const char* Word(Fate fate) {
  switch (fate) {
    case Fate::kHandedOn:
      return "in";
    case Fate::kSilent:
      return "silent";
    case Fate::kGarbage:
      return "garbage";
    case Fate::kCrowded:
      return "crowded";
    case Fate::kImpatient:
      return "impatient";
    case Fate::kHungUp:
      return "gone";
    case Fate::kDisplaced:
      return "displaced";
  }
  return "?";
}

std::string Text(const Doorkeeper::Verdicts& verdicts) {
  return absl::StrJoin(
      verdicts, ", ", [](std::string* out, const Doorkeeper::Verdict& verdict) {
        absl::StrAppend(out, Word(verdict.fate), " ", verdict.id);
      });
}

// Small, so that a table shows all of it.
DoorLimits SmallDoor() {
  DoorLimits limits;
  limits.waiting_max = 5;
  limits.waiting_per_address_max = 3;
  limits.silence = absl::Seconds(5);
  limits.patience = absl::Seconds(10);
  limits.handshakes_per_second = 2;
  limits.handshakes_burst = 4;
  limits.handshakes_per_address_per_second = 1;
  limits.handshakes_per_address_burst = 2;
  limits.addresses_max = 8;
  return limits;
}

// No rate, a door as small.
DoorLimits OpenDoor() {
  DoorLimits limits = SmallDoor();
  limits.handshakes_per_second = limits.handshakes_burst = 1000;
  limits.handshakes_per_address_per_second = 1000;
  limits.handshakes_per_address_burst = 1000;
  return limits;
}

struct Row {
  double at;
  // "arrive 1 a": connection 1 from address a. "ask 1", "garbage 1", "gone 1",
  // "free 1": it has authenticated or is gone, "room", "limit 2": two may wait,
  // "tick", "next": the next deadline is asked for.
  const char* event;
  const char* expect;
};

std::string Apply(Doorkeeper& door, const Row& row) {
  const std::vector<std::string> words = absl::StrSplit(row.event, ' ');
  Doorkeeper::Id id = 0;
  if (words.size() > 1) id = std::stoull(words[1]);
  if (words[0] == "arrive") {
    const auto from = static_cast<uint8_t>(words[2][0]);
    return Text(door.Arrive(id, Address(from), At(row.at)));
  }
  if (words[0] == "free") return Text(door.Release(id, At(row.at)));
  if (words[0] == "ask") return Text(door.Ask(id, At(row.at)));
  if (words[0] == "room") return Text(door.MakeRoom());
  if (words[0] == "limit") return Text(door.Limit(id));
  if (words[0] == "tick") return Text(door.Tick(At(row.at)));
  if (words[0] == "next") {
    if (door.NextDeadline() == absl::InfiniteFuture()) return "never";
    return absl::StrCat(
        absl::ToDoubleSeconds(door.NextDeadline() - absl::UnixEpoch()));
  }
  door.Leave(id, words[0] == "gone" ? Fate::kHungUp : Fate::kGarbage);
  return "";
}

void Play(const DoorLimits& limits, const std::vector<Row>& rows) {
  Doorkeeper door(limits);
  for (const Row& row : rows) {
    EXPECT_EQ(Apply(door, row), row.expect) << row.at << ": " << row.event;
    EXPECT_LE(door.counts().waiting, limits.waiting_max) << row.at;
    EXPECT_LE(door.addresses(), limits.addresses_max) << row.at;
  }
}

TEST(DoorkeeperTest, WhoSpeaksIsHandedOnAndWhoIsSilentIsClosed) {
  Play(OpenDoor(), {
                       {0.0, "next", "never"},
                       {0.0, "arrive 1 a", ""},
                       {1.0, "arrive 2 a", ""},
                       {1.0, "arrive 3 b", ""},
                       {1.0, "next", "5"},
                       {2.0, "ask 2", "in 2"},
                       {2.1, "free 2", ""},
                       {2.5, "ask 2", ""},   // It is not here any more.
                       {2.5, "gone 2", ""},  // Nor is it that.
                       {4.9, "tick", ""},
                       {5.0, "tick", "silent 1"},
                       {5.0, "next", "6"},
                       {6.5, "tick", "silent 3"},
                       {7.5, "tick", ""},
                       {7.5, "next", "never"},
                   });
}

TEST(DoorkeeperTest, ALateCallerHearsThoseWhoSpokeBeforeItJudges) {
  Play(OpenDoor(), {
                       {0.0, "arrive 1 a", ""},
                       {0.0, "arrive 2 b", ""},
                       {60.0, "ask 1", "in 1"},
                       {60.0, "arrive 3 c", ""},
                       {60.0, "tick", "silent 2"},
                       {61.0, "tick", ""},
                       {61.0, "next", "65"},
                   });
}

TEST(DoorkeeperTest, WhoHangsUpOrTalksGarbageIsForgotten) {
  Play(OpenDoor(), {
                       {0.0, "arrive 1 a", ""},
                       {0.0, "arrive 2 a", ""},
                       {0.0, "gone 1", ""},
                       {0.0, "garbage 2", ""},
                       {0.0, "next", "never"},
                       {9.0, "tick", ""},
                   });
}

TEST(DoorkeeperTest, AFullAddressClosesItsOwnOldest) {
  Play(OpenDoor(), {
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

TEST(DoorkeeperTest, AFullDoorClosesTheOldestWhereMostWait) {
  Play(OpenDoor(), {
                       {0.0, "arrive 1 a", ""},
                       {0.1, "arrive 2 b", ""},
                       {0.2, "arrive 3 c", ""},
                       {0.3, "arrive 4 c", ""},
                       {0.4, "arrive 5 d", ""},
                       {0.5, "arrive 6 e", "crowded 3"},
                       // One each now: the one that has waited longest.
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

TEST(DoorkeeperTest, AboveTheRateOfAllTheyWaitInTurnAmongAddresses) {
  DoorLimits limits = SmallDoor();
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
                   {3.0, "next", "4"},  // a's burst is whole, and b's long.
               });
}

TEST(DoorkeeperTest, AboveTheRateOfAnAddressOnlyThatOneWaits) {
  Play(SmallDoor(), {
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
                        // A second later there is one more for a.
                        {1.0, "arrive 5 a", ""},
                        {1.0, "ask 5", ""},
                        {2.0, "tick", "in 5"},
                        {2.0, "free 1", ""},
                        {2.0, "free 2", ""},
                        {2.0, "free 3", ""},
                        {2.0, "free 4", ""},
                        {2.0, "free 5", ""},
                        // Bursts come back: b's at 1.5, a's at 4.
                        {2.0, "next", "4"},
                        {4.0, "tick", ""},
                        {4.0, "next", "never"},
                    });
}

TEST(DoorkeeperTest, WhoseTurnDoesNotComeIsClosedWhenHisPatienceEnds) {
  DoorLimits limits = SmallDoor();
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

TEST(DoorkeeperTest, AFullAddressClosesNoneThatAsks) {
  DoorLimits limits = SmallDoor();
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

TEST(DoorkeeperTest, AFullDoorClosesWhoIsSilentAndThenTheFirstThatAsked) {
  DoorLimits limits = SmallDoor();
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

TEST(DoorkeeperTest, AsManyWaitAsAgentsLeaveRoomFor) {
  DoorLimits limits = SmallDoor();
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
                   {0.0, "limit 0", "crowded 4"},  // One always may.
                   {0.0, "limit 9", ""},
                   {0.0, "arrive 6 d", ""},
                   {0.0, "arrive 7 d", ""},
                   {0.0, "arrive 8 d", ""},
                   {0.0, "arrive 9 e", ""},
                   {0.0, "arrive 10 f", "crowded 6"},
               });
}

// --- Handshakes that are under way -------------------------------------------

// An open door for `at_once` of them.
DoorLimits Paced(size_t at_once) {
  DoorLimits limits = OpenDoor();
  limits.handshakes_at_once = at_once;
  limits.handshake_time = absl::Seconds(2);
  return limits;
}

TEST(DoorkeeperTest, OneHandshakeBeginsWhereAnotherEnds) {
  Play(Paced(2), {
                     {0.0, "arrive 1 a", ""},
                     {0.0, "ask 1", "in 1"},
                     {0.1, "arrive 2 b", ""},
                     {0.1, "ask 2", "in 2"},
                     // Neither has clearly fewer than the other.
                     {0.2, "arrive 3 a", ""},
                     {0.2, "ask 3", ""},
                     {0.2, "arrive 4 c", ""},
                     {0.2, "ask 4", ""},
                     {0.3, "tick", ""},
                     {0.3, "next", "2"},
                     // The network with the fewest comes first.
                     {0.4, "free 2", "in 4"},
                     {0.5, "free 1", "in 3"},
                     {0.5, "arrive 5 a", ""},
                     {0.5, "ask 5", ""},
                     {0.5, "gone 5", ""},
                     {0.5, "next", "never"},
                 });
}

TEST(DoorkeeperTest, AHandshakeThatStopsHoldsUpTheOthersForATimeAlone) {
  Play(Paced(2), {
                     {0.0, "arrive 1 a", ""},
                     {0.0, "ask 1", "in 1"},
                     {1.0, "arrive 2 a", ""},
                     {1.0, "ask 2", "in 2"},
                     {1.0, "arrive 3 a", ""},
                     {1.0, "ask 3", ""},
                     {1.9, "tick", ""},
                     {1.9, "next", "2"},
                     {2.0, "tick", "in 3"},
                     // It is over already.
                     {2.1, "free 1", ""},
                     {2.1, "arrive 4 a", ""},
                     {2.1, "ask 4", ""},
                     {2.1, "next", "3"},
                     {2.2, "free 3", "in 4"},
                 });
}

TEST(DoorkeeperTest, ANetworkWithManyHandshakesDoesNotHoldUpAnother) {
  Play(Paced(3), {
                     {0.0, "arrive 1 a", ""},
                     {0.0, "ask 1", "in 1"},
                     {0.0, "arrive 2 a", ""},
                     {0.0, "ask 2", "in 2"},
                     {0.0, "arrive 3 a", ""},
                     {0.0, "ask 3", "in 3"},
                     {0.0, "arrive 4 a", ""},
                     {0.0, "ask 4", ""},
                     {0.1, "arrive 5 b", ""},
                     {0.1, "ask 5", "in 5"},
                     {0.1, "arrive 6 b", ""},
                     {0.1, "ask 6", "in 6"},
                     {0.1, "arrive 7 b", ""},
                     {0.1, "ask 7", ""},
                 });
}

TEST(DoorkeeperTest, WhereAddressesAreManyTheOneThatLosesLeastIsForgotten) {
  DoorLimits limits = SmallDoor();
  limits.waiting_max = limits.addresses_max = 2;
  Play(limits, {
                   {0.0, "arrive 1 a", ""},
                   {0.0, "ask 1", "in 1"},
                   {0.0, "arrive 2 b", ""},
                   {0.0, "ask 2", "in 2"},
                   {0.0, "free 1", ""},
                   {0.0, "free 2", ""},
                   {0.0, "arrive 3 a", ""},
                   {0.0, "ask 3", "in 3"},  // a's burst is spent.
                   {0.0, "free 3", ""},
                   {0.0, "arrive 4 c", ""},  // b is forgotten.
                   {0.0, "arrive 5 a", ""},
                   {0.0, "ask 5", ""},  // a is not.
                   {1.0, "tick", "in 5"},
               });
}

// --- Those that have not authenticated yet ----------------------------------

// An open door with room for `all` behind it, and `each` of one network.
DoorLimits Room(size_t all, size_t each) {
  DoorLimits limits = OpenDoor();
  limits.guests_max = all;
  limits.guests_per_network_max = each;
  return limits;
}

TEST(DoorkeeperTest, ANetworkAtItsBoundWaitsAndLosesNothing) {
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
                        {0.1, "ask 5", "in 5"},  // Another one does not wait.
                        {0.2, "tick", ""},
                        {1.0, "free 1", "in 4"},
                        {1.0, "free 1", ""},  // Once.
                        {2.0, "free 5", ""},
                        {2.0, "free 4", "in 3"},
                        {20.0, "tick", ""},
                        {20.0, "next", "never"},
                    });
}

TEST(DoorkeeperTest, WhereAllIsFullTheNetworkWithMostMakesRoom) {
  Play(Room(4, 4), {
                       // The address that sorts first is not the one that goes.
                       {0.0, "arrive 1 a", ""},
                       {0.0, "ask 1", "in 1"},
                       {0.0, "arrive 2 z", ""},
                       {0.0, "ask 2", "in 2"},
                       {0.0, "arrive 3 z", ""},
                       {0.0, "ask 3", "in 3"},
                       {0.0, "arrive 4 z", ""},
                       {0.0, "ask 4", "in 4"},
                       // The one with most waits.
                       {0.1, "arrive 5 z", ""},
                       {0.1, "ask 5", ""},
                       // Another one takes the place of its newest.
                       {0.2, "arrive 6 b", ""},
                       {0.2, "ask 6", "displaced 4, in 6"},
                       {0.2, "free 4", ""},
                       // a and z are equal enough: it waits.
                       {0.3, "arrive 7 a", ""},
                       {0.3, "ask 7", ""},
                       // The one with the fewest comes first.
                       {0.4, "free 6", "in 7"},
                       {0.5, "free 2", "in 5"},
                       {0.5, "next", "never"},
                   });
}

TEST(DoorkeeperTest, AFleetBehindOneAddressIsSlowedDown) {
  DoorLimits limits = Room(100, 10);
  limits.waiting_max = limits.waiting_per_address_max = 1000;
  limits.addresses_max = 1000;
  Doorkeeper door(limits);
  Doorkeeper::Verdicts in;
  for (Doorkeeper::Id id = 1; id <= 500; ++id) {
    EXPECT_EQ(Text(door.Arrive(id, Address(1), At(0))), "");
    for (const auto& verdict : door.Ask(id, At(0))) in.push_back(verdict);
  }
  EXPECT_EQ(in.size(), 10u);
  // Each that authenticates lets the next one in; none is turned away.
  for (size_t i = 0; i < in.size(); ++i) {
    EXPECT_EQ(in[i].fate, Fate::kHandedOn);
    for (const auto& verdict : door.Release(in[i].id, At(0.01 * double(i)))) {
      in.push_back(verdict);
    }
  }
  EXPECT_EQ(in.size(), 500u);
  EXPECT_EQ(door.counts().unauthenticated, 0u);
}

TEST(DoorkeeperTest, AnAttackFromANetworkTakesNoOneElsesPlace) {
  // A /64 with as many addresses as it likes, at the defaults; it never
  // authenticates.
  DoorLimits limits;
  // However many handshakes may be under way.
  limits.handshakes_at_once = limits.guests_max;
  Doorkeeper door(limits);
  Doorkeeper::Id id = 0;
  const auto six = [](uint16_t network, uint32_t host) {
    std::array<uint8_t, 16> bytes = {0x20, 1, 0xd, 0xb8};
    bytes[6] = static_cast<uint8_t>(network >> 8);
    bytes[7] = static_cast<uint8_t>(network & 0xff);
    bytes[14] = static_cast<uint8_t>(host >> 8);
    bytes[15] = static_cast<uint8_t>(host & 0xff);
    return DoorAddressOfIpv6(bytes);
  };
  for (uint16_t network = 1; network <= 5; ++network) {
    for (uint32_t host = 0; host < 5000; ++host) {
      door.Arrive(++id, six(network, host), At(0));
      door.Ask(id, At(0));
    }
  }
  // Bursts come back; what may be held is held.
  for (int second = 1; second < 5; ++second) door.Tick(At(second));
  EXPECT_EQ(door.counts().unauthenticated, limits.guests_max);
  door.Tick(At(20));
  const Doorkeeper::Id agent = ++id;
  EXPECT_EQ(Text(door.Arrive(agent, Address(1), At(20))), "");
  const Doorkeeper::Verdicts verdicts = door.Ask(agent, At(20));
  ASSERT_EQ(verdicts.size(), 2u);
  EXPECT_EQ(verdicts[0].fate, Fate::kDisplaced);
  EXPECT_EQ(verdicts[1].id, agent);
  EXPECT_EQ(verdicts[1].fate, Fate::kHandedOn);
}

TEST(DoorkeeperTest, CountsByFate) {
  Doorkeeper door(SmallDoor());
  for (Doorkeeper::Id id = 1; id <= 9; ++id) {
    door.Arrive(id, Address(static_cast<uint8_t>(id % 3)), At(0));
  }
  door.Ask(9, At(0));
  door.Leave(8, Fate::kGarbage);
  door.Leave(7, Fate::kHungUp);
  EXPECT_EQ(door.counts().waiting, 2u);
  door.Tick(At(5));
  const DoorCounts counts = door.counts();
  EXPECT_EQ(counts.arrived, 9u);
  EXPECT_EQ(counts.crowded, 4u);
  EXPECT_EQ(counts.handed_on, 1u);
  EXPECT_EQ(counts.garbage, 1u);
  EXPECT_EQ(counts.hung_up, 1u);
  EXPECT_EQ(counts.silent, 2u);
  EXPECT_EQ(counts.impatient, 0u);
  EXPECT_EQ(counts.waiting, 0u);
}

TEST(DoorkeeperTest, AnAddressIsAnIpv4OneOrAnIpv6Network) {
  const std::array<uint8_t, 16> one = {0x20, 1, 0xd, 0xb8, 0, 0, 0, 1,
                                       0,    0, 0,   0,    0, 0, 0, 1};
  std::array<uint8_t, 16> same_network = one;
  same_network[8] = same_network[15] = 0xff;
  std::array<uint8_t, 16> other_network = one;
  other_network[7] = 2;
  EXPECT_EQ(DoorAddressOfIpv6(one), DoorAddressOfIpv6(same_network));
  EXPECT_NE(DoorAddressOfIpv6(one), DoorAddressOfIpv6(other_network));

  const std::array<uint8_t, 16> mapped = {0, 0, 0,    0,    0,  0, 0, 0,
                                          0, 0, 0xff, 0xff, 10, 0, 0, 1};
  EXPECT_EQ(DoorAddressOfIpv6(mapped), DoorAddressOfIpv4({10, 0, 0, 1}));
  EXPECT_NE(DoorAddressOfIpv4({10, 0, 0, 1}), DoorAddressOfIpv4({10, 0, 0, 2}));
}

// The largest job comes at once, from as many machines: each waits for a
// handshake to end, and for nothing else.
TEST(DoorkeeperTest, TheLargestJobPassesAtOnce) {
  const DoorLimits limits;
  Doorkeeper door(limits);
  Doorkeeper::Verdicts in;
  for (Doorkeeper::Id id = 1; id <= Limits::nodes_max; ++id) {
    const DoorAddress from =
        DoorAddressOfIpv4({10, 0, static_cast<uint8_t>(id >> 8),
                           static_cast<uint8_t>(id & 0xff)});
    ASSERT_EQ(Text(door.Arrive(id, from, At(0))), "");
    for (const auto& verdict : door.Ask(id, At(0))) in.push_back(verdict);
  }
  ASSERT_EQ(in.size(), limits.handshakes_at_once);
  for (size_t i = 0; i < in.size(); ++i) {
    ASSERT_EQ(in[i].fate, Fate::kHandedOn);
    for (const auto& verdict : door.Release(in[i].id, At(0))) {
      in.push_back(verdict);
    }
  }
  ASSERT_EQ(in.size(), size_t{Limits::nodes_max});
  // And its addresses are forgotten as soon as they may be.
  EXPECT_EQ(door.addresses(), Limits::nodes_max);
  door.Tick(door.NextDeadline());
  EXPECT_EQ(door.addresses(), 0u);
  EXPECT_EQ(door.NextDeadline(), absl::InfiniteFuture());
}

// 12,288 agents behind one address, on machines that do 400 handshakes a second
// with them. Each gives up after the 3 s that an agent first waits, and dials
// again within a second. All get in, and few handshakes are done in vain.
TEST(DoorkeeperTest, AFleetBehindOneAddressFormsAtTheSpeedOfItsHandshakes) {
  constexpr size_t kNodes = 12'288;
  constexpr size_t kDoneEachStep = 4;
  constexpr absl::Duration kStep = absl::Milliseconds(10);
  constexpr absl::Duration kPatience = absl::Seconds(3);
  Doorkeeper door((DoorLimits()));
  Doorkeeper::Id id = 0;
  std::multiset<absl::Time> dials;
  for (size_t i = 0; i < kNodes; ++i) dials.insert(At(0));
  std::map<Doorkeeper::Id, absl::Time> waiting;  // With when they came.
  std::deque<std::pair<Doorkeeper::Id, absl::Time>> begun;
  size_t in_vain = 0, attending = 0;
  absl::Time now = At(0);
  const auto dial_again = [&](Doorkeeper::Id after) {
    dials.insert(now + absl::Milliseconds(50 + after * 7919 % 950));
  };
  const auto take = [&](const Doorkeeper::Verdicts& verdicts) {
    for (const Doorkeeper::Verdict& verdict : verdicts) {
      ASSERT_EQ(verdict.fate, Fate::kHandedOn);
      begun.push_back(*waiting.find(verdict.id));
      waiting.erase(verdict.id);
    }
  };
  for (; attending < kNodes && now < At(90); now += kStep) {
    while (!dials.empty() && *dials.begin() <= now) {
      dials.erase(dials.begin());
      waiting[++id] = now;
      take(door.Arrive(id, Address(1), now));
      take(door.Ask(id, now));
    }
    for (size_t i = 0; i < kDoneEachStep && !begun.empty(); ++i) {
      const auto [done, since] = begun.front();
      begun.pop_front();
      if (now - since > kPatience) {
        ++in_vain;
        dial_again(done);
      } else {
        ++attending;
      }
      take(door.Release(done, now));
    }
    while (!waiting.empty() && waiting.begin()->second + kPatience <= now) {
      dial_again(waiting.begin()->first);
      door.Leave(waiting.begin()->first, Fate::kHungUp);
      waiting.erase(waiting.begin());
    }
    take(door.Tick(now));
  }
  EXPECT_EQ(attending, kNodes);
  EXPECT_LT(in_vain, kNodes / 10);
}

// A flood from one address, of those who ask, against one honest stranger.
TEST(DoorkeeperTest, AFloodDelaysItsOwn) {
  const DoorLimits limits;
  Doorkeeper door(limits);
  Doorkeeper::Id id = 0;
  while (door.counts().waiting < limits.waiting_max) {
    door.Arrive(++id, Address(1), At(0));
    door.Ask(id, At(0));
  }
  EXPECT_EQ(door.counts().handed_on, limits.handshakes_at_once);
  door.Arrive(++id, Address(2), At(0));
  EXPECT_EQ(Text(door.Ask(id, At(0))), absl::StrCat("in ", id));
}

// Random crowds. Replay a failure with --gtest_filter and the seed it names.
class Crowd {
 public:
  Crowd(uint32_t seed, const DoorLimits& limits)
      : random_(seed), limits_(limits), door_(limits) {}

  void Run() {
    for (int i = 0; i < 20'000 && !testing::Test::HasFailure(); ++i) Act();
    while (!inside_.empty() && !testing::Test::HasFailure()) {
      const Doorkeeper::Id id = inside_.begin()->first;
      inside_.erase(id);
      Take(door_.Release(id, now_));
    }
    while (door_.NextDeadline() != absl::InfiniteFuture() &&
           !testing::Test::HasFailure()) {
      now_ = std::max(now_, door_.NextDeadline());
      Take(door_.Tick(now_));
      ExpectInvariants();
      while (!inside_.empty() && !testing::Test::HasFailure()) {
        const Doorkeeper::Id id = inside_.begin()->first;
        inside_.erase(id);
        Take(door_.Release(id, now_));
      }
    }
    EXPECT_EQ(door_.addresses(), 0u);
    EXPECT_TRUE(waiting_.empty());
  }

 private:
  uint64_t Below(uint64_t most) {
    return std::uniform_int_distribution<uint64_t>(0, most - 1)(random_);
  }

  void Act() {
    const Doorkeeper::Id any = newest_ < 8 ? 1 : newest_ - Below(8);
    switch (Below(10)) {
      case 0:
      case 1:
      case 2: {
        const auto from = static_cast<uint8_t>(Below(1 + Below(12)));
        waiting_[++newest_] = from;
        Take(door_.Arrive(newest_, Address(from), now_));
        break;
      }
      case 3:
      case 4:
        asked_.insert(any);
        Take(door_.Ask(any, now_));
        break;
      case 5:
        door_.Leave(any, Fate::kHungUp);
        waiting_.erase(any);
        break;
      case 6:
        if (Below(10) == 0) Take(door_.MakeRoom());
        if (Below(10) == 0) {
          const size_t most = Below(2 * limits_.waiting_max);
          Take(door_.Limit(most));
          EXPECT_LE(waiting_.size(), std::max(most, size_t{1}));
        }
        break;
      case 7:
      case 8:
        if (!inside_.empty()) {
          const auto one = std::next(inside_.begin(),
                                     static_cast<long>(Below(inside_.size())));
          const Doorkeeper::Id id = one->first;
          inside_.erase(one);
          Take(door_.Release(id, now_));
        }
        break;
      default:
        now_ += absl::Milliseconds(Below(400));
        Take(door_.Tick(now_));
        EXPECT_GT(door_.NextDeadline(), now_);
    }
    ExpectInvariants();
  }

  void Take(const Doorkeeper::Verdicts& verdicts) {
    for (const Doorkeeper::Verdict& verdict : verdicts) {
      if (verdict.fate == Fate::kDisplaced) {
        ASSERT_EQ(inside_.erase(verdict.id), 1u) << verdict.id;
        continue;
      }
      ASSERT_EQ(waiting_.count(verdict.id), 1u) << "twice: " << verdict.id;
      if (verdict.fate == Fate::kHandedOn) {
        all_.push_back(now_);
        by_address_[waiting_[verdict.id]].push_back(now_);
        inside_[verdict.id] = waiting_[verdict.id];
      }
      waiting_.erase(verdict.id);
    }
    ExpectRate(all_, limits_.handshakes_per_second, limits_.handshakes_burst);
    for (const auto& [from, times] : by_address_) {
      ExpectRate(times, limits_.handshakes_per_address_per_second,
                 limits_.handshakes_per_address_burst);
    }
  }

  // No `burst` + 1 within less than a second over the rate, over the last few
  // windows.
  void ExpectRate(const std::vector<absl::Time>& times, uint32_t per_second,
                  uint32_t burst) {
    for (size_t more = 1; more <= 8; ++more) {
      if (times.size() < burst + more) return;
      const absl::Time first = times[times.size() - burst - more];
      ASSERT_GE(times.back() - first, more * absl::Seconds(1) / per_second);
    }
  }

  void ExpectInvariants() {
    EXPECT_EQ(door_.counts().waiting, waiting_.size());
    std::map<uint8_t, size_t> at;
    for (const auto& [id, from] : waiting_) {
      if (!asked_.contains(id)) ++at[from];
    }
    for (const auto& [from, count] : at) {
      EXPECT_LE(count, limits_.waiting_per_address_max);
    }
    EXPECT_LE(waiting_.size(), limits_.waiting_max);
    std::map<uint8_t, size_t> in;
    for (const auto& [id, from] : inside_) ++in[from];
    for (const auto& [from, count] : in) {
      EXPECT_LE(count, limits_.guests_per_network_max);
    }
    EXPECT_EQ(door_.counts().unauthenticated, inside_.size());
    EXPECT_LE(inside_.size(), limits_.guests_max);
    EXPECT_LE(door_.addresses(), limits_.addresses_max + in.size());
  }

  std::mt19937 random_;
  const DoorLimits limits_;
  Doorkeeper door_;
  absl::Time now_ = At(0);
  Doorkeeper::Id newest_ = 0;
  std::map<Doorkeeper::Id, uint8_t> waiting_;
  std::set<Doorkeeper::Id> asked_;
  std::map<Doorkeeper::Id, uint8_t> inside_;
  std::vector<absl::Time> all_;
  std::map<uint8_t, std::vector<absl::Time>> by_address_;
};

TEST(DoorkeeperTest, RandomCrowdsKeepTheInvariants) {
  for (uint32_t seed = 1; seed <= 20 && !HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    DoorLimits limits = SmallDoor();
    limits.waiting_max = 4 + seed;
    limits.addresses_max = 40;  // None is forgotten early.
    limits.handshakes_per_second = 1 + seed % 4;
    limits.guests_max = 1 + seed;
    limits.guests_per_network_max = 1 + seed % 5;
    limits.handshakes_at_once = 1 + seed % 3;
    limits.handshake_time = absl::Milliseconds(100 * (1 + seed % 7));
    Crowd(seed, limits).Run();
  }
}

TEST(FittedTo, LeavesDescriptorsForTheRest) {
  for (const size_t descriptors :
       {16u, 64u, 256u, 1024u, 4096u, 20000u, 65536u, 1u << 20}) {
    const DoorLimits limits = FittedTo(DoorLimits(), descriptors);
    const size_t taken = limits.waiting_and_agents_max + 2 * limits.guests_max +
                         2 * limits.viewers_max;
    if (descriptors >= 64) {
      EXPECT_LE(taken, descriptors / 32 * 29) << descriptors;
    }
    EXPECT_GE(limits.waiting_max, 1u);
    EXPECT_LE(limits.waiting_max, limits.waiting_and_agents_max);
    EXPECT_LE(limits.agents_max, limits.waiting_and_agents_max);
    EXPECT_GE(limits.guests_per_network_max, 1u);
    EXPECT_LE(limits.guests_per_network_max, limits.guests_max);
    EXPECT_GE(limits.viewer_connections_max, 1u);
    EXPECT_GE(limits.agents_max,
              std::min(descriptors / 16, DoorLimits().agents_max));
    // A fleet that has room as agents has room to wait in until it is in.
    EXPECT_GE(limits.waiting_max,
              std::min(limits.agents_max, size_t{Limits::nodes_max}));
  }
  EXPECT_GE(FittedTo(DoorLimits(), 20'000).agents_max, 12'288u);
  // Where there are enough, all that the limits say.
  const DoorLimits all = FittedTo(DoorLimits(), 1 << 20);
  EXPECT_EQ(all.agents_max, DoorLimits().agents_max);
  EXPECT_EQ(all.guests_max, DoorLimits().guests_max);
  EXPECT_EQ(all.viewers_max, DoorLimits().viewers_max);
}

}  // namespace
}  // namespace rollcall
