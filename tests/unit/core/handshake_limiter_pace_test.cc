// How fast the limiter lets connections in: running handshakes, large jobs,
// floods, and random events checked against the invariants.
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
#include "daemon/core/handshake_limiter.h"
#include "tests/unit/core/handshake_limiter_fixture.h"

namespace rollcall {
namespace {

// --- Running handshakes ------------------------------------------------------

// No rate limits; at most `at_once` handshakes run at the same time.
ConnectionLimits Paced(size_t at_once) {
  ConnectionLimits limits = OpenListener();
  limits.handshakes_at_once = at_once;
  limits.handshake_time = absl::Seconds(2);
  return limits;
}

TEST(HandshakeLimiterTest, OneHandshakeBeginsWhereAnotherEnds) {
  Play(Paced(2), {
                     {0.0, "arrive 1 a", ""},
                     {0.0, "ask 1", "in 1"},
                     {0.1, "arrive 2 b", ""},
                     {0.1, "ask 2", "in 2"},
                     // The counts of a and c differ by too little for one to
                     // come before the other.
                     {0.2, "arrive 3 a", ""},
                     {0.2, "ask 3", ""},
                     {0.2, "arrive 4 c", ""},
                     {0.2, "ask 4", ""},
                     {0.3, "tick", ""},
                     {0.3, "next", "2"},
                     // The network with the fewest connections comes first.
                     {0.4, "free 2", "in 4"},
                     {0.5, "free 1", "in 3"},
                     {0.5, "arrive 5 a", ""},
                     {0.5, "ask 5", ""},
                     {0.5, "gone 5", ""},
                     {0.5, "next", "never"},
                 });
}

TEST(HandshakeLimiterTest, AHandshakeThatStopsHoldsUpTheOthersForATimeAlone) {
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
                     // The handshake has already ended.
                     {2.1, "free 1", ""},
                     {2.1, "arrive 4 a", ""},
                     {2.1, "ask 4", ""},
                     {2.1, "next", "3"},
                     {2.2, "free 3", "in 4"},
                 });
}

