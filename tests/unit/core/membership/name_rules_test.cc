#include "daemon/core/membership/name_rules.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/base/durations.h"
#include "tests/unit/time_at.h"

namespace rollcall {
namespace {

using absl::StatusCode;

// What the daemon knows of node a, and a Hello from another agent that asks for
// that name with a token. The entry has incarnation 1, which is alive. The job
// runs generation 7 of "run1".
struct Case {
  Case() {
    node.hello.set_node("a");
    node.hello.set_incarnation(1);
    node.hello.set_ranks(8);
    node.observed_address = "10.0.0.1";
    node.session = 5;
    hello.set_node("a");
    hello.set_incarnation(2);
    hello.set_ranks(8);
    hello.mutable_token()->set_id("t1");
  }
  // The node's stream broke at 99.5, half a second ago.
  void Breaks() {
    node.session = 0;
    node.lease.suspect_since = At(99.5);
    node.lease.deadline = At(110);
  }
  // The node is a member of the running world, and the daemon knows only its
  // row in the world. Its incarnation was 1.
  void IsRestored() {
    node.session = 0;
    node.hello.set_incarnation(0);
    node.credential.committed_for = 1;
    node.node_rank = 0;
    node.ranks.started = 8;
    node.lease.broke_with_many = true;
  }
  void ShowsCredential() {
    hello.set_run("run1");
    hello.set_node_credential("proof");
  }
  // Incarnation 1 comes back with its world.
  void Returns() {
    ShowsCredential();
    hello.set_incarnation(1);
    hello.mutable_resume_state()->set_running_generation(7);
  }

  // By default, reconnect_grace is 1 s, lease 5 s and reattach_grace 60 s.
  std::optional<Refused> Refuse() const {
    return NameRules(moment, Limits()).Refuse(hello, "10.0.0.2", node);
  }
  bool Continues() const {
    return NameRules(moment, Limits()).Continues(hello, node);
  }

