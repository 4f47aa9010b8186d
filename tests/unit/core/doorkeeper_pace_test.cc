// How fast the doorkeeper lets callers in: handshakes that are under way, large
// jobs, floods, and random crowds against the invariants.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/core/doorkeeper.h"
#include "tests/unit/core/doorkeeper_fixture.h"

namespace rollcall {
namespace {

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

}  // namespace
}  // namespace rollcall