TEST(HandshakeLimiterTest, ANetworkWithManyHandshakesDoesNotHoldUpAnother) {
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

TEST(HandshakeLimiterTest, AtTwiceTheBoundNetworksWithFewWaitToo) {
  Play(Paced(2), {
                     {0.0, "arrive 1 a", ""},
                     {0.0, "ask 1", "in 1"},
                     {0.0, "arrive 2 a", ""},
                     {0.0, "ask 2", "in 2"},
                     {0.0, "arrive 3 a", ""},
                     {0.0, "ask 3", ""},
                     {0.1, "arrive 4 b", ""},
                     {0.1, "ask 4", "in 4"},
                     {0.1, "arrive 5 c", ""},
                     {0.1, "ask 5", "in 5"},
                     {0.2, "arrive 6 d", ""},
                     {0.2, "ask 6", ""},
                     // d comes before a, and does not wait until b and c end.
                     {2.0, "tick", "in 6"},
                 });
}

TEST(HandshakeLimiterTest,
     WhereAddressesAreManyTheOneThatLosesLeastIsForgotten) {
  ConnectionLimits limits = SmallLimits();
  limits.waiting_max = limits.addresses_max = 2;
  Play(limits, {
                   {0.0, "arrive 1 a", ""},
                   {0.0, "ask 1", "in 1"},
                   {0.0, "arrive 2 b", ""},
                   {0.0, "ask 2", "in 2"},
                   {0.0, "free 1", ""},
                   {0.0, "free 2", ""},
                   {0.0, "arrive 3 a", ""},
                   {0.0, "ask 3", "in 3"},  // a's burst is used up.
                   {0.0, "free 3", ""},
                   {0.0, "arrive 4 c", ""},  // b's address is forgotten.
                   {0.0, "arrive 5 a", ""},
                   {0.0, "ask 5", ""},  // a's address is not.
                   {1.0, "tick", "in 5"},
               });
}

// a's last unauthenticated connection ends while another one of a waits.
TEST(HandshakeLimiterTest, AlsoWhenTheOneThatEndsLeavesAnotherWaiting) {
  ConnectionLimits limits = OpenListener();
  limits.waiting_max = limits.addresses_max = 2;
  HandshakeLimiter limiter(limits);
  for (const Row& row : std::vector<Row>{{0.0, "arrive 1 a", ""},
                                         {0.0, "ask 1", "in 1"},
                                         {0.0, "arrive 2 a", ""},
                                         {0.0, "arrive 3 b", ""},
                                         {0.0, "ask 3", "in 3"},
                                         {0.0, "free 3", ""},
                                         {0.0, "arrive 4 c", ""},
                                         {0.0, "ask 4", "in 4"},
                                         {0.0, "free 4", ""},
                                         {0.0, "free 1", ""},
                                         {0.0, "arrive 5 a", ""},
                                         {0.0, "ask 5", "in 5"}}) {
    EXPECT_EQ(Apply(limiter, row), row.expect) << row.event;
  }
  EXPECT_LE(limiter.addresses(), limits.addresses_max + 1);
}

// SmallLimits: one handshake a second and address, and a burst of two.
TEST(HandshakeLimiterTest, BytesInVainCostTheirAddressHandshakes) {
  ConnectionLimits limits = SmallLimits();
  limits.bytes_in_vain_per_handshake = 100;
  limits.handshakes_per_address_debt = 2;
  Play(limits, {
                   {0.0, "arrive 1 a", ""},
                   {0.0, "ask 1", "in 1"},
                   {0.0, "charge 199 a", ""},  // One handshake.
                   {0.0, "free 1", ""},
                   {0.0, "arrive 2 a", ""},
                   {0.0, "ask 2", ""},
                   {0.0, "next", "1"},
                   {1.0, "tick", "in 2"},
                   // The next one of the address already waits.
                   {1.0, "arrive 3 a", ""},
                   {1.0, "ask 3", ""},
                   {1.0, "next", "2"},
                   {1.0, "charge 100 a", ""},
                   {1.0, "next", "3"},
                   {1.0, "arrive 4 b", ""},
                   {1.0, "ask 4", "in 4"},
                   {3.0, "tick", "in 3"},
                   // At most two more than the burst.
                   {3.0, "charge 1000000 a", ""},
                   {3.0, "free 2", ""},
                   {3.0, "free 3", ""},
                   {3.0, "charge 99 b", ""},
                   {3.0, "free 4", ""},
                   {3.0, "arrive 5 a", ""},
                   {3.0, "ask 5", ""},
                   {3.0, "next", "6"},
                   {6.0, "tick", "in 5"},
                   {6.0, "free 5", ""},
                   {6.0, "next", "8"},
                   {8.0, "tick", ""},
                   {8.0, "next", "never"},
                   // Nothing but the debt is known of this address.
                   {8.0, "charge 300 c", ""},
                   {8.0, "next", "11"},
                   {8.0, "arrive 6 c", ""},
                   {8.0, "ask 6", ""},
                   {8.0, "next", "10"},
                   {10.0, "tick", "in 6"},
               });
}

TEST(HandshakeLimiterTest, WithoutAPlaceForItAnAddressIsNotCharged) {
  ConnectionLimits limits = SmallLimits();
  limits.waiting_max = limits.addresses_max = 1;
  limits.bytes_in_vain_per_handshake = 1;
  Play(limits, {
                   {0.0, "arrive 1 a", ""},
                   {0.0, "charge 100 b", ""},
                   {0.0, "gone 1", ""},
                   {0.0, "arrive 2 b", ""},
                   {0.0, "ask 2", "in 2"},
               });
}

// The largest job connects at once, each node from its own address. Each
// connection waits only for a handshake to end.
TEST(HandshakeLimiterTest, TheLargestJobPassesAtOnce) {
  const ConnectionLimits limits;
  HandshakeLimiter limiter(limits);
  HandshakeLimiter::Verdicts in;
  for (HandshakeLimiter::Id id = 1; id <= Limits::nodes_max; ++id) {
    const SourceAddress from =
        SourceAddressOfIpv4({10, 0, static_cast<uint8_t>(id >> 8),
                             static_cast<uint8_t>(id & 0xff)});
    ASSERT_EQ(Text(limiter.Arrive(id, from, At(0))), "");
    for (const auto& verdict : limiter.Ask(id, At(0))) in.push_back(verdict);
  }
  ASSERT_EQ(in.size(), limits.handshakes_at_once);
  for (size_t i = 0; i < in.size(); ++i) {
    ASSERT_EQ(in[i].fate, Fate::kHandedOn);
    for (const auto& verdict : limiter.Release(in[i].id, At(0))) {
      in.push_back(verdict);
    }
  }
  ASSERT_EQ(in.size(), size_t{Limits::nodes_max});
  // The limiter forgets the addresses as soon as it may.
  EXPECT_EQ(limiter.addresses(), Limits::nodes_max);
  limiter.Tick(limiter.NextDeadline());
  EXPECT_EQ(limiter.addresses(), 0u);
  EXPECT_EQ(limiter.NextDeadline(), absl::InfiniteFuture());
}

// The same, while two clients of another address have stopped halfway.
TEST(HandshakeLimiterTest, TheLargestJobIsPacedBesideTwoThatStopHalfway) {
  const ConnectionLimits limits;
  HandshakeLimiter limiter(limits);
  HandshakeLimiter::Id id = 0;
  while (id < 2) {
    ++id;
    limiter.Arrive(id, SourceAddressOfIpv4({11, 0, 0, 1}), At(0));
    ASSERT_EQ(limiter.Ask(id, At(0)).size(), 1u);
  }
  HandshakeLimiter::Verdicts in;
  for (size_t node = 1; node <= limits.waiting_max; ++node) {
    const SourceAddress from =
        SourceAddressOfIpv4({10, 0, static_cast<uint8_t>(node >> 8),
                             static_cast<uint8_t>(node & 0xff)});
    ASSERT_EQ(Text(limiter.Arrive(++id, from, At(0))), "");
    for (const auto& verdict : limiter.Ask(id, At(0))) in.push_back(verdict);
  }
  ASSERT_EQ(in.size(), 2 * limits.handshakes_at_once - 2);
  // The burst is used up before all are in.
  const size_t burst = limits.handshakes_burst - 2;
  for (size_t i = 0; i < in.size(); ++i) {
    ASSERT_EQ(in[i].fate, Fate::kHandedOn);
    const auto more = limiter.Release(in[i].id, At(0));
    ASSERT_EQ(more.size(), in.size() < burst ? 1u : 0u) << i;
    in.insert(in.end(), more.begin(), more.end());
  }
  EXPECT_EQ(in.size(), burst);
}

// 12,288 agents connect from one address, and the machines do 400 handshakes a
// second with them. Each agent gives up after 3 s, its first timeout, and dials
// again within a second. All must get in, and few handshakes may be wasted.
TEST(HandshakeLimiterTest,
     AFleetBehindOneAddressFormsAtTheSpeedOfItsHandshakes) {
  constexpr size_t kNodes = 12'288;
  constexpr size_t kDoneEachStep = 4;
  constexpr absl::Duration kStep = absl::Milliseconds(10);
  constexpr absl::Duration kPatience = absl::Seconds(3);
  HandshakeLimiter limiter((ConnectionLimits()));
  HandshakeLimiter::Id id = 0;
  std::multiset<absl::Time> dials;
  for (size_t i = 0; i < kNodes; ++i) dials.insert(At(0));
  std::map<HandshakeLimiter::Id, absl::Time> waiting;  // The time when each
                                                       // came.
  std::deque<std::pair<HandshakeLimiter::Id, absl::Time>> begun;
  size_t in_vain = 0, attending = 0;
  absl::Time now = At(0);
  const auto dial_again = [&](HandshakeLimiter::Id after) {
    dials.insert(now + absl::Milliseconds(50 + after * 7919 % 950));
  };
  const auto take = [&](const HandshakeLimiter::Verdicts& verdicts) {
    for (const HandshakeLimiter::Verdict& verdict : verdicts) {
      ASSERT_EQ(verdict.fate, Fate::kHandedOn);
      begun.push_back(*waiting.find(verdict.id));
      waiting.erase(verdict.id);
    }
  };
  for (; attending < kNodes && now < At(90); now += kStep) {
    while (!dials.empty() && *dials.begin() <= now) {
      dials.erase(dials.begin());
      waiting[++id] = now;
      take(limiter.Arrive(id, Address(1), now));
      take(limiter.Ask(id, now));
    }
    for (size_t i = 0; i < kDoneEachStep && !begun.empty(); ++i) {
      const auto [done, since] = begun.front();
      begun.pop_front();
      const bool late = now - since > kPatience;
      if (late) {
        ++in_vain;
        dial_again(done);
      } else {
        ++attending;
      }
      // A ClientHello and the end of the handshake.
      if (late) limiter.Charge(Address(1), 700, now);
      take(limiter.Release(done, now));
    }
    while (!waiting.empty() && waiting.begin()->second + kPatience <= now) {
      dial_again(waiting.begin()->first);
      limiter.Leave(waiting.begin()->first, Fate::kHungUp);
      waiting.erase(waiting.begin());
    }
    take(limiter.Tick(now));
  }
  EXPECT_EQ(attending, kNodes);
  EXPECT_LT(in_vain, kNodes / 10);
}

// One address floods the listener and sends data; another address connects
// once.
TEST(HandshakeLimiterTest, AFloodDelaysItsOwn) {
  const ConnectionLimits limits;
  HandshakeLimiter limiter(limits);
  HandshakeLimiter::Id id = 0;
  while (limiter.counts().waiting < limits.waiting_max) {
    limiter.Arrive(++id, Address(1), At(0));
    limiter.Ask(id, At(0));
  }
  EXPECT_EQ(limiter.counts().handed_on, limits.unauthenticated_per_network_max);
  limiter.Arrive(++id, Address(2), At(0));
  EXPECT_EQ(Text(limiter.Ask(id, At(0))), absl::StrCat("in ", id));
}

// Random events. To replay a failure, use --gtest_filter and the seed in the
// message.
class Crowd {
 public:
  Crowd(uint32_t seed, const ConnectionLimits& limits)
      : random_(seed), limits_(limits), limiter_(limits) {}

  void Run() {
    for (int i = 0; i < 20'000 && !testing::Test::HasFailure(); ++i) Act();
    while (!inside_.empty() && !testing::Test::HasFailure()) {
      const HandshakeLimiter::Id id = inside_.begin()->first;
      inside_.erase(id);
      Take(limiter_.Release(id, now_));
    }
    while (limiter_.NextDeadline() != absl::InfiniteFuture() &&
           !testing::Test::HasFailure()) {
      now_ = std::max(now_, limiter_.NextDeadline());
      Take(limiter_.Tick(now_));
      ExpectInvariants();
      while (!inside_.empty() && !testing::Test::HasFailure()) {
        const HandshakeLimiter::Id id = inside_.begin()->first;
        inside_.erase(id);
        Take(limiter_.Release(id, now_));
      }
    }
    EXPECT_EQ(limiter_.addresses(), 0u);
    EXPECT_TRUE(waiting_.empty());
  }

 private:
  uint64_t Below(uint64_t most) {
    return std::uniform_int_distribution<uint64_t>(0, most - 1)(random_);
  }

  void Act() {
    const HandshakeLimiter::Id any = newest_ < 8 ? 1 : newest_ - Below(8);
    switch (Below(10)) {
      case 0:
      case 1:
      case 2: {
        const auto from = static_cast<uint8_t>(Below(1 + Below(12)));
        waiting_[++newest_] = from;
        Take(limiter_.Arrive(newest_, Address(from), now_));
        break;
      }
      case 3:
      case 4:
        asked_.insert(any);
        Take(limiter_.Ask(any, now_));
        break;
      case 5:
        limiter_.Leave(any, Fate::kHungUp);
        waiting_.erase(any);
        break;
      case 6:
        if (Below(10) == 0) Take(limiter_.MakeRoom());
        if (Below(10) == 0) {
          const size_t most = Below(2 * limits_.waiting_max);
          Take(limiter_.Limit(most));
          EXPECT_LE(waiting_.size(), std::max(most, size_t{1}));
        }
        break;
      case 7:
      case 8:
        if (!inside_.empty()) {
          const auto one = std::next(inside_.begin(),
                                     static_cast<long>(Below(inside_.size())));
          const HandshakeLimiter::Id id = one->first;
          inside_.erase(one);
          Take(limiter_.Release(id, now_));
        }
        break;
      case 9:
        if (!inside_.empty() && Below(2) == 0) {
          since_[inside_.begin()->first] = now_;
          introduced_.insert(inside_.begin()->first);
          Take(limiter_.Introduce(inside_.begin()->first, now_));
        }
        if (Below(10) == 0) {
          const auto from = static_cast<uint8_t>(Below(12));
          limiter_.Charge(Address(from), Below(100'000), now_);
        }
        [[fallthrough]];
      default:
        now_ += absl::Milliseconds(Below(400));
        Take(limiter_.Tick(now_));
        EXPECT_GT(limiter_.NextDeadline(), now_);
    }
    ExpectInvariants();
  }

  void Take(const HandshakeLimiter::Verdicts& verdicts) {
    for (const HandshakeLimiter::Verdict& verdict : verdicts) {
      if (verdict.fate == Fate::kDisplaced) {
        EXPECT_TRUE(inside_.size() == limits_.unauthenticated_max ||
                    now_ - since_[verdict.id] >= limits_.handshake_time)
            << "too early: " << verdict.id;
        ASSERT_EQ(inside_.erase(verdict.id), 1u) << verdict.id;
        continue;
      }
      ASSERT_EQ(waiting_.count(verdict.id), 1u) << "twice: " << verdict.id;
      if (verdict.fate == Fate::kHandedOn) {
        all_.push_back(now_);
        by_address_[waiting_[verdict.id]].push_back(now_);
        inside_[verdict.id] = waiting_[verdict.id];
        since_[verdict.id] = now_;
      }
      waiting_.erase(verdict.id);
    }
    ExpectRate(all_, limits_.handshakes_per_second, limits_.handshakes_burst);
    for (const auto& [from, times] : by_address_) {
      ExpectRate(times, limits_.handshakes_per_address_per_second,
                 limits_.handshakes_per_address_burst);
    }
  }

  // Expects that the latest `burst` + n connections (n up to 8) span at least
  // the time in which the rate allows n.
  void ExpectRate(const std::vector<absl::Time>& times, uint32_t per_second,
                  uint32_t burst) {
    for (size_t more = 1; more <= 8; ++more) {
      if (times.size() < burst + more) return;
      const absl::Time first = times[times.size() - burst - more];
      ASSERT_GE(times.back() - first, more * absl::Seconds(1) / per_second);
    }
  }

  void ExpectInvariants() {
    EXPECT_EQ(limiter_.counts().waiting, waiting_.size());
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
      EXPECT_LE(count, limits_.unauthenticated_per_network_max);
    }
    size_t under_way = 0;
    for (const auto& [id, from] : inside_) {
      under_way += !introduced_.contains(id) &&
                   since_.at(id) + limits_.handshake_time > now_;
    }
    EXPECT_LE(under_way, 2 * limits_.handshakes_at_once);
    EXPECT_EQ(limiter_.counts().unauthenticated, inside_.size());
    EXPECT_LE(inside_.size(), limits_.unauthenticated_max);
    EXPECT_LE(limiter_.addresses(), limits_.addresses_max + in.size());
  }

  std::mt19937 random_;
  const ConnectionLimits limits_;
  HandshakeLimiter limiter_;
  absl::Time now_ = At(0);
  HandshakeLimiter::Id newest_ = 0;
  std::map<HandshakeLimiter::Id, uint8_t> waiting_;
  std::set<HandshakeLimiter::Id> asked_;
  std::map<HandshakeLimiter::Id, uint8_t> inside_;
  // When each was handed on or introduced.
  std::map<HandshakeLimiter::Id, absl::Time> since_;
  std::set<HandshakeLimiter::Id> introduced_;
  std::vector<absl::Time> all_;
  std::map<uint8_t, std::vector<absl::Time>> by_address_;
};

TEST(HandshakeLimiterTest, RandomCrowdsKeepTheInvariants) {
  for (uint32_t seed = 1; seed <= 20 && !HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    ConnectionLimits limits = SmallLimits();
    limits.waiting_max = 4 + seed;
    limits.addresses_max = 40;  // No address is forgotten early.
    limits.handshakes_per_second = 1 + seed % 4;
    limits.unauthenticated_max = 1 + seed;
    limits.unauthenticated_per_network_max = 1 + seed % 5;
    limits.handshakes_at_once = 1 + seed % 3;
    limits.handshake_time = absl::Milliseconds(100 * (1 + seed % 7));
    Crowd(seed, limits).Run();
  }
}

}  // namespace
}  // namespace rollcall
