// What a launcher does at its start, as a table of what it finds.
#include "client/launch/takeover/start_plan.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "daemon/base/durations.h"

namespace rollcall {
namespace {

using Run = LeftBehind::Run;

LaunchTerms Terms() {
  LaunchTerms terms;
  terms.job = "demo";
  terms.settings.set_nodes_min(2);
  terms.settings.set_nodes_max(3);
  terms.settings.set_requeue_exit_code(75);
  terms.listen = "[::]:0";
  terms.wire = "a CA of its own (00112233)";
  terms.node = "here";
  terms.local_workers = 1;
  terms.agent_flags = {"--nproc-per-node", "1"};
  terms.command_digest = "abcd";
  return terms;
}

// What a launcher on port 7 has left behind.
LeftBehind Left(bool daemon_lives, std::vector<std::string> living, Run run) {
  LeftBehind left;
  left.folder = "/state";
  left.record.emplace();
  left.record->terms = Terms();
  left.record->port = 7;
  left.daemon_lives = daemon_lives;
  left.living_agents = std::move(living);
  left.run = run;
  return left;
}

// Returns, for example, `attach :7 adopt here start local-1`.
std::string Describe(const StartPlan& plan) {
  std::string text = plan.kind == StartPlan::Kind::kNew      ? "new"
                     : plan.kind == StartPlan::Kind::kAttach ? "attach"
                                                             : "resume";
  if (plan.port != 0) absl::StrAppend(&text, " :", plan.port);
  if (plan.end_daemon) absl::StrAppend(&text, " end-daemon");
  if (!plan.ended.empty()) {
    absl::StrAppend(&text, " end ", absl::StrJoin(plan.ended, ","));
  }
  if (!plan.adopted.empty()) {
    absl::StrAppend(&text, " adopt ", absl::StrJoin(plan.adopted, ","));
  }
  if (plan.started.empty()) return text;
  return absl::StrCat(
      text, " start ",
      absl::StrJoin(plan.started, ",",
                    [](std::string* out, const NamedAgent& agent) {
                      absl::StrAppend(out, agent.name, agent.own ? "*" : "");
                    }));
}

// Only in these cases are all their processes known to have ended.
TEST(StartPlan, AgentsOfAMachineOrContainerThatEndedAreGone) {
  LeftBehind left = Left(false, {}, Run::kUnfinished);
  left.record->agents = {{"here", true, {}}, {"local-1", false, {}}};
  auto plan = PlanStart(left, Terms(), false);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(plan->gone.empty());
  EXPECT_TRUE(plan->others_may_live);
  for (const LaunchEnd ended : {LaunchEnd::kReboot, LaunchEnd::kNamespace}) {
    left.ended = ended;
    plan = PlanStart(left, Terms(), false);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->gone, (std::vector<std::string>{"here", "local-1"}));
    EXPECT_FALSE(plan->others_may_live);
  }
  // If the run has ended, the next one is not told of these agents.
  left.run = Run::kEnded;
  plan = PlanStart(left, Terms(), false);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(plan->gone.empty());
  EXPECT_FALSE(plan->others_may_live);
}

// The launcher that knew this was killed before its daemon listened.
TEST(StartPlan, TheDaemonIsToldOfTheGoneByALaterLauncher) {
  LeftBehind left = Left(false, {}, Run::kUnfinished);
  left.record->gone = {"here", "local-1"};
  for (const bool lives : {false, true}) {
    left.daemon_lives = lives;
    const auto plan = PlanStart(left, Terms(), false);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->gone, left.record->gone);
  }
}

