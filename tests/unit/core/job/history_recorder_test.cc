#include "daemon/core/job/history_recorder.h"

#include <gtest/gtest.h>

#include <string>

#include "daemon/base/durations.h"
#include "tests/unit/time_at.h"

namespace rollcall {
namespace {

v1::Reform Because(v1::ReasonCode code) {
  v1::Reform reform;
  reform.set_code(code);
  return reform;
}

TEST(HistoryRecorder, CountsWorldsAndTheirTime) {
  struct Row {
    double at_s;
    v1::JobState state;
    uint64_t generation;
    v1::ReasonCode code;
    int changes;
    uint64_t commits;
    double total_s;
  };
  const Row rows[] = {
      {0, v1::JOB_STATE_GATHERING, 0, v1::REASON_CODE_UNSPECIFIED, 1, 0, 0},
      {5, v1::JOB_STATE_GATHERING, 0, v1::REASON_CODE_UNSPECIFIED, 1, 0, 0},
      {6, v1::JOB_STATE_FORMING, 1, v1::REASON_CODE_FIRST, 2, 0, 0},
      {6.5, v1::JOB_STATE_RUNNING, 1, v1::REASON_CODE_FIRST, 3, 1, 0.5},
      // The time of a superseded proposal counts as time of the next one.
      {9, v1::JOB_STATE_FORMING, 2, v1::REASON_CODE_LOST_LEASE, 4, 1, 0.5},
      {10, v1::JOB_STATE_FORMING, 3, v1::REASON_CODE_LOST_LEASE, 5, 1, 0.5},
      {11, v1::JOB_STATE_RUNNING, 3, v1::REASON_CODE_LOST_LEASE, 6, 2, 2.5},
      // No world is formed during isolation.
      {12, v1::JOB_STATE_ISOLATED, 3, v1::REASON_CODE_LOST_LEASE, 7, 2, 2.5},
      {13, v1::JOB_STATE_RUNNING, 3, v1::REASON_CODE_LOST_LEASE, 8, 2, 2.5},
  };
  HistoryRecorder recorder;
  for (const Row& row : rows) {
    recorder.Note(row.state, row.generation, Because(row.code), At(row.at_s),
                  At(1000 + row.at_s));
    EXPECT_FALSE(recorder.IsNew(row.state, row.generation));
    const v1::JobHistory& history = recorder.history();
    EXPECT_EQ(history.changes_size(), row.changes) << row.at_s;
    EXPECT_EQ(history.commits(), row.commits) << row.at_s;
    EXPECT_EQ(FromProto(history.commit_time_total()),
              absl::Seconds(row.total_s))
        << row.at_s;
  }
  const v1::JobHistory& history = recorder.history();
  EXPECT_EQ(history.formed().at("first"), 1);
  EXPECT_EQ(history.formed().at("lost_lease"), 2);
  EXPECT_EQ(FromProto(history.changes(1).at()), At(1006));
  EXPECT_EQ(FromProto(history.commit_time_last()), absl::Seconds(2));
}

TEST(HistoryRecorder, KeepsTheLatestChanges) {
  HistoryRecorder recorder;
  v1::Reform reform = Because(v1::REASON_CODE_RANK_EXIT);
  reform.set_reason(std::string(5000, 'x') + "\n");
  constexpr int kChanges = HistoryRecorder::kChangesMax + 10;
  for (int i = 1; i <= kChanges; ++i) {
    recorder.Note(v1::JOB_STATE_FORMING, i, reform, At(i), At(i));
  }
  const v1::JobHistory& history = recorder.history();
  ASSERT_EQ(history.changes_size(), HistoryRecorder::kChangesMax);
  EXPECT_EQ(history.changes(0).generation(), 11u);
  EXPECT_EQ(history.changes(HistoryRecorder::kChangesMax - 1).generation(),
            static_cast<uint64_t>(kChanges));
  EXPECT_LE(history.changes(0).reason().size(),
            HistoryRecorder::kReasonBytesMax);
  EXPECT_EQ(history.formed().at("rank_exit"), static_cast<uint64_t>(kChanges));
}

}  // namespace
}  // namespace rollcall
