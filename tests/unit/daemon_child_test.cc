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
  // Until it is started again; -1: it is not.
  double pause_s;
};

void Check(const std::vector<Death>& deaths) {
  DaemonDeaths counted;
  for (const Death& death : deaths) {
    const absl::Time now = absl::UnixEpoch() + absl::Seconds(death.at_s);
    const std::optional<absl::Time> another =
        counted.Another(now, absl::Seconds(death.served_s));
    EXPECT_EQ(another.has_value() ? absl::ToDoubleSeconds(*another - now) : -1,
              death.pause_s)
        << "died at " << death.at_s;
  }
}

TEST(DaemonDeathsTest, FiveThatNeverServedAreEnough) {
  Check({{0, 0, 0}, {1, 0, 0.1}, {2, 0, 0.2}, {3, 0, 0.4}, {4, 0, -1}});
  Check({{0, 0.99, 0},
         {1, 0.99, 0.1},
         {2, 0.99, 0.2},
         {3, 0.99, 0.4},
         {4, 0.99, -1}});
}

TEST(DaemonDeathsTest, OneThatServedIsStartedAgainHoweverOften) {
  std::vector<Death> deaths;
  for (int i = 0; i < 1000; ++i) deaths.push_back({1.0 * i, 1, 0});
  Check(deaths);
}

TEST(DaemonDeathsTest, OneThatServedEndsARow) {
  Check({{0, 0, 0},
         {1, 0, 0.1},
         {2, 0, 0.2},
         {3, 0, 0.4},
         {6, 2, 0},
         {7, 0, 0},
         {8, 0, 0.1},
         {9, 0, 0.2},
         {10, 0, 0.4},
         {11, 0, -1}});
}

TEST(DaemonDeathsTest, RareOnesAreForgotten) {
  Check({{0, 0, 0},
         {20, 0, 0.1},
         {40, 0, 0.1},
         {60, 0, 0.1},
         {80, 0, 0.1},
         {200, 0, 0}});
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
      // The launcher was stopped, too: it may be the first to go on.
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