TEST(StartPlan, WhatIsFoundDecides) {
  LeftBehind nothing;
  nothing.folder = "/state";
  LeftBehind unborn = Left(false, {}, Run::kUnfinished);
  unborn.record->port = 0;
  LeftBehind deaf = Left(true, {"here"}, Run::kNone);
  deaf.record->port = 0;
  const struct {
    const char* found;
    LeftBehind left;
    const char* expect;
  } kRows[] = {
      {"nothing", nothing, "new start here*,local-1"},
      // Only the launcher has died.
      {"all live", Left(true, {"here", "local-1"}, Run::kNone),
       "attach :7 adopt here,local-1"},
      {"own agent dead", Left(true, {"local-1"}, Run::kNone),
       "attach :7 adopt local-1 start here*"},
      {"daemon alone lives", Left(true, {}, Run::kNone),
       "attach :7 start here*,local-1"},
      // The daemon has died as well.
      {"agents live", Left(false, {"here", "local-1"}, Run::kUnfinished),
       "resume :7 adopt here,local-1"},
      {"worker lives", Left(false, {"local-1"}, Run::kUnfinished),
       "resume :7 adopt local-1 start here*"},
      {"all dead", Left(false, {}, Run::kUnfinished),
       "resume :7 start here*,local-1"},
      // No run continues.
      {"ended", Left(false, {}, Run::kEnded), "new start here*,local-1"},
      {"ended, agents live", Left(false, {"here"}, Run::kEnded),
       "new end here start here*,local-1"},
      {"never journaled", Left(false, {}, Run::kNone),
       "new start here*,local-1"},
      {"died before it listened; the journal has an older run", unborn,
       "new start here*,local-1"},
      {"launcher died before it heard the port", deaf,
       "new end-daemon end here start here*,local-1"},
  };
  for (const auto& row : kRows) {
    const auto plan = PlanStart(row.left, Terms(), false);
    ASSERT_TRUE(plan.ok()) << row.found << ": " << plan.status();
    EXPECT_EQ(Describe(*plan), row.expect) << row.found;
  }
}

TEST(StartPlan, NoAgentOfItsOwn) {
  LeftBehind left = Left(false, {}, Run::kUnfinished);
  left.record->terms.node = "";
  left.record->terms.local_workers = 0;
  const auto plan = PlanStart(left, left.record->terms, false);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(Describe(*plan), "resume :7");
}

TEST(StartPlan, WhatGoesOnKeepsItsTerms) {
  LeftBehind left = Left(true, {}, Run::kNone);
  left.record->terms.settings.set_max_restarts(5);
  left.record->ephemeral = true;
  // A flag that is not given agrees with any recorded value.
  const auto plan = PlanStart(left, Terms(), false);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->terms.settings.max_restarts(), 5u);
  EXPECT_TRUE(plan->ephemeral);
}

TEST(StartPlan, AMadeUpNameMeansTheJobThatIsThere) {
  LaunchTerms wanted = Terms();
  wanted.job = "job-123456";
  const auto plan = PlanStart(Left(true, {}, Run::kNone), wanted, true);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->terms.job, "demo");
  const auto fresh = PlanStart(Left(false, {}, Run::kEnded), wanted, true);
  ASSERT_TRUE(fresh.ok());
  EXPECT_EQ(fresh->terms.job, "job-123456");
}

