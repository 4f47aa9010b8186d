#include "daemon/server/web/handshake_budget.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace rollcall {
namespace {

const absl::Time kStart = absl::UnixEpoch() + absl::Hours(1);

// Returns how many of `tries` at the same time are granted.
int Granted(HandshakeBudget& budget, const std::string& network, int tries,
            absl::Time now) {
  int granted = 0;
  for (int i = 0; i < tries; ++i) granted += budget.Take(network, now) ? 1 : 0;
  return granted;
}

TEST(HandshakeBudget, OneNetworkLeavesSomeToOthers) {
  HandshakeBudget budget({100, 64}, {50, 32});
  EXPECT_EQ(Granted(budget, "a", 1000, kStart), 32);
  EXPECT_EQ(Granted(budget, "b", 10, kStart), 10);
  // Network "a" asks as often as it can for ten seconds.
  int flood = 0;
  int others = 0;
  for (int ms = 10; ms <= 10000; ms += 10) {
    const absl::Time now = kStart + absl::Milliseconds(ms);
    flood += Granted(budget, "a", 20, now);
    if (ms % 100 == 0) others += Granted(budget, "b", 1, now);
  }
  EXPECT_NEAR(flood, 500, 1);
  EXPECT_EQ(others, 100);
}

TEST(HandshakeBudget, AllTogetherHaveALimit) {
  HandshakeBudget budget({100, 64}, {50, 32});
  int granted = 0;
  for (int i = 0; i < 100; ++i) {
    granted += Granted(budget, absl::StrCat("n", i), 10, kStart);
  }
  EXPECT_EQ(granted, 64);
  EXPECT_EQ(Granted(budget, "late", 1, kStart), 0);
  EXPECT_EQ(Granted(budget, "late", 1, kStart + absl::Milliseconds(11)), 1);
}

TEST(HandshakeBudget, FullNetworksAreForgotten) {
  HandshakeBudget budget({100, 64}, {50, 32});
  for (int i = 0; i < 100000; ++i) {
    budget.Take(absl::StrCat("n", i), kStart + absl::Milliseconds(i));
    ASSERT_LE(budget.networks(), 256);
  }
}

}  // namespace
}  // namespace rollcall
