#include "client/launch/daemon_child.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "absl/time/time.h"

namespace rollcall {
namespace {

struct Death {
  double at_s;
  double served_s;
  // The pause until the daemon is started again; -1: it is not started.
  double pause_s;
  bool hopeless = false;
};

void Check(const std::vector<Death>& deaths) {
  DaemonRestarts restarts(absl::Seconds(60));
  for (const Death& death : deaths) {
    const absl::Time now = absl::UnixEpoch() + absl::Seconds(death.at_s);
    const std::optional<absl::Time> another =
        restarts.Another(now, absl::Seconds(death.served_s), death.hopeless);
    EXPECT_EQ(another.has_value() ? absl::ToDoubleSeconds(*another - now) : -1,
              death.pause_s)
        << "died at " << death.at_s;
  }
}

TEST(DaemonRestartsTest, PausesGrowUntilNoneHasServedForSoLong) {
  for (const double served_s : {0.0, 0.99}) {
    Check({{0, served_s, 0},
           {1, served_s, 0.1},
           {2, served_s, 0.2},
           {3, served_s, 0.4},
           {4, served_s, 0.8},
           {6, served_s, 1.6},
           {9, served_s, 3.2},
           {15, served_s, 5},
           {20, served_s, 5},
           {59.9, served_s, 5},
           {60, served_s, -1}});
  }
}

// The time counts from the death of the last daemon that served.
TEST(DaemonRestartsTest, OneThatServedBeginsItAgain) {
  Check({{0, 0, 0},
         {1, 0, 0.1},
         {2, 0, 0.2},
         {59, 2, 0},
         {60, 0, 0},
         {61, 0, 0.1},
         {118, 0, 0.2},
         {119, 0, -1}});
}

TEST(DaemonRestartsTest, OneThatServedIsStartedAgainHoweverOften) {
  std::vector<Death> deaths;
  for (int i = 0; i < 1000; ++i) deaths.push_back({1.0 * i, 1, 0});
  Check(deaths);
}

TEST(DaemonRestartsTest, OneThatIsRefusedIsRefusedAgain) {
  Check({{0, 3600, 0}, {1, 0, -1, true}});
  Check({{0, 3600, 0}, {1, 0, 0}, {2, 0, -1, true}});
}

// Pauses do not overflow, however many there are.
TEST(DaemonRestartsTest, ThePauseHasABound) {
  DaemonRestarts restarts(absl::Hours(1000));
  const absl::Time now = absl::UnixEpoch();
  std::optional<absl::Time> another;
  for (int i = 0; i < 100; ++i) {
    another = restarts.Another(now, absl::ZeroDuration(), false);
  }
  ASSERT_TRUE(another.has_value());
  EXPECT_EQ(*another - now, absl::Seconds(5));
}

struct Look {
  double at_s;
  bool heard;
  bool stands_still;
};

TEST(DaemonBeatsTest, ThreeLooksWithoutABeatAreEnough) {
  const std::vector<Look> rows[] = {
      {{5, true, false},
       {10, false, false},
       {15, false, false},
       {20, false, true}},
      {{5, false, false},
       {10, false, false},
       {15, true, false},
       {20, false, false},
       {25, false, false},
       {30, false, true}},
      // The launcher was stopped, too, and it may continue before the daemon.
      {{5, false, false},
       {10, false, false},
       {3600, false, false},
       {3605, false, false},
       {3610, false, false},
       {3615, false, true}},
  };
  for (const std::vector<Look>& row : rows) {
    DaemonBeats beats;
    beats.Begin(absl::UnixEpoch());
    for (const Look& look : row) {
      const absl::Time now = absl::UnixEpoch() + absl::Seconds(look.at_s);
      EXPECT_GE(now, beats.due());
      EXPECT_EQ(beats.StandsStill(now, look.heard), look.stands_still)
          << look.at_s;
    }
    EXPECT_EQ(beats.due(), absl::InfiniteFuture());
  }
}

}  // namespace
}  // namespace rollcall
