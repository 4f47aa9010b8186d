// What people read of the event log and of a run's summary.
#include "client/admin/event_text.h"

#include "daemon/base/durations.h"
#include "gtest/gtest.h"

namespace rollcall {
namespace {

TEST(EventText, IsALineOfTimeEventAndFields) {
  const struct {
    const char* json;
    const char* expect;
  } kRows[] = {
      {R"({"id":3,"time":"2026-11-27T20:01:02.345Z","level":"info","job":"j",)"
       R"("run":"r","event":"run","generation":"2","master":"10.0.0.1:29500"})",
       "2026-11-27T20:01:02.345Z run generation=2 master=10.0.0.1:29500"},
      {R"({"time":"T","level":"warning","event":"lost","reason":"it \"broke\"",)"
       R"("empty":""})",
       R"(T lost level=warning reason="it \"broke\"" empty="")"},
      {R"({"time":"T","run":"r","event":"start"})", "T start run=r"},
      {"[1]", "[1]"},
      {"no \x1b[1m json", "no ?[1m json"},
      {R"({"time":5,"event":"x\u001b"})", " x?"},
  };
  for (const auto& row : kRows) EXPECT_EQ(EventText(row.json), row.expect);
}

TEST(ResumedText, NamesBothSteps) {
  v1::JobStatus status;
  EXPECT_EQ(ResumedText(status), "");
  status.mutable_resumed()->set_generation(3);
  status.mutable_resumed()->set_step(1);
  status.mutable_resumed()->set_was(12000);
  EXPECT_EQ(ResumedText(status),
            "generation 3 began at step 1, and step 12000 had been reached "
            "before; check that the ranks find their checkpoint");
}

TEST(SummaryText, SaysWhatTheTimeWasSpentOn) {
  v1::JobStatus status;
  v1::RunSummary& summary = *status.mutable_summary();
  ToProto(absl::Seconds(3), summary.mutable_elapsed());
  EXPECT_EQ(SummaryText(status), "");  // No world has run.
  summary.set_worlds(1);
  ToProto(absl::Seconds(2.25), summary.mutable_running());
  EXPECT_EQ(SummaryText(status), "ran 2.25 s of 3.00 s in 1 world");
  status.mutable_peak_memory()->set_bytes(3 << 20);
  status.mutable_peak_memory()->set_node("b");
  EXPECT_EQ(SummaryText(status),
            "ran 2.25 s of 3.00 s in 1 world; most memory of a rank: 3 MiB (b, "
            "local rank 0)");
  status.clear_peak_memory();
  summary.set_events_lost(2);
  EXPECT_EQ(SummaryText(status),
            "ran 2.25 s of 3.00 s in 1 world; 2 events could not be written");
  summary.clear_events_lost();
  summary.set_worlds(5);
  summary.set_interruption_count(6);
  ToProto(absl::Seconds(250), summary.mutable_stopped());
  v1::Interruption* one = summary.add_interruptions();
  one->set_generation(4);
  one->set_code(v1::REASON_CODE_RANK_EXIT);
  one->set_reason("rank 1 on b exited with code 1");
  ToProto(absl::Milliseconds(310), one->mutable_stopped());
  one = summary.add_interruptions();
  one->set_generation(7);
  one->set_code(v1::REASON_CODE_LOST_LEASE);
  EXPECT_EQ(SummaryText(status),
            "ran 2.25 s of 3.00 s in 5 worlds; 6 interruptions of 4 min 10 s "
            "in all:\n"
            "  4 older ones\n"
            "  generation 4: rank 1 on b exited with code 1; 0.31 s until the "
            "next world\n"
            "  generation 7: lost_lease; no world followed");
}

}  // namespace
}  // namespace rollcall
