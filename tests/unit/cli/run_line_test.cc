// The live line of a running job, at every width.
#include "client/admin/run_line.h"

#include <gtest/gtest.h>

#include "admin_states.h"
#include "client/admin/text_width.h"

namespace rollcall {
namespace {

struct Row {
  const char* what;
  v1::JobStatus status;
  size_t columns;
  const char* line;
};

v1::JobStatus With(v1::JobStatus status, v1::JobState state) {
  status.set_state(state);
  return status;
}

v1::JobStatus Gathering() {
  v1::JobStatus status;
  status.set_state(v1::JOB_STATE_GATHERING);
  status.set_nodes_min(2);
  status.set_nodes_max(4);
  status.set_missing_count(1);
  AddNode(status, "a", v1::NODE_STATE_ATTENDING, -1);
  return status;
}

v1::JobStatus Whole(uint64_t step, uint64_t steps) {
  v1::JobStatus status = Training(step, steps);
  status.set_nodes_max(2);
  status.set_world_size(4);
  AddNode(status, "a", v1::NODE_STATE_RUNNING, 0);
  AddNode(status, "b", v1::NODE_STATE_RUNNING, 1);
  return status;
}

v1::JobStatus Silent() {
  v1::JobStatus status = Whole(600, 1200);
  status.mutable_nodes(1)->set_state(v1::NODE_STATE_SUSPECT);
  return status;
}

v1::JobStatus Unprepared() {
  v1::JobStatus status = With(Whole(0, 0), v1::JOB_STATE_FORMING);
  status.mutable_nodes(0)->set_prepared(true);
  status.mutable_nodes(1)->set_prepared(false);
  return status;
}

v1::JobStatus Plain() {
  v1::JobStatus status = Whole(0, 0);
  status.clear_pace();
  return status;
}

v1::JobStatus Counting() {
  v1::JobStatus status = Whole(77, 0);
  status.clear_pace();
  return status;
}

v1::JobStatus Validated() {
  v1::JobStatus status = Whole(600, 1200);
  status.mutable_pace()->set_validation_loss(3.456);
  status.mutable_pace()->set_gradient_norm(0.5178);
  return status;
}

TEST(RunLine, AtEveryWidth) {
  const Row rows[] = {
      {"wide", Whole(600, 1200), 120,
       "[###############---------------]  600/1200  50%  loss 3.2100  6688 "
       "tokens/s  10 s left  4 ranks on 2 nodes  generation 1"},
      {"80 columns", Whole(600, 1200), 79,
       "[###########------------]  600/1200  50%  loss 3.2100  6688 tokens/s  "
       "10 s left"},
      {"with a validation and the gradient's norm", Validated(), 139,
       "[#########---------]  600/1200  50%  loss 3.2100  validation 3.4560  "
       "norm 0.518  6688 tokens/s  10 s left  4 ranks on 2 nodes  generation "
       "1"},
      {"without room for the norm", Validated(), 100,
       "[#####------]  600/1200  50%  loss 3.2100  validation 3.4560  6688 "
       "tokens/s  10 s left  generation 1"},
      {"without room for the validation", Validated(), 60,
       "600/1200  50%  loss 3.2100  6688 tokens/s  10 s left"},
      {"40 columns", Whole(600, 1200), 39,
       "600/1200  50%  loss 3.2100  10 s left"},
      {"a node is missing", TrainingWithoutOne(600, 1200), 120,
       "[#########----------]  600/1200  50%  loss 3.2100  6688 tokens/s  10 s "
       "left  3 ranks on 3 of 4 nodes  local-3 is missing"},
      {"what is wrong stays longest", TrainingWithoutOne(600, 1200), 39,
       "600/1200  10 s left  local-3 is missing"},
      {"and is cut before it is left out", TrainingWithoutOne(600, 1200), 9,
       "local-3 i"},
      {"a silent node", Silent(), 60,
       "600/1200  loss 3.2100  6688 tokens/s  10 s left  b is silent"},
      {"never full before the end", Whole(1199, 1200), 120,
       "[#############################-]  1199/1200  99%  loss 3.2100  6688 "
       "tokens/s  0 s left  4 ranks on 2 nodes  generation 1"},
      {"a plain command", Plain(), 79,
       "running  4 ranks on 2 nodes  generation 1"},
      {"a plain command that counts its steps", Counting(), 79,
       "step 77  4 ranks on 2 nodes  generation 1"},
      {"more steps than it has announced", Whole(13, 12), 30,
       "step 13  loss 3.2100"},
      {"between two worlds", With(Whole(600, 1200), v1::JOB_STATE_FORMING), 79,
       "forming  4 ranks on 2 nodes  generation 1"},
      {"not all have prepared", Unprepared(), 79,
       "forming generation 1; not prepared yet: b  4 ranks on 2 nodes"},
      {"not all have prepared, narrow", Unprepared(), 45,
       "forming generation 1; not prepared yet: b"},
      {"before the first world", Gathering(), 79,
       "waiting: 1 node is here; 1 more to begin, room for 3 more"},
      {"before the first world, narrow", Gathering(), 20,
       "waiting: 1 node is h"},
  };
  for (const Row& row : rows) {
    StepTrack track;
    // The job makes sixty steps a second.
    v1::JobStatus before = row.status;
    before.set_step(row.status.step() > 240 ? row.status.step() - 240 : 1);
    if (row.status.step() > 0) track.Heard(before, AtSecond(0));
    track.Heard(row.status, AtSecond(4));
    const std::string line =
        RunLine(row.status, track, AtSecond(4), row.columns);
    EXPECT_EQ(line, row.line) << row.what;
    for (size_t columns = 0; columns < 140; ++columns) {
      ASSERT_LE(TextWidth(RunLine(row.status, track, AtSecond(4), columns)),
                columns)
          << row.what;
    }
  }
}

TEST(RunLine, AJobThatStandsSaysForHowLong) {
  StepTrack track;
  const v1::JobStatus status = Whole(600, 1200);
  track.Heard(status, AtSecond(0));
  EXPECT_EQ(TroubleText(status, track, AtSecond(9)), "");
  EXPECT_EQ(TroubleText(status, track, AtSecond(35)), "no step for 35 s");
}

// Loss and speed come from a rank, so they can have any value.
TEST(RunLine, NumbersOfAnySizeFit) {
  for (const double value : {1e300, -1e300, 1e-300, 0.0, 123456.789}) {
    v1::JobStatus status = Whole(600, 1200);
    status.mutable_pace()->set_loss(value);
    status.mutable_pace()->set_tokens_per_second(value);
    const std::string line = RunLine(status, StepTrack(), AtSecond(0), 200);
    EXPECT_LT(TextWidth(line), 116u) << line;
  }
}

TEST(TextWidth, IsWhatTerminalsShow) {
  struct {
    const char* text;
    size_t width;
    size_t columns;
    const char* fit;
  } const kRows[] = {
      {"plain", 5, 3, "pla"},   {"größe", 5, 4, "größ"},
      {"日本語", 6, 5, "日本"}, {"e\u0301x", 2, 1, "e\u0301"},
      {"🚀go", 4, 3, "🚀g"},      {"", 0, 0, ""},
      {"x", 1, 0, ""},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(TextWidth(row.text), row.width) << row.text;
    EXPECT_EQ(FitText(row.text, row.columns), row.fit);
    EXPECT_EQ(TextWidth(PadText(row.text, 9)), 9u) << row.text;
  }
  EXPECT_EQ(FitText("a\033[2Jb\r\nc\xff\xc2\x9b", 80), "a?[2Jb??c??");
}

}  // namespace
}  // namespace rollcall
