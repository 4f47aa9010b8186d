// Whether and by when ranks are expected to link after they start: a table.
#include "client/agent/core/rank_starts.h"

#include <gtest/gtest.h>

#include <optional>

#include "tests/unit/time_at.h"

namespace rollcall {
namespace {

Limits WithTimeouts(double hang, double start) {
  Limits limits;
  limits.hang_timeout = absl::Seconds(hang);
  limits.start_timeout = absl::Seconds(start);
  return limits;
}

v1::RanksLink Link(uint64_t generation, std::optional<double> timeout) {
  v1::RanksLink link;
  link.set_generation(generation);
  if (timeout.has_value()) {
    ToProto(absl::Seconds(*timeout), link.mutable_start_timeout());
  }
  return link;
}

TEST(RankStarts, Table) {
  const struct {
    const char* name;
    std::optional<v1::RanksLink> link;
    Limits limits;
    bool expects;
    double stalled_at;  // For a rank that started at 10, at time 12.
  } rows[] = {
      {"the daemon has said nothing", std::nullopt, WithTimeouts(60, 5), false,
       0},
      {"of this world", Link(7, 9), WithTimeouts(60, 5), true, 19},
      {"of all worlds", Link(0, 9), WithTimeouts(60, 5), true, 19},
      {"of another world", Link(6, 9), WithTimeouts(60, 5), false, 0},
      {"an older daemon gives no time: the flag's, from now on",
       Link(7, std::nullopt), WithTimeouts(60, 5), true, 17},
      {"over already", Link(7, 1), WithTimeouts(60, 5), true, 12},
      {"--hang-timeout 0", Link(7, 9), WithTimeouts(0, 5), false, 0},
      {"--start-timeout 0", Link(7, 9), WithTimeouts(60, 0), false, 0},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    RankStarts starts;
    if (row.link.has_value()) {
      EXPECT_TRUE(starts.Take(*row.link));
    }
    EXPECT_EQ(starts.Expects(7, row.limits), row.expects);
    if (row.expects) {
      EXPECT_EQ(starts.StalledAt(At(10), row.limits, At(12)),
                At(row.stalled_at));
    }
    starts.Forget();
    EXPECT_FALSE(starts.Expects(7, row.limits));
  }
}

TEST(RankStarts, ARepetitionIsNoNews) {
  RankStarts starts;
  EXPECT_TRUE(starts.Take(Link(7, 9)));
  EXPECT_FALSE(starts.Take(Link(7, 20)));
  EXPECT_EQ(starts.Timeout(WithTimeouts(60, 5)), absl::Seconds(9));
  EXPECT_TRUE(starts.Take(Link(8, 20)));
  EXPECT_EQ(starts.Timeout(WithTimeouts(60, 5)), absl::Seconds(20));
}

TEST(RankStarts, TheLongestStartCounts) {
  RankStarts starts;
  EXPECT_FALSE(starts.took().has_value());
  for (const double took : {3, 8, 5}) starts.Took(absl::Seconds(took));
  EXPECT_EQ(starts.took(), absl::Seconds(8));
}

}  // namespace
}  // namespace rollcall
