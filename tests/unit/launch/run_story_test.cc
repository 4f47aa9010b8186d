// The messages of a launcher for people.
#include "client/launch/run_story.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "client/admin/job_text.h"
#include "nlohmann/json.hpp"

namespace rollcall {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1000);

v1::JobStatus State(v1::JobState state) {
  v1::JobStatus status;
  status.set_job("demo");
  status.set_state(state);
  return status;
}

v1::JobStatus Failed(v1::ReasonCode code) {
  v1::JobStatus status = State(v1::JOB_STATE_FAILED);
  status.set_exit_code(3);
  status.set_end_code(code);
  status.set_end_reason("no more restarts");
  v1::RootCause& cause = *status.mutable_root_cause();
  cause.set_node("n2");
  cause.set_rank(5);
  cause.set_code(v1::REASON_CODE_RANK_EXIT);
  cause.set_value(3);
  *status.add_causes() = cause;
  return status;
}

// Returns what the story prints on stderr during `act`.
template <typename Act>
std::string Told(RunStory& story, Act act) {
  testing::internal::CaptureStderr();
  act();
  EXPECT_TRUE(story.Flush(absl::Seconds(60)));
  return testing::internal::GetCapturedStderr();
}

// The story of a job of up to two nodes.
void Join(RunStory& story, uint64_t here,
          absl::Duration lifetime = absl::Hours(24)) {
  story.Joinable("e", "rc1.x", "/state/worker.join", lifetime,
                 {here, 2, 3, {}});
}

TEST(RunStory, AKeptSceneIsToldOnce) {
  RunStory story("demo", false, absl::Minutes(10));
  const v1::JobStatus failed = Failed(v1::REASON_CODE_RESTART_BUDGET);
  const std::string told = Told(story, [&] { story.Heard(failed, kNow); });
  for (const char* word :
       {"n2", "rank 5", "code 3", "10 min", "Ctrl-C", "rollcall stop"}) {
    EXPECT_TRUE(absl::StrContains(told, word)) << word << " not in:\n" << told;
  }
  EXPECT_EQ(Told(story, [&] { story.Heard(failed, kNow); }), "");
  // The end was already reported, so it is not reported again.
  v1::End end;
  end.set_exit_code(3);
  end.set_reason("no more restarts");
  EXPECT_EQ(Told(story, [&] { story.Ended(end, 3, ""); }), "");
}

// While the job lingers, the story tells for how much longer, and which nodes
// have ranks left.
TEST(RunStory, WhatIsLeftAliveIsTold) {
  v1::JobStatus status = Failed(v1::REASON_CODE_RESTART_BUDGET);
  status.set_state(v1::JOB_STATE_LINGERING);
  status.mutable_lingers()->set_seconds(250);
  for (const auto& [name, state] : {std::pair("n1", v1::NODE_STATE_RUNNING),
                                    std::pair("n2", v1::NODE_STATE_FINISHED),
                                    std::pair("n3", v1::NODE_STATE_RUNNING)}) {
    v1::NodeStatus& node = *status.add_nodes();
    node.set_node(name);
    node.set_state(state);
  }
  RunStory story("demo", false, absl::Minutes(10));
  const std::string told = Told(story, [&] { story.Heard(status, kNow); });
  EXPECT_TRUE(absl::StrContains(told,
                                "ranks that still live on n1, n3 and the "
                                "daemon are left running for 4 min 10 s"))
      << told;
  // `status` reports the same, with and without --json.
  EXPECT_TRUE(absl::StrContains(StatusTable(status),
                                "ranks that still live on n1, n3 are kept "
                                "for another 4 min 10 s"))
      << StatusTable(status);
  EXPECT_TRUE(absl::StrContains(StatusTable(status), "lingering"));
  const nlohmann::ordered_json json = StatusJson(status);
  EXPECT_EQ(json["state"], "lingering");
  EXPECT_EQ(json["lingers_s"], 250);
  EXPECT_EQ(json["nodes"][0]["state"], "running");
  EXPECT_EQ(json["nodes"][1]["state"], "finished");
  // With --json, the launcher prints this as a line.
  RunStory in_json("demo", true, absl::Minutes(10));
  testing::internal::CaptureStdout();
  Told(in_json, [&] { in_json.Heard(status, kNow); });
  EXPECT_TRUE(absl::StrContains(testing::internal::GetCapturedStdout(),
                                "\"lingers_s\":250.0"));
}

TEST(RunStory, NoSceneIsKeptWhereNobodyAsked) {
  RunStory without("demo", false, absl::ZeroDuration());
  EXPECT_EQ(Told(without,
                 [&] {
                   without.Heard(Failed(v1::REASON_CODE_RESTART_BUDGET), kNow);
                 }),
            "");
  RunStory stopped("demo", false, absl::Minutes(10));
  EXPECT_EQ(Told(stopped,
                 [&] { stopped.Heard(Failed(v1::REASON_CODE_STOPPED), kNow); }),
            "");
}

