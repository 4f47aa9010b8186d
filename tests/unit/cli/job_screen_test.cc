// The full screen of `status --watch`, and the bytes that a terminal gets for
// it.
#include "client/admin/job_screen.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "admin_states.h"
#include "client/admin/terminal_screen.h"
#include "client/admin/text_width.h"

namespace rollcall {
namespace {

std::string Text(const std::vector<ScreenLine>& lines) {
  return absl::StrJoin(lines, "\n", [](std::string* out, const auto& line) {
    absl::StrAppend(out, line.style == LineStyle::kBad ? "!" : "", line.text);
  });
}

// The history of a job with three nodes that had four, 20 s after the loss.
JobHistory AfterALoss() {
  JobHistory history;
  v1::JobStatus status = TrainingWithoutOne(100, 1200);
  status.set_generation(1);
  status.mutable_last_reform()->Clear();
  status.mutable_last_reform()->set_reason("all nodes are here");
  history.Heard(status, AtSecond(0));
  status.set_state(v1::JOB_STATE_FORMING);
  status.set_generation(2);
  history.Heard(status, AtSecond(30));
  for (int i = 0; i <= 4; ++i) {
    status = TrainingWithoutOne(200 + 100 * i, 1200);
    status.mutable_pace()->set_loss(5 - i);
    history.Heard(status, AtSecond(31 + i));
  }
  return history;
}

TEST(JobScreen, Wide) {
  v1::JobStatus status = TrainingWithoutOne(600, 1200);
  status.mutable_nodes(0)->set_step(600);
  status.mutable_nodes(0)->set_address("10.0.0.1");
  status.mutable_nodes(2)->set_reason("its MTU is 1400");
  EXPECT_EQ(
      Text(JobScreen(status, AfterALoss(), {20, 100}, AtSecond(51))),
      "job demo  running  generation 2  3 ranks on 3 of 4 nodes\n"
      "[########---------]  600/1200  50%  loss 3.2100  6688 tokens/s  local-3 "
      "is "
      "missing; no step for 16 s\n"
      "loss 3.21 =#*=-_ 1\n"
      "\n"
      "GENERATION  FOR           FORMED BECAUSE\n"
      "         2  20 s          lost local-3 (its stream broke)\n"
      "         1  over 30 s     all nodes are here\n"
      "\n"
      "RANK   NODE     STATE        STEP      LEASE    ADDRESS        \n"
      "0      main     running      600       4.2 s    10.0.0.1       \n"
      "1      local-1  running      -         4.2 s                   \n"
      "2      local-2  running      -         4.2 s                     its "
      "MTU is 1400");
}

TEST(JobScreen, NarrowAndLow) {
  EXPECT_EQ(Text(JobScreen(TrainingWithoutOne(600, 1200), AfterALoss(),
                           {10, 40}, AtSecond(36))),
            "job demo  running  generation 2  3 ranks\n"
            "600/1200  5 s left  local-3 is missing\n"
            "loss 3.21 =#*=-_ 1\n"
            "\n"
            "NODE     STATE        STEP    \n"
            "main     running      -       \n"
            "local-1  running      -       \n"
            "local-2  running      -       ");
}

TEST(JobScreen, NodesThatNeedAttentionComeFirst) {
  v1::JobStatus status;
  status.set_job("big");
  status.set_state(v1::JOB_STATE_GATHERING);
  status.set_nodes_min(1024);
  status.set_nodes_max(1024);
  status.set_missing_count(2);
  for (int i = 0; i < 1022; ++i) {
    AddNode(status, absl::StrCat("node", i),
            i == 700   ? v1::NODE_STATE_SUSPECT
            : i == 900 ? v1::NODE_STATE_QUARANTINED
            : i == 901 ? v1::NODE_STATE_SPARE
                       : v1::NODE_STATE_ATTENDING,
            -1);
  }
  status.add_missing("node1023");
  EXPECT_EQ(Text(JobScreen(status, JobHistory(), {10, 60}, AtSecond(0))),
            "job big  gathering  generation 0  0 ranks on 0 of 1024 nodes\n"
            "waiting: 1022 nodes are here; 2 more to begin; missing: node\n"
            "\n"
            "NODE      STATE        STEP    \n"
            "!node1023  missing      -       \n"
            "!node700   suspect      -       \n"
            "!node900   quarantined  -       \n"
            "node0     attending    -       \n"
            "node1     attending    -       \n"
            "and 1018 more: 1017 attending, 1 spare");
}

TEST(JobScreen, FitsEveryScreen) {
  const JobHistory history = AfterALoss();
  const v1::JobStatus status = TrainingWithoutOne(600, 1200);
  for (size_t rows = 0; rows < 30; ++rows) {
    for (const size_t columns : {0, 1, 20, 40, 71, 72, 200}) {
      const auto lines = JobScreen(status, history, {rows, columns, true},
                                   AtSecond(51), "a notice");
      ASSERT_LE(lines.size(), rows);
      for (const ScreenLine& line : lines) {
        ASSERT_LE(TextWidth(line.text), columns) << line.text;
      }
    }
  }
}

// Names, reasons and addresses come from nodes, so they must not reach the
// terminal unchanged.
TEST(JobScreen, NothingFromANodeReachesTheTerminalRaw) {
  const std::string hostile =
      "\033]0;title\007\033[2J\r\n\xc2\x9b"
      "31mx";
  v1::JobStatus status = TrainingWithoutOne(600, 1200);
  status.set_job(hostile);
  status.set_fence_reason(hostile);
  status.mutable_fence()->set_seconds(1);
  status.mutable_root_cause()->set_node(hostile);
  status.mutable_last_reform()->set_reason(hostile);
  status.mutable_last_reform()->set_node(hostile);
  status.add_missing(hostile);
  v1::NodeStatus& node = AddNode(status, hostile, v1::NODE_STATE_SUSPECT, 3);
  node.set_address(hostile);
  node.set_reason(hostile);
  status.add_differences()->set_fact(hostile);
  JobHistory history;
  history.Heard(status, AtSecond(0));
  for (const size_t columns : {40, 200}) {
    const auto lines =
        JobScreen(status, history, {40, columns}, AtSecond(1), hostile);
    ASSERT_GT(lines.size(), 10u);
    for (const ScreenLine& line : lines) {
      for (const char c : line.text) {
        ASSERT_TRUE(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f)
            << line.text;
      }
      ASSERT_FALSE(absl::StrContains(line.text, "\xc2\x9b")) << line.text;
    }
  }
}

TEST(Sparkline, IsAsWideAsItsValuesOrLess) {
  struct {
    std::vector<double> values;
    size_t columns;
    bool unicode;
    const char* line;
  } const kRows[] = {
      {{}, 9, true, ""},
      {{1}, 9, true, "▁"},
      {{1, 8}, 9, true, "▁█"},
      {{1, 2, 3, 4, 5, 6, 7, 8}, 9, true, "▁▂▃▄▅▆▇█"},
      {{1, 1, 8, 8}, 2, true, "▁█"},
      {{8, 4.6, 1}, 9, false, "#=_"},
      {{-1e308, 1e308}, 9, false, "_#"},
      {{1e308, 1e308, 1, 1}, 2, false, "__"},
      {{1, 2}, 0, false, ""},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(Sparkline(row.values, row.columns, row.unicode), row.line);
  }
}

TEST(JobHistory, TellsGenerationsFromTheirFirstState) {
  JobHistory history;
  v1::JobStatus status = Training(1, 10);
  const auto told = [&] {
    return absl::StrJoin(
        history.generations(), " ",
        [](std::string* out, const JobHistory::Generation& generation) {
          absl::StrAppend(
              out, generation.older ? "over " : "", generation.number, ":",
              absl::ToInt64Seconds(generation.began - AtSecond(0)), "-",
              generation.ended == absl::InfiniteFuture()
                  ? ""
                  : absl::StrCat(
                        absl::ToInt64Seconds(generation.ended - AtSecond(0))));
        });
  };
  history.Heard(status, AtSecond(0));
  EXPECT_EQ(told(), "over 1:0-");
  // A restarted daemon waits for its members until they are back.
  status.set_state(v1::JOB_STATE_GATHERING);
  history.Heard(status, AtSecond(5));
  EXPECT_EQ(told(), "over 1:0-5");
  status.set_state(v1::JOB_STATE_ISOLATED);
  history.Heard(status, AtSecond(6));
  EXPECT_EQ(told(), "over 1:0-");
  status = Training(2, 10, 3);
  history.Heard(status, AtSecond(9));
  EXPECT_EQ(told(), "over 1:0-9 3:9-");
  for (uint64_t generation = 4; generation < 40; ++generation) {
    history.Heard(Training(2, 10, generation), AtSecond(10));
  }
  EXPECT_EQ(history.generations().size(), 16u);
}

TEST(TerminalScreen, OnlyWhatDiffersIsDrawn) {
  using Lines = std::vector<ScreenLine>;
  const Lines before = {{"one"}, {"two", LineStyle::kBad}, {"three"}};
  struct {
    const char* what;
    Lines before;
    Lines after;
    bool colours;
    const char* bytes;
  } const kRows[] = {
      {"nothing has changed", before, before, true, ""},
      {"a line has",
       before,
       {{"one"}, {"2", LineStyle::kBad}, {"three"}},
       true,
       "\033[2;1H\033[K\033[31m2\033[0m"},
      {"without colours",
       before,
       {{"one"}, {"2", LineStyle::kBad}, {"three"}},
       false,
       "\033[2;1H\033[K2"},
      {"its style has",
       before,
       {{"one"}, {"two"}, {"three"}},
       true,
       "\033[2;1H\033[Ktwo"},
      {"fewer lines",
       before,
       {{"one"}, {"two", LineStyle::kBad}},
       true,
       "\033[3;1H\033[K"},
      {"all of it",
       {},
       {{"one", LineStyle::kTitle}},
       true,
       "\033[2J\033[1;1H\033[K\033[1mone\033[0m"},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(DrawScreen(row.before, row.after, row.colours), row.bytes)
        << row.what;
  }
}

}  // namespace
}  // namespace rollcall
