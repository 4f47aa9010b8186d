// RunSpans: which spans the lines of a run's log become.
#include "daemon/server/trace/run_spans.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/server/events/log_line.h"
#include "nlohmann/json.hpp"
#include "tests/unit/time_at.h"

namespace rollcall {
namespace {

using nlohmann::json;

json SpanOf(const std::string& line) {
  EXPECT_EQ(line.find('\n'), std::string::npos);
  return json::parse(line)
      .at("resourceSpans")
      .at(0)
      .at("scopeSpans")
      .at(0)
      .at("spans")
      .at(0);
}

std::string AttributeOf(const json& of, const std::string& key) {
  for (const json& one : of.at("attributes")) {
    if (one.at("key") != key) continue;
    return one.at("value").begin().value().get<std::string>();
  }
  return "";
}

// In seconds since wall clock time 100.
double SecondsOf(const json& of, const char* key) {
  return absl::ToDoubleSeconds(
      absl::FromUnixNanos(std::stoll(of.at(key).get<std::string>())) - At(100));
}

// "recovery 3-5 ok a".
std::string Text(const json& span) {
  const int status =
      span.contains("status") ? span.at("status").at("code").get<int>() : 0;
  return absl::StrCat(span.at("name").get<std::string>(), " ",
                      SecondsOf(span, "startTimeUnixNano"), "-",
                      SecondsOf(span, "endTimeUnixNano"),
                      status == 1   ? " ok"
                      : status == 2 ? " error"
                                    : "",
                      span.at("name") == "recovery" ? " " : "",
                      AttributeOf(span, "rollcall.node"));
}

struct Step {
  double at;
  std::vector<const char*> lines;
  bool runs;
  const char* expect;
};

constexpr char kForm[] = "job=j event=form generation=2";
constexpr char kRun[] = "job=j event=run generation=2 world_size=3";
constexpr char kAbort[] =
    "job=j event=abort generation=1 code=REASON_CODE_LOST_LEASE reason=\"x\"";
constexpr char kLostA[] = "job=j event=lost node=a reason=\"its lease ended\"";
constexpr char kLostB[] = "job=j event=lost node=b reason=\"its lease ended\"";
constexpr char kFinished[] =
    "job=j event=end exit_code=0 code=REASON_CODE_FINISHED reason=\"all\"";
constexpr char kFailed[] =
    "job=j event=end exit_code=3 code=REASON_CODE_RANK_EXIT reason=\"it "
    "failed\"";

TEST(RunSpans, WhichPeriods) {
  const std::vector<std::vector<Step>> runs = {
      {{1, {kForm}, false, ""},
       {2, {kRun}, true, ""},
       {3, {kLostA, kAbort}, false, ""},
       {4, {kLostB}, false, ""},
       {5, {kRun}, true, "recovery 3-5 ok a, recovery 4-5 ok b"},
       // It had no seat.
       {6, {kLostA}, true, ""},
       {7, {kAbort}, false, ""},
       {8, {kRun}, true, ""},
       {9, {kFinished}, false, "run -10-9 ok"}},
      {{1, {kRun}, true, ""},
       {2, {"event=slow generation=1 step_s=2"}, true, ""},
       {4, {"event=slow_ended generation=1"}, true, "slow 2-4"},
       {5, {"event=slow generation=1 step_s=2"}, true, ""},
       {6, {"event=notice notice=1 kind=NOTICE_KIND_GROW"}, true, ""},
       {8, {kAbort}, false, "slow 5-8, notice 6-8"},
       {9, {kLostA}, false, ""},
       {10, {kFailed}, false, "recovery 9-10 error a, run -10-10 error"}},
      {{1, {}, true, ""},
       {2, {"event=slow_ended generation=1", "text only", ""}, true, ""},
       {3, {"event=notice"}, true, ""},
       {4, {kFinished}, false, "notice 3-4, run -10-4 ok"}}};
  for (const std::vector<Step>& steps : runs) {
    // The run began before this daemon.
    RunSpans spans("j", "r1", At(90), At(0), At(100));
    std::vector<std::string> ids;
    for (const Step& step : steps) {
      std::vector<LogFields> events;
      for (const char* line : step.lines) events.push_back(ParseLogLine(line));
      std::vector<std::string> found;
      for (const std::string& line :
           spans.Take(events, step.runs, At(step.at))) {
        const json span = SpanOf(line);
        found.push_back(Text(span));
        EXPECT_EQ(span.at("traceId").get<std::string>().size(), 32u);
        EXPECT_EQ(span.at("spanId").get<std::string>().size(), 16u);
        EXPECT_EQ(span.contains("parentSpanId"), span.at("name") != "run");
        for (const std::string& id : ids) EXPECT_NE(span.at("spanId"), id);
        ids.push_back(span.at("spanId"));
      }
      EXPECT_EQ(absl::StrJoin(found, ", "), step.expect) << "at " << step.at;
    }
  }
}

TEST(RunSpans, WhatTheSpanOfTheRunSays) {
  // The clock was set back since the run began.
  RunSpans spans("j", "r1", At(500), At(0), At(100));
  EXPECT_TRUE(spans
                  .Take({ParseLogLine(kRun),
                         ParseLogLine(absl::StrCat(
                             "event=fact_changed node=a kind=gpu "
                             "text=",
                             "\"Xid 79\n\xff ", std::string(1000, 'x'), "\"")),
                         ParseLogLine("job=j event=attend node=b"),
                         ParseLogLine("event=reached generation=2 step=64")},
                        true, At(1))
                  .empty());
  const auto lines = spans.Take({ParseLogLine(kFailed)}, false, At(2));
  ASSERT_EQ(lines.size(), 1u);
  const json span = SpanOf(lines[0]);
  EXPECT_EQ(Text(span), "run 0-2 error");
  EXPECT_EQ(span.at("status").at("message"), "it failed");
  EXPECT_EQ(AttributeOf(span, "rollcall.job"), "j");
  EXPECT_EQ(AttributeOf(span, "rollcall.run"), "r1");
  EXPECT_EQ(AttributeOf(span, "rollcall.exit_code"), "3");
  std::vector<std::string> names;
  for (const json& event : span.at("events")) {
    names.push_back(absl::StrCat(event.at("name").get<std::string>(), " ",
                                 SecondsOf(event, "timeUnixNano")));
  }
  // Nodes that come are not events of the run.
  EXPECT_EQ(absl::StrJoin(names, ", "),
            "run 1, fact_changed 1, reached 1, end 2");
  const json& changed = span.at("events").at(1);
  EXPECT_EQ(AttributeOf(changed, "rollcall.node"), "a");
  EXPECT_LE(AttributeOf(changed, "rollcall.text").size(), 300u);
  const json& reached = span.at("events").at(2);
  EXPECT_EQ(reached.at("attributes").at(1).at("value").at("intValue"), "64");
  EXPECT_FALSE(span.contains("droppedEventsCount"));
}

TEST(RunSpans, IsBounded) {
  RunSpans spans("j", "r1", At(100), At(0), At(100));
  for (size_t i = 0; i < RunSpans::kEventsMax; ++i) {
    spans.Take({ParseLogLine(absl::StrCat("event=lost node=n", i))}, false,
               At(1));
  }
  EXPECT_EQ(spans.Take({ParseLogLine(kRun)}, true, At(2)).size(),
            RunSpans::kOpenMax);
  const auto lines = spans.Take({ParseLogLine(kFinished)}, false, At(3));
  ASSERT_EQ(lines.size(), 1u);
  const json span = SpanOf(lines[0]);
  EXPECT_EQ(span.at("events").size(), RunSpans::kEventsMax);
  EXPECT_EQ(span.at("droppedEventsCount"), 2);
  EXPECT_EQ(span.at("events").back().at("name"), "end");
}

}  // namespace
}  // namespace rollcall
