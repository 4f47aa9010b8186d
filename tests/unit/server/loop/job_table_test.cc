// Tests JobTable on a journal in memory.
#include "daemon/server/loop/state/job_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/clock.h"

namespace rollcall {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A journal with `runs`. It drops what is written.
class FakeJournal : public JournalStore {
 public:
  absl::Status Append(absl::Span<const JournalEntry>, absl::Time) override {
    return absl::OkStatus();
  }
  absl::StatusOr<std::optional<JournaledRun>> Load(
      std::string_view job) override {
    for (const JournaledRun& run : runs) {
      if (run.job == job) return run;
    }
    return std::nullopt;
  }
  absl::StatusOr<std::vector<JournaledRun>> LoadAll() override { return runs; }
  absl::StatusOr<std::vector<v1::TokenRecord>> LoadTokens() override {
    return std::vector<v1::TokenRecord>();
  }
  absl::Status SaveTokens(absl::Span<const v1::TokenRecord>,
                          absl::Span<const std::string>) override {
    return absl::OkStatus();
  }
  absl::Status DropTokens() override { return absl::OkStatus(); }

  std::vector<JournaledRun> runs;
};

JournaledRun RunOf(const std::string& job, absl::Duration join_timeout) {
  JournaledRun run;
  run.job = job;
  run.state.run = "run-of-" + job;
  run.state.settings.set_nodes_min(1);
  run.state.settings.set_nodes_max(1);
  run.state.settings.mutable_join_timeout()->set_seconds(
      absl::ToInt64Seconds(join_timeout));
  return run;
}

TEST(JobTable, LogsARunThatItCannotRestore) {
  FakeJournal journal;
  journal.runs = {RunOf("good", absl::Minutes(10)),
                  RunOf("bad", absl::Hours(24 * 365 * 100))};
  testing::internal::CaptureStderr();
  Logger logger(Log::Level::kInfo);
  JobTable table(Limits{}, "", {}, HandedKeys(), &journal, logger);
  ASSERT_TRUE(table.Restore(absl::UnixEpoch()).ok());
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(table.Find("good"), nullptr);
  EXPECT_EQ(table.Find("bad"), nullptr);
  EXPECT_THAT(log, HasSubstr("job=\"bad\" event=not_restored"));
  EXPECT_THAT(log, HasSubstr("join_timeout"));
  EXPECT_THAT(log, Not(HasSubstr("job=\"good\"")));
}

JournaledRun EndedRunOf(const std::string& job, absl::Time written_at) {
  JournaledRun run = RunOf(job, absl::Minutes(10));
  run.state.end.emplace();
  run.state.end->set_finished(true);
  run.state.end->set_code(v1::REASON_CODE_FINISHED);
  run.written_at = written_at;
  return run;
}

// The Hello of an agent that had no part in the run, and gives the number of
// nodes.
v1::Hello HelloOf(const std::string& job) {
  v1::Hello hello;
  hello.set_job(job);
  hello.set_node("a");
  hello.set_incarnation(1);
  hello.mutable_settings()->set_nodes_min(1);
  hello.mutable_settings()->set_nodes_max(1);
  return hello;
}

// `written_at` is a time of the clock before the restart, or of another
// daemon's machine.
TEST(JobTable, AClockThatWasSetBackDoesNotUndoTheEndOfARun) {
  struct Row {
    const char* what;
    absl::Duration written_ago;
    absl::Duration remembered;  // Zero: not remembered.
  };
  const Row kRows[] = {
      {"a while ago", absl::Minutes(10), absl::Minutes(50)},
      {"long ago", absl::Hours(1), absl::ZeroDuration()},
      {"set back by a second", -absl::Seconds(1), absl::Hours(1)},
      {"set back by a day", -absl::Hours(24), absl::Hours(1)},
      {"set back by years", -absl::Hours(24 * 3650), absl::Hours(1)},
  };
  Logger logger(Log::Level::kError);
  const absl::Time now = absl::UnixEpoch() + absl::Hours(5);
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.what);
    FakeJournal journal;
    journal.runs = {EndedRunOf("train", absl::Now() - row.written_ago)};
    JobTable table(Limits{}, "train", journal.runs[0].state.settings,
                   HandedKeys(), &journal, logger);
    ASSERT_TRUE(table.Restore(now).ok());
    EXPECT_EQ(table.Find("train"), nullptr);
    const EndedJob* ended = table.FindEnded("train");
    ASSERT_EQ(ended != nullptr, row.remembered > absl::ZeroDuration());
    bool made = false;
    const absl::StatusOr<LiveJob*> job =
        table.ForHello(HelloOf("train"), "", now, &made);
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(made, ended == nullptr);
    if (ended == nullptr) continue;
    EXPECT_EQ(ended->status.run(), "run-of-train");
    EXPECT_EQ(ended->end.code(), v1::REASON_CODE_FINISHED);
    const absl::Duration left = ended->forgotten_at - now;
    EXPECT_LE(left, row.remembered);
    EXPECT_GT(left, row.remembered - absl::Minutes(1));
  }
}

}  // namespace
}  // namespace rollcall
