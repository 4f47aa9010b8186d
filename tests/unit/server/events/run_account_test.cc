// RunAccount: the times of a run, from its events.
#include "daemon/server/events/run_account.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/base/durations.h"
#include "daemon/server/events/log_line.h"
#include "gtest/gtest.h"

namespace rollcall {
namespace {

struct Row {
  double at;
  const char* line;
};

double Seconds(const google::protobuf::Duration& time) {
  return absl::ToDoubleSeconds(FromProto(time));
}

// `worlds WORLDS, ran RUNNING of ELAPSED, stopped STOPPED:` and for each
// interruption `gGENERATION CODE STOPPED`.
std::string Told(const std::vector<Row>& rows, double now) {
  const absl::Time zero = absl::FromUnixSeconds(1'000'000);
  RunAccount account;
  for (const Row& row : rows) {
    account.Take(ParseLogLine(row.line), zero + absl::Seconds(row.at));
  }
  const v1::RunSummary summary = account.Summary(zero + absl::Seconds(now));
  std::string told =
      absl::StrFormat("worlds %d, ran %g of %g, stopped %g:", summary.worlds(),
                      Seconds(summary.running()), Seconds(summary.elapsed()),
                      Seconds(summary.stopped()));
  for (const v1::Interruption& one : summary.interruptions()) {
    absl::StrAppend(
        &told, " g", one.generation(), " ",
        v1::ReasonCode_Name(one.code()).substr(12), " ",
        one.has_stopped() ? absl::StrCat(Seconds(one.stopped())) : "-");
  }
  return told;
}

TEST(RunAccount, CountsWhatRanAndWhatStopped) {
  const Row start = {0, "event=start nodes=2:2 generation=0"};
  const Row run1 = {2, "event=run generation=1"};
  const Row lost = {10,
                    "event=abort generation=1 code=REASON_CODE_LOST_LEASE "
                    "reason=\"b is silent\""};
  const Row run3 = {13, "event=run generation=3"};
  const Row exit = {20, "event=abort generation=3 code=REASON_CODE_RANK_EXIT"};
  const struct {
    std::vector<Row> rows;
    double now;
    const char* expect;
  } kRows[] = {
      {{}, 5, "worlds 0, ran 0 of 0, stopped 0:"},
      {{start}, 5, "worlds 0, ran 0 of 5, stopped 0:"},
      {{start, run1}, 5, "worlds 1, ran 3 of 5, stopped 0:"},
      {{start, run1, {9, "event=end exit_code=0"}},
       30,
       "worlds 1, ran 7 of 9, stopped 0:"},
      {{start, run1, lost},
       12,
       "worlds 1, ran 8 of 12, stopped 2: g1 LOST_LEASE -"},
      // A proposal that is given up is no interruption.
      {{start, run1, lost, {11, "event=abort generation=2"}, run3},
       14,
       "worlds 2, ran 9 of 14, stopped 3: g1 LOST_LEASE 3"},
      {{start, run1, lost, run3, exit, {25, "event=end exit_code=1"}},
       60,
       "worlds 2, ran 15 of 25, stopped 8: g1 LOST_LEASE 3 g3 RANK_EXIT -"},
      // The daemon was started again while the world ran.
      {{start, run1, {5, "event=start generation=1 state=running"}, lost},
       11,
       "worlds 1, ran 8 of 11, stopped 1: g1 LOST_LEASE -"},
      // What it had logged before is missing.
      {{{5, "event=start generation=1 state=running"}, lost},
       11,
       "worlds 1, ran 5 of 6, stopped 1: g1 LOST_LEASE -"},
      {{start, run1, {5, "event=start generation=1 state=gathering"}, run3},
       14,
       "worlds 2, ran 4 of 14, stopped 8: g1 DAEMON_RESTART 8"},
      {{start, run1, {5, "event=start generation=4 state=running"}},
       14,
       "worlds 2, ran 12 of 14, stopped 0: g1 DAEMON_RESTART 0"},
      // It died before it could log the end of a world.
      {{start, run1, {8, "event=run generation=2"}},
       9,
       "worlds 2, ran 7 of 9, stopped 0:"},
      // The clock was set back.
      {{start, run1, {1, "event=abort generation=1 code=X"}, {0.5, run3.line}},
       0.75,
       "worlds 2, ran 0.25 of 2.25, stopped 0: g1 UNSPECIFIED 0"},
      {{start, run1, {4, "event=notice"}, {-1e6, "event=notice"}},
       1 - 1e6,
       "worlds 1, ran 3 of 5, stopped 0:"},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(Told(row.rows, row.now), row.expect);
  }
}

TEST(RunAccount, KeepsTheLatestInterruptions) {
  RunAccount account;
  const auto take = [&account](const std::string& line, int at) {
    account.Take(ParseLogLine(line), absl::FromUnixSeconds(at));
  };
  for (int g = 1; g <= 40; ++g) {
    take(absl::StrCat("event=run generation=", g), 3 * g);
    take(absl::StrCat("event=abort generation=", g), 3 * g + 2);
  }
  const v1::RunSummary summary = account.Summary(absl::FromUnixSeconds(200));
  EXPECT_EQ(summary.interruption_count(), 40u);
  ASSERT_EQ(summary.interruptions_size(), RunAccount::kInterruptionsMax);
  EXPECT_EQ(summary.interruptions(0).generation(), 9u);
  EXPECT_EQ(Seconds(summary.running()), 80);
  EXPECT_EQ(Seconds(summary.stopped()), 39 + 78);
}

}  // namespace
}  // namespace rollcall
