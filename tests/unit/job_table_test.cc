// Tests JobTable on a journal in memory.
#include "daemon/server/job_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rollcall {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Holds `runs`; what is written is dropped.
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

}  // namespace
}  // namespace rollcall