TEST(RunStory, WhatAnEarlierLauncherToldIsNotToldAgain) {
  RunStory story("demo", false, absl::ZeroDuration());
  const std::string back = Told(story, [&] { story.TakenBack(77, {"n1"}); });
  EXPECT_TRUE(absl::StrContains(back, "process 77")) << back;
  EXPECT_EQ(Told(story, [&] { Join(story, 1); }), "");
  v1::JobStatus running = State(v1::JOB_STATE_RUNNING);
  running.mutable_last_reform()->set_generation(4);
  EXPECT_EQ(Told(story, [&] { story.Heard(running, kNow); }), "");
  running.mutable_last_reform()->set_generation(5);
  EXPECT_TRUE(absl::StrContains(
      Told(story, [&] { story.Heard(running, kNow); }), "generation 5"));
}

// The reason why the next world waits is told once. If the output is not a
// terminal, it is not repeated for the time left.
TEST(RunStory, AFenceIsToldOnce) {
  RunStory story("demo", false, absl::ZeroDuration());
  v1::JobStatus fenced = State(v1::JOB_STATE_GATHERING);
  fenced.set_generation(1);
  fenced.mutable_waited()->set_seconds(30);
  fenced.mutable_fence()->set_seconds(600);
  fenced.set_fence_reason("generation 1 may still train, at most 10m");
  std::string told = Told(story, [&] {
    story.Heard(fenced, kNow);
    story.Show(kNow);
  });
  EXPECT_TRUE(absl::StrContains(told, "may still train, at most 10m")) << told;
  EXPECT_TRUE(absl::StrContains(told, "ranks of generation 1 to stop")) << told;
  fenced.mutable_fence()->set_seconds(540);
  fenced.set_fence_reason("generation 1 may still train, at most 9m");
  EXPECT_EQ(Told(story,
                 [&] {
                   story.Heard(fenced, kNow);
                   story.Show(kNow);
                 }),
            "");
  // The end of the next world was missed.
  fenced.set_generation(2);
  fenced.set_fence_reason("generation 2 may still train, at most 10m");
  told = Told(story, [&] { story.Heard(fenced, kNow); });
  EXPECT_TRUE(absl::StrContains(told, "generation 2 may")) << told;
}

TEST(RunStory, WhomALongFormationWaitsForIsTold) {
  RunStory story("demo", false, absl::ZeroDuration());
  v1::JobStatus forming = State(v1::JOB_STATE_FORMING);
  forming.set_generation(2);
  for (const char* name : {"a", "b"}) {
    v1::NodeStatus& node = *forming.add_nodes();
    node.set_node(name);
    node.set_prepared(false);
  }
  EXPECT_EQ(Told(story,
                 [&] {
                   story.Heard(forming, kNow);
                   story.Show(kNow + absl::Seconds(4));
                 }),
            "");
  EXPECT_LE(story.NextShow(kNow + absl::Seconds(4)), kNow + absl::Seconds(5));
  const auto show = [&](int seconds) {
    return Told(story, [&] { story.Show(kNow + absl::Seconds(seconds)); });
  };
  EXPECT_TRUE(absl::StrContains(
      show(5), "forming generation 2; not prepared yet: a, b"));
  EXPECT_EQ(show(6), "");
  forming.mutable_nodes(0)->set_prepared(true);
  story.Heard(forming, kNow + absl::Seconds(7));
  EXPECT_TRUE(absl::StrContains(show(7), "not prepared yet: b"));
  // If a world was committed in between, a new wait begins.
  story.Heard(State(v1::JOB_STATE_RUNNING), kNow + absl::Seconds(8));
  story.Heard(forming, kNow + absl::Seconds(9));
  EXPECT_EQ(show(10), "");
}

TEST(RunStory, HowToJoinIsToldWhereSomebodyIsMissing) {
  RunStory story("demo", false, absl::ZeroDuration());
  EXPECT_EQ(Told(story, [&] { Join(story, 3); }), "");
  const std::string told = Told(story, [&] { Join(story, 1); });
  for (const char* word :
       {"job demo: 1 more to begin, room for 2 more; on each",
        "rollcall join rc1.x", "valid for 24h", "/state/worker.join"}) {
    EXPECT_TRUE(absl::StrContains(told, word)) << word << " not in:\n" << told;
  }
  const std::string without_end =
      Told(story, [&] { Join(story, 1, absl::InfiniteDuration()); });
  EXPECT_FALSE(absl::StrContains(without_end, "valid")) << without_end;
}

TEST(RunStory, NothingKnownOfTheEnd) {
  RunStory story("demo", false, absl::ZeroDuration());
  EXPECT_TRUE(absl::StrContains(
      Told(story, [&] { story.Ended(std::nullopt, 69, "gave up"); }),
      "gave up"));
}

}  // namespace
}  // namespace rollcall
