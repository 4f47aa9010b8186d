// StepAccount: which lines and which changes of status a report leads to.
#include "daemon/core/failures/step_account.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/unit/core/nodes.h"
#include "tests/unit/core/small_world.h"

namespace rollcall {
namespace {

// Nodes a and b, which are the members of generation 3.
struct TwoMembers {
  TwoMembers() {
    for (const char* name : {"a", "b"}) {
      Node& node = AddMember(membership, name, *name - 'a');
      node.served_in = 3;
    }
    account.Begin(world, probing);
  }

  // The events' texts, with `changed` at the end if status shows something new.
  std::string Take(const std::string& name, uint64_t step, uint64_t saved,
                   double at) {
    Node& node = membership.At(name);
    node.ranks.step = std::max(node.ranks.step, step);
    v1::Heartbeat heartbeat;
    heartbeat.set_step(step);
    heartbeat.set_saved_step(saved);
    const StepAccount::Taken taken =
        account.Take(node, heartbeat, world, membership,
                     absl::UnixEpoch() + absl::Seconds(at));
    std::string text;
    for (const Log& line : taken.lines) {
      absl::StrAppend(&text, text.empty() ? "" : "; ",
                      line.level == Log::Level::kWarning ? "warning " : "",
                      line.text);
    }
    if (taken.changed) absl::StrAppend(&text, text.empty() ? "" : " ", "+");
    return text;
  }

  v1::JobStatus Status(uint64_t generation = 3, bool running = true) const {
    v1::JobStatus status;
    account.Show(generation, running, status);
    return status;
  }

  Membership membership;
  v1::World world = WorldOf(3, {"a", "b"});
  Probing probing;
  StepAccount account;
};

TEST(StepAccount, SaysStepsAndCheckpointsInThisOrder) {
  const struct {
    const char* node;
    uint64_t step;
    uint64_t saved;
    double at;
    const char* expect;
  } kRows[] = {
      {"a", 10, 0, 0, ""},
      {"a", 70, 0, 1, "event=reached generation=3 step=70"},
      {"a", 100, 60, 2, "event=checkpoint generation=3 step=100 saved=60 +"},
      // The step is told with the checkpoint that was known before.
      {"a", 150, 120, 100,
       "event=reached generation=3 step=150 saved=60; "
       "event=checkpoint generation=3 step=150 saved=120 +"},
      // Node rank 0 publishes steps, so those of b are not told.
      {"b", 9000, 8000, 101, ""},
  };
  TwoMembers job;
  for (const auto& row : kRows) {
    EXPECT_EQ(job.Take(row.node, row.step, row.saved, row.at), row.expect)
        << row.node << " " << row.step;
  }
  EXPECT_EQ(job.account.Text(), " step=150 saved=120");
  EXPECT_EQ(job.Status().step(), 150);
  EXPECT_EQ(job.Status().saved_step(), 120);
}

TEST(StepAccount, NamesAWorldThatBeginsBelowWhatWasRecorded) {
  const struct {
    LastStep last;
    uint64_t step;
    const char* expect;
  } kRows[] = {
      {{"run1", 100, 0, "run1", 2}, 60, ""},
      {{"run1", 100, 0, "run1", 2},
       40,
       "warning event=resumed_below generation=3 step=40 was=100"},
      {{"run1", 100, 80, "run1", 2},
       60,
       "warning event=resumed_below generation=3 step=60 was=100 saved=80"},
      {{"run0", 100, 80, "run0", 2},
       60,
       "warning event=resumed_below generation=3 step=60 was=100 saved=80 "
       "former_run=\"run0\""},
  };
  for (const auto& row : kRows) {
    TwoMembers job;
    job.account.UseLast(row.last);
    EXPECT_EQ(job.Take("a", row.step, 0, 0), row.expect) << row.last.saved;
    // Only for the world that began below.
    EXPECT_EQ(job.Status(3).has_resumed(), *row.expect != '\0');
    EXPECT_FALSE(job.Status(4).has_resumed());
  }
}

TEST(StepAccount, WantsProbesBeforeAPeriodAndNamesWhatChangedInIt) {
  TwoMembers job;
  v1::FactChange change;
  change.set_kind(v1::FACT_KIND_INTERFACE);
  change.set_subject("interface eth1");
  change.set_before("up");
  change.set_after("down");
  change.set_count(1);
  double at = 0;
  uint64_t step = 0;
  // Takes steps for so many seconds. Returns what was said, and whether probes
  // were wanted at least once.
  const auto train = [&](double seconds, double step_s) {
    std::string said;
    bool wanted = false;
    for (const double end = at + seconds; at < end;) {
      at += step_s;
      absl::StrAppend(&said, job.Take("a", ++step, 0, at));
      wanted |= job.account.probes_wanted();
    }
    return absl::StrCat(said, wanted ? " probes" : "");
  };
  EXPECT_EQ(train(120, 4), "");
  EXPECT_FALSE(job.Status().has_slow());
  job.membership.At("b").changes.Take(change,
                                      absl::UnixEpoch() + absl::Seconds(at));
  EXPECT_EQ(train(77, 11),
            "warning event=slow generation=3 step_s=11 median_s=4 changed="
            "\"b: \\\"interface eth1: up -> down 77 s before\\\"\" + probes");
  EXPECT_EQ(job.Status().slow().changed(),
            "b: \"interface eth1: up -> down 77 s before\"");
  EXPECT_FALSE(job.Status(3, /*running=*/false).has_slow());
  EXPECT_EQ(train(60, 4),
            "event=slow_ended generation=3 step_s=4 median_s=4 changed=\"\" +");
  EXPECT_FALSE(job.Status().has_slow());
  EXPECT_EQ(train(77, 11).substr(0, 18), "warning event=slow");
  job.account.Begin(job.world, job.probing);
  EXPECT_FALSE(job.Status().has_slow());
}

TEST(StepAccount, KeepsTheHighestPeakOfANodeThatWasInAWorld) {
  const struct {
    const char* node;
    uint32_t local_rank;
    uint64_t bytes;
    uint64_t served_in;
    const char* expect;
  } kRows[] = {
      {"a", 0, 500, 0, ""},  // A spare's.
      {"a", 0, Limits::rank_memory_bytes_max + 1, 3, ""},
      {"a", 1, 500, 3, "a 1 500"},
      {"b", 0, 400, 3, "a 1 500"},
      {"b", 2, 600, 3, "b 2 600"},
  };
  TwoMembers job;
  for (const auto& row : kRows) {
    job.membership.At(row.node).served_in = row.served_in;
    v1::RankExited exited;
    exited.set_local_rank(row.local_rank);
    exited.set_peak_bytes(row.bytes);
    job.account.TakeExit(job.membership.At(row.node), exited);
    const v1::JobStatus status = job.Status();
    const v1::RankMemory& peak = status.peak_memory();
    EXPECT_EQ(status.has_peak_memory()
                  ? absl::StrCat(peak.node(), " ", peak.local_rank(), " ",
                                 peak.bytes())
                  : "",
              row.expect)
        << row.bytes;
  }
}

}  // namespace
}  // namespace rollcall