TEST(StartPlan, ContradictionsNameBothValues) {
  const struct {
    std::function<void(LaunchTerms&)> change;
    std::vector<std::string> named;
  } kRows[] = {
      {[](LaunchTerms& t) { t.job = "other"; }, {"--job", "demo", "other"}},
      {[](LaunchTerms& t) { t.settings.set_nodes_max(4); },
       {"--nodes", "2:3", "2:4"}},
      {[](LaunchTerms& t) { t.settings.set_nodes_min(3); },
       {"--nodes", "2:3", " 3;"}},
      {[](LaunchTerms& t) { t.settings.set_max_restarts(9); },
       {"--max-restarts", "the default", "9"}},
      {[](LaunchTerms& t) { t.settings.set_grow(v1::GROW_NEVER); },
       {"--grow", "the default", "never"}},
      {[](LaunchTerms& t) { t.settings.set_node_check(true); },
       {"--node-check", "off", "on"}},
      {[](LaunchTerms& t) {
         ToProto(absl::Minutes(3), t.settings.mutable_join_timeout());
       },
       {"--join-timeout", "3m"}},
      {[](LaunchTerms& t) {
         ToProto(absl::Minutes(2), t.settings.mutable_hang_timeout());
       },
       {"--hang-timeout", "2m"}},
      {[](LaunchTerms& t) {
         ToProto(absl::Minutes(4), t.settings.mutable_start_timeout());
       },
       {"--start-timeout", "4m"}},
      {[](LaunchTerms& t) {
         ToProto(absl::Minutes(5), t.settings.mutable_setup_timeout());
       },
       {"--setup-timeout", "5m"}},
      {[](LaunchTerms& t) {
         ToProto(absl::Seconds(30), t.settings.mutable_ping_interval());
       },
       {"--ping-interval", "30s"}},
      {[](LaunchTerms& t) {
         ToProto(absl::Hours(1), t.settings.mutable_linger());
       },
       {"--linger", "1h"}},
      {[](LaunchTerms& t) {
         v1::JobVariable& variable = *t.settings.add_environment();
         variable.set_name("NCCL_ALGO");
         variable.set_value("Ring");
       },
       {"--env", "the default", "NCCL_ALGO=Ring"}},
      {[](LaunchTerms& t) { t.settings.set_requeue_exit_code(99); },
       {"--requeue-exit-code", "75", "99"}},
      {[](LaunchTerms& t) { t.listen = "10.0.0.1:99"; },
       {"--listen", "[::]:0", "10.0.0.1:99"}},
      {[](LaunchTerms& t) { t.wire = "--insecure"; },
       {"a CA of its own (00112233)", "--insecure"}},
      {[](LaunchTerms& t) { t.node = ""; }, {"--no-worker", "here", "none"}},
      {[](LaunchTerms& t) { t.local_workers = 4; },
       {"--local-workers", "1", "4"}},
      {[](LaunchTerms& t) { t.agent_flags[1] = "8"; },
       {"--nproc-per-node 1", "--nproc-per-node 8"}},
      {[](LaunchTerms& t) { t.command_digest = "ef01"; },
       {"command", "abcd", "ef01"}},
  };
  for (const auto& row : kRows) {
    LaunchTerms wanted = Terms();
    row.change(wanted);
    for (const bool lives : {true, false}) {
      const auto plan =
          PlanStart(Left(lives, {}, Run::kUnfinished), wanted, false);
      ASSERT_TRUE(absl::IsInvalidArgument(plan.status())) << row.named[0];
      for (const std::string& word : row.named) {
        EXPECT_TRUE(absl::StrContains(plan.status().message(), word))
            << word << " is not in: " << plan.status().message();
      }
      // `rollcall stop` gets no answer if no daemon runs.
      EXPECT_EQ(absl::StrContains(plan.status().message(), "rollcall stop"),
                lives);
      EXPECT_TRUE(absl::StrContains(plan.status().message(), "--state"));
    }
    // A run that has ended contradicts no flag.
    EXPECT_TRUE(PlanStart(Left(false, {}, Run::kEnded), wanted, false).ok());
  }
}

// The terms have two hosts besides the launcher's own.
LaunchTerms WithHosts() {
  LaunchTerms terms = Terms();
  terms.local_workers = 0;
  terms.hosts = {{"here", "localhost", 4}, {"b", "me@b", 0}, {"c", "c", 8}};
  return terms;
}

TEST(StartPlanHosts, EachIsStartedOnceAndByItsTarget) {
  const auto plan = PlanStart(LeftBehind(), WithHosts(), false);
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::string text;
  for (const NamedAgent& agent : plan->started) {
    absl::StrAppend(&text, agent.name, agent.own ? " own" : "", " '",
                    agent.target, "' ", agent.slots, "; ");
  }
  EXPECT_EQ(text, "here own '' 4; b 'me@b' 0; c 'c' 8; ");
}

// Only the daemon knows what happened to agents on other hosts.
TEST(StartPlanHosts, ARunThatIsTakenBackStartsNoneOfThemAgain) {
  for (const LaunchEnd ended : {LaunchEnd::kUnknown, LaunchEnd::kReboot}) {
    LeftBehind left = Left(false, {}, Run::kUnfinished);
    left.ended = ended;
    left.record->terms = WithHosts();
    left.record->agents = {{"here", true, {}}, {"b", false, {}}};
    const auto plan = PlanStart(left, WithHosts(), false);
    ASSERT_TRUE(plan.ok()) << plan.status();
    ASSERT_EQ(plan->started.size(), 1u);
    EXPECT_EQ(plan->started[0].name, "here");
    EXPECT_EQ(absl::StrJoin(plan->gone, ","),
              ended == LaunchEnd::kReboot ? "here" : "");
  }
}

TEST(StartPlanHosts, OtherHostsContradict) {
  LeftBehind left = Left(true, {}, Run::kNone);
  left.record->terms = WithHosts();
  LaunchTerms other = WithHosts();
  other.hosts.pop_back();
  const auto plan = PlanStart(left, other, false);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  for (const char* expect : {"--hostfile", "me@b, c slots=8"}) {
    EXPECT_TRUE(absl::StrContains(plan.status().message(), expect))
        << plan.status();
  }
}

}  // namespace
}  // namespace rollcall