  Node node;
  v1::Hello hello;
  NameRules::Moment moment{"run1", 7, false, At(100)};
};

TEST(NameRules, AnAgentThatIsAliveKeepsItsName) {
  struct {
    const char* name;
    std::function<void(Case&)> change;
    std::optional<v1::RefusalCode> refusal;
    StatusCode code = StatusCode::kOk;
  } const kRows[] = {
      {"another agent", [](Case&) {}, v1::REFUSAL_CODE_NAME_TAKEN,
       StatusCode::kAlreadyExists},
      {"one that was welcomed before", [](Case& c) { c.hello.set_run("run1"); },
       v1::REFUSAL_CODE_REPLACED, StatusCode::kAborted},
      {"the same agent", [](Case& c) { c.hello.set_incarnation(1); }, {}},
      {"the same agent with other ranks",
       [](Case& c) {
         c.hello.set_incarnation(1);
         c.hello.set_ranks(4);
       },
       v1::REFUSAL_CODE_INVALID, StatusCode::kInvalidArgument},
      {"another agent with other ranks", [](Case& c) { c.hello.set_ranks(4); },
       v1::REFUSAL_CODE_NAME_TAKEN, StatusCode::kAlreadyExists},
      {"the launcher's agent", [](Case& c) { c.hello.set_launcher(true); }, {}},
      {"the name is another launcher's",
       [](Case& c) {
         c.hello.set_launcher(true);
         c.node.hello.set_launcher(true);
       },
       v1::REFUSAL_CODE_NAME_TAKEN, StatusCode::kAlreadyExists},
      {"the name is the launcher's",
       [](Case& c) { c.node.hello.set_launcher(true); },
       v1::REFUSAL_CODE_NAME_TAKEN, StatusCode::kAlreadyExists},
      {"also after the end", [](Case& c) { c.moment.ended = true; },
       v1::REFUSAL_CODE_NAME_TAKEN, StatusCode::kAlreadyExists},
  };
  for (const auto& row : kRows) {
    Case c;
    row.change(c);
    const std::optional<Refused> refused = c.Refuse();
    ASSERT_EQ(refused.has_value(), row.refusal.has_value()) << row.name;
    if (!refused.has_value()) continue;
    EXPECT_EQ(refused->refusal, *row.refusal) << row.name;
    EXPECT_EQ(refused->code, row.code) << row.name;
    const bool ours = *row.refusal == v1::REFUSAL_CODE_INVALID;
    EXPECT_EQ(refused->logged, !ours) << row.name;
    // The message names both addresses.
    EXPECT_EQ(refused->text.find("10.0.0.1") != std::string::npos, !ours);
    EXPECT_EQ(refused->text.find("10.0.0.2") != std::string::npos, !ours);
  }
}

TEST(NameRules, ANodeThatWasGivenUpComesBackWithANewIncarnation) {
  struct {
    const char* name;
    bool same;
    bool ended;
    bool refused;
  } const kRows[] = {
      {"the same incarnation", true, false, true},
      {"another one", false, false, false},
      // The agent is told that the job has ended.
      {"the same after the end", true, true, false},
  };
  for (const auto& row : kRows) {
    Case c;
    c.Breaks();
    c.node.gone = true;
    c.node.hello.set_ranks(4);  // Has no effect after the end.
    if (row.same) c.hello.set_incarnation(1);
    c.moment.ended = row.ended;
    const std::optional<Refused> refused = c.Refuse();
    ASSERT_EQ(refused.has_value(), row.refused) << row.name;
    EXPECT_FALSE(c.Continues()) << row.name;
    if (!row.refused) continue;
    EXPECT_EQ(refused->code, StatusCode::kAborted);
    EXPECT_EQ(refused->refusal, v1::REFUSAL_CODE_LOST);
    EXPECT_FALSE(refused->logged);
  }
}

// `waits`: the name is reserved, so the agent must dial again.
struct Reserved {
  const char* name;
  std::function<void(Case&)> change;
  bool waits;
};

void Expect(const Reserved& row, const Case& c) {
  const std::optional<Refused> refused = c.Refuse();
  ASSERT_EQ(refused.has_value(), row.waits) << row.name;
  if (!row.waits) return;
  EXPECT_EQ(refused->code, StatusCode::kUnavailable) << row.name;
  EXPECT_EQ(refused->refusal, v1::REFUSAL_CODE_UNSPECIFIED) << row.name;
  EXPECT_TRUE(refused->logged) << row.name;
}

TEST(NameRules, ANameIsReservedForAnAgentWhoseStreamBroke) {
  const Reserved kRows[] = {
      {"in its grace", [](Case&) {}, true},
      {"its grace is over", [](Case& c) { c.moment.now = At(100.5); }, false},
      {"its stream broke with many others",
       [](Case& c) {
         c.node.lease.broke_with_many = true;
         c.moment.now = At(104.4);
       },
       true},
      {"one lease is over",
       [](Case& c) {
         c.node.lease.broke_with_many = true;
         c.moment.now = At(104.5);
       },
       false},
      {"its deadline is sooner",
       [](Case& c) { c.node.lease.deadline = At(99.9); }, false},
      {"the same agent, whose Welcome was lost",
       [](Case& c) { c.hello.set_incarnation(1); }, false},
      {"its credential", [](Case& c) { c.ShowsCredential(); }, false},
      {"a credential of another run",
       [](Case& c) {
         c.ShowsCredential();
         c.hello.set_run("run0");
       },
       true},
      {"the launcher's agent", [](Case& c) { c.hello.set_launcher(true); },
       false},
      {"the job has ended", [](Case& c) { c.moment.ended = true; }, false},
      {"no world runs", [](Case& c) { c.moment.running = 0; }, true},
  };
  for (const Reserved& row : kRows) {
    Case c;
    c.Breaks();
    row.change(c);
    Expect(row, c);
  }
}

TEST(NameRules, OnlyTheLaunchersAgentTakesALaunchersName) {
  Case c;
  c.Breaks();
  c.moment.now = At(200);
  c.node.hello.set_launcher(true);
  ASSERT_TRUE(c.Refuse().has_value());
  EXPECT_EQ(c.Refuse()->refusal, v1::REFUSAL_CODE_NAME_TAKEN);
  c.hello.set_launcher(true);
  EXPECT_FALSE(c.Refuse().has_value());
}

TEST(NameRules, ANameIsReservedForAMemberThatIsNotBackAfterARestart) {
  const Reserved kRows[] = {
      {"a token", [](Case&) {}, true},
      {"beyond its grace, if the daemon is isolated",
       [](Case& c) { c.moment.now = At(9999); }, true},
      {"its world has ended", [](Case& c) { c.moment.running = 0; }, false},
      {"it is not a member", [](Case& c) { c.node.node_rank = -1; }, false},
      {"the job has ended", [](Case& c) { c.moment.ended = true; }, false},
      {"the launcher's agent", [](Case& c) { c.hello.set_launcher(true); },
       false},
      {"the committed incarnation", [](Case& c) { c.Returns(); }, false},
      {"its number with a token", [](Case& c) { c.hello.set_incarnation(1); },
       true},
      {"its next incarnation",
       [](Case& c) {
         c.ShowsCredential();
         c.hello.set_previous_incarnation(1);
       },
       false},
      {"an incarnation that was replaced before",
       [](Case& c) { c.ShowsCredential(); }, true},
      {"its ranks have finished",
       [](Case& c) {
         c.ShowsCredential();
         for (uint32_t i = 0; i < 8; ++i) c.node.ranks.done.insert(i);
       },
       false},
      {"the world commit names no incarnations",
       [](Case& c) {
         c.ShowsCredential();
         c.node.credential.committed_for = 0;
       },
       false},
      {"the next incarnation, and the world commit names none",
       [](Case& c) {
         c.ShowsCredential();
         c.hello.set_previous_incarnation(1);
         c.node.credential.committed_for = 0;
       },
       false},
      {"a credential of a run that adoption discarded",
       [](Case& c) {
         c.Returns();
         c.hello.set_run("run0");
       },
       true},
  };
  for (const Reserved& row : kRows) {
    Case c;
    c.IsRestored();
    row.change(c);
    Expect(row, c);
  }
}

TEST(NameRules, SaysHowLongANameIsReserved) {
  struct {
    const char* name;
    std::function<void(Case&)> change;
    const char* text;
  } const kRows[] = {
      {"its stream broke", [](Case& c) { c.Breaks(); }, "for 1s;"},
      {"with many others",
       [](Case& c) {
         c.Breaks();
         c.node.lease.broke_with_many = true;
       },
       "for 5s;"},
      {"after a restart", [](Case& c) { c.IsRestored(); }, "for 1m;"},
  };
  for (const auto& row : kRows) {
    Case c;
    row.change(c);
    ASSERT_TRUE(c.Refuse().has_value()) << row.name;
    EXPECT_NE(c.Refuse()->text.find(row.text), std::string::npos)
        << c.Refuse()->text;
  }
}

TEST(NameRules, AnAgentThatAttendedContinuesByItsIncarnation) {
  Case c;
  EXPECT_FALSE(c.Continues());
  c.ShowsCredential();
  EXPECT_FALSE(c.Continues());
  c.hello.set_incarnation(1);
  EXPECT_TRUE(c.Continues());
  // The same holds with a token, because the agent may not have received its
  // first Welcome.
  c.hello.mutable_token()->set_id("t1");
  EXPECT_TRUE(c.Continues());
  c.node.gone = true;
  EXPECT_FALSE(c.Continues());
}

TEST(NameRules, AMemberOfAJournaledWorldContinuesByItsCredential) {
  struct {
    const char* name;
    std::function<void(Case&)> change;
    bool continues;
  } const kRows[] = {
      {"it runs in the world", [](Case&) {}, true},
      {"it has prepared the world",
       [](Case& c) {
         c.hello.mutable_resume_state()->set_running_generation(6);
         c.hello.mutable_resume_state()->set_prepared_generation(7);
       },
       true},
      {"it runs in an older one",
       [](Case& c) {
         c.hello.mutable_resume_state()->set_running_generation(6);
       },
       false},
      {"it holds no world", [](Case& c) { c.hello.clear_resume_state(); },
       false},
      {"a token", [](Case& c) { c.hello.mutable_token()->set_id("t1"); },
       false},
      {"a credential of another run", [](Case& c) { c.hello.set_run("run0"); },
       false},
      {"another number of ranks", [](Case& c) { c.hello.set_ranks(4); }, false},
      {"a row without ranks", [](Case& c) { c.node.hello.set_ranks(0); }, true},
      {"another incarnation", [](Case& c) { c.hello.set_incarnation(2); },
       false},
      {"the world commit names no incarnations",
       [](Case& c) {
         c.hello.set_incarnation(2);
         c.node.credential.committed_for = 0;
       },
       true},
      {"no world runs: it has no state to continue",
       [](Case& c) {
         c.moment.running = 0;
         c.hello.clear_resume_state();
       },
       true},
      {"it is not a member of it",
       [](Case& c) {
         c.node.node_rank = -1;
         c.hello.clear_resume_state();
       },
       true},
      {"not a member, with a token",
       [](Case& c) {
         c.node.node_rank = -1;
         c.hello.mutable_token()->set_id("t1");
       },
       false},
      {"it was given up", [](Case& c) { c.node.gone = true; }, false},
  };
  for (const auto& row : kRows) {
    Case c;
    c.IsRestored();
    c.Returns();
    row.change(c);
    EXPECT_EQ(c.Continues(), row.continues) << row.name;
  }
}

TEST(RefusalOfLost, TellsTheAgentWhetherItMayComeBack) {
  struct {
    v1::ReasonCode reason;
    StatusCode code;
    v1::RefusalCode refusal;
  } const kRows[] = {
      {v1::REASON_CODE_EVICTED, StatusCode::kPermissionDenied,
       v1::REFUSAL_CODE_EVICTED},
      {v1::REASON_CODE_REPLACED, StatusCode::kAlreadyExists,
       v1::REFUSAL_CODE_NAME_TAKEN},
      {v1::REASON_CODE_LOST_LEASE, StatusCode::kAborted, v1::REFUSAL_CODE_LOST},
      {v1::REASON_CODE_LOST_STREAM, StatusCode::kAborted,
       v1::REFUSAL_CODE_LOST},
  };
  for (const auto& row : kRows) {
    const Refused refused = RefusalOfLost("demo", "a", row.reason, "because");
    EXPECT_EQ(refused.code, row.code);
    EXPECT_EQ(refused.refusal, row.refusal);
    EXPECT_NE(refused.text.find("node "), std::string::npos);
    EXPECT_NE(refused.text.find("because"), std::string::npos);
  }
}

void AddVariable(v1::JobSettings& to, const char* name, const char* value) {
  v1::JobVariable& variable = *to.add_environment();
  variable.set_name(name);
  variable.set_value(value);
}

TEST(Contradiction, NamesTheSettingAndBothValues) {
  using S = v1::JobSettings;
  struct {
    const char* flag;
    std::function<void(S&)> ours;
    std::function<void(S&)> theirs;
    const char* values[2];
  } const kRows[] = {
      {"--nodes (min)",
       [](S& s) { s.set_nodes_min(2); },
       [](S& s) { s.set_nodes_min(3); },
       {"2", "3"}},
      {"--nodes (max)",
       [](S& s) { s.set_nodes_max(4); },
       [](S& s) { s.set_nodes_max(5); },
       {"4", "5"}},
      {"--max-restarts",
       [](S& s) { s.set_max_restarts(3); },
       [](S& s) { s.set_max_restarts(0); },
       {"3", "0"}},
      {"--grow",
       [](S& s) { s.set_grow(v1::GROW_BOUNDARY); },
       [](S& s) { s.set_grow(v1::GROW_NEVER); },
       {"BOUNDARY", "NEVER"}},
      {"--preflight",
       [](S& s) { s.set_preflight(v1::PREFLIGHT_WARN); },
       [](S& s) { s.set_preflight(v1::PREFLIGHT_OFF); },
       {"WARN", "OFF"}},
      {"--node-check",
       [](S&) {},
       [](S& s) { s.set_node_check(true); },
       {"off", "on"}},
      {"--join-timeout",
       [](S& s) { s.mutable_join_timeout()->set_seconds(60); },
       [](S& s) { s.mutable_join_timeout()->set_seconds(5); },
       {"1m", "5s"}},
      {"--last-call",
       [](S& s) { s.mutable_last_call()->set_seconds(30); },
       [](S& s) { s.mutable_last_call()->set_seconds(1); },
       {"30s", "1s"}},
      {"--hang-timeout",
       [](S& s) { s.mutable_hang_timeout()->set_seconds(60); },
       [](S& s) { s.mutable_hang_timeout()->set_seconds(0); },
       {"1m", "0"}},
      {"--start-timeout",
       [](S& s) { s.mutable_start_timeout()->set_seconds(60); },
       [](S& s) { s.mutable_start_timeout()->set_seconds(5); },
       {"1m", "5s"}},
      {"--setup-timeout",
       [](S& s) { s.mutable_setup_timeout()->set_seconds(60); },
       [](S& s) { s.mutable_setup_timeout()->set_seconds(5); },
       {"1m", "5s"}},
      {"--notice-time",
       [](S& s) { s.mutable_notice_time()->set_seconds(60); },
       [](S& s) { s.mutable_notice_time()->set_seconds(5); },
       {"1m", "5s"}},
      {"--ping-interval",
       [](S& s) { s.mutable_ping_interval()->set_seconds(60); },
       [](S& s) { s.mutable_ping_interval()->set_nanos(5); },
       {"1m", "5ns"}},
      {"--linger",
       [](S& s) { s.mutable_linger()->set_seconds(60); },
       [](S& s) { s.mutable_linger()->set_seconds(5); },
       {"1m", "5s"}},
      {"--requeue-exit-code",
       [](S& s) { s.set_requeue_exit_code(75); },
       [](S& s) { s.set_requeue_exit_code(9); },
       {"75", "9"}},
      {"--env NCCL_ALGO",
       [](S& s) { AddVariable(s, "NCCL_ALGO", "Ring"); },
       [](S& s) { AddVariable(s, "NCCL_ALGO", "Tree"); },
       {"Ring", "Tree"}},
      {"--env NCCL_ALGO",
       [](S& s) { AddVariable(s, "NCCL_PROTO", "LL"); },
       [](S& s) { AddVariable(s, "NCCL_ALGO", "Tree"); },
       {"not set", "Tree"}},
  };
  for (const auto& row : kRows) {
    S ours;
    S theirs;
    row.ours(ours);
    EXPECT_EQ(Contradiction(ours, theirs), std::nullopt)
        << row.flag << ": unset settings agree with any value";
    row.ours(theirs);
    EXPECT_EQ(Contradiction(ours, theirs), std::nullopt) << row.flag;
    row.theirs(theirs);
    const std::optional<std::string> text = Contradiction(ours, theirs);
    ASSERT_TRUE(text.has_value()) << row.flag;
    EXPECT_EQ(text->rfind(absl::StrCat(row.flag, " is "), 0), 0u) << *text;
    EXPECT_LT(text->find(row.values[0]), text->rfind(row.values[1])) << *text;
  }
  S expected;
  expected.add_expected_nodes("a");
  EXPECT_EQ(Contradiction(S(), expected), std::nullopt);
}

}  // namespace
}  // namespace rollcall
