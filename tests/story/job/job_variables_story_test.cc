// The variables that a job sets for all ranks.
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "tests/story/job/job_story.h"

namespace rollcall {
namespace {

v1::JobSettings Settings(const std::string& value) {
  v1::JobSettings settings;
  settings.set_nodes_min(1);
  settings.set_nodes_max(2);
  v1::JobVariable& variable = *settings.add_environment();
  variable.set_name("NCCL_ALGO");
  variable.set_value(value);
  return settings;
}

// What the Welcome of a node that attends brings, or how it is refused.
std::string Attended(Job& job, const std::string& node, SessionId session,
                     const v1::JobSettings& settings = {}) {
  HelloOptions options;
  options.settings = settings;
  Attend attend;
  attend.hello = HelloOf(node, 1, options);
  attend.session = session;
  attend.observed_address = AddressOf(node);
  for (const Action& action : job.Step(attend, absl::UnixEpoch())) {
    if (const auto* refuse = std::get_if<CloseStream>(&action)) {
      return refuse->refusal.text();
    }
    const auto* send = std::get_if<Send>(&action);
    if (send == nullptr || !send->message.has_welcome()) continue;
    const v1::JobSettings& got = send->message.welcome().settings();
    return got.environment_size() == 1
               ? got.environment(0).name() + "=" + got.environment(0).value()
               : "none";
  }
  return "no welcome";
}

TEST(Variables, EveryNodeGetsThem) {
  Job job("demo", "run1", Settings("Ring"), Limits(), absl::UnixEpoch());
  EXPECT_EQ(Attended(job, "a", 1), "NCCL_ALGO=Ring");
  EXPECT_EQ(Attended(job, "b", 2, Settings("Ring")), "NCCL_ALGO=Ring");
}

TEST(Variables, ANodeThatSaysOthersIsRefused) {
  Job job("demo", "run1", Settings("Ring"), Limits(), absl::UnixEpoch());
  const std::string refused = Attended(job, "a", 1, Settings("Tree"));
  EXPECT_NE(refused.find("--env NCCL_ALGO is Ring for this job, and Tree here"),
            std::string::npos)
      << refused;
}

TEST(Variables, ARestartedDaemonHasThem) {
  JournalState state;
  state.run = "run1";
  state.settings = Settings("Ring");
  ASSERT_TRUE(Job::CheckJournal(state).ok());
  Job job = Job::Restore("demo", state, Limits(), absl::UnixEpoch());
  EXPECT_EQ(Attended(job, "a", 1), "NCCL_ALGO=Ring");
  // A journal that was changed cannot make nodes run something.
  state.settings.mutable_environment(0)->set_name("LD_PRELOAD");
  EXPECT_FALSE(Job::CheckJournal(state).ok());
}

}  // namespace
}  // namespace rollcall
