// The decisions of the HTTP port: who may ask what, the numbers that it shows,
// and what a page may load.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/security/secrets/token.h"
#include "daemon/server/loop/state/snapshots.h"
#include "daemon/server/web/metrics.h"
#include "daemon/server/web/routes.h"
#include "daemon/server/web/status_page.h"

namespace rollcall {
namespace {

constexpr char kToken[] = "Bearer abc.00ff";

struct AccessRow {
  const char* method;
  const char* target;
  const char* host;
  const char* authorization;
  // The HTTP status on a loopback port, and on another port; 0: the request has
  // a route.
  int on_loopback;
  int beyond;
};

TEST(Routes, WhoMayAskWhat) {
  const AccessRow rows[] = {
      {"GET", "/", "localhost:80", "", 0, 0},
      {"HEAD", "/", "localhost", "", 0, 0},
      {"GET", "/healthz", "10.0.0.1:80", "", 0, 0},
      {"GET", "/readyz", "", "", 0, 0},
      {"GET", "/status.json", "127.0.0.1:8080", "", 0, 401},
      {"GET", "/status.json", "127.9.9.9", kToken, 0, 0},
      {"GET", "/metrics", "[::1]:8080", "", 0, 401},
      {"GET", "/metrics", "LocalHost:80", "bearer abc.00ff", 0, 0},
      // An attacker resolves this name to 127.0.0.1.
      {"GET", "/status.json", "evil.example:8080", kToken, 421, 0},
      {"GET", "/metrics", "localhost.evil.example", kToken, 421, 0},
      {"GET", "/metrics", "", kToken, 421, 0},
      // The loop decides on these tokens, and refuses and counts them.
      {"GET", "/metrics", "localhost", "Basic YTpi", 0, 0},
      {"GET", "/metrics", "localhost", "Bearer \xff", 0, 0},
      {"POST", "/status.json", "localhost", kToken, 405, 405},
      {"DELETE", "/", "localhost", "", 405, 405},
      {"get", "/", "localhost", "", 405, 405},
      {"GET", "/favicon.ico", "localhost", "", 404, 404},
      {"GET", "//", "localhost", "", 404, 404},
      {"GET", "/../etc/passwd", "localhost", "", 404, 404},
      {"GET", "", "localhost", "", 404, 404},
      {"GET", "/status.json?job=train", "localhost", kToken, 0, 0},
      {"GET", "/status.json?job=train&pings=1", "localhost", kToken, 0, 0},
      {"GET", "/status.json?", "localhost", kToken, 0, 0},
      {"GET", "/status.json?job=Train", "localhost", kToken, 400, 400},
      {"GET", "/status.json?job=", "localhost", kToken, 400, 400},
      {"GET", "/status.json?job=%2e", "localhost", kToken, 400, 400},
      {"GET", "/status.json?pings=2", "localhost", kToken, 400, 400},
      {"GET", "/status.json?token=abc.00ff", "localhost", kToken, 400, 400},
      {"GET", "/metrics?job=train", "localhost", kToken, 400, 400},
      {"GET", "/events.json", "127.0.0.1:8080", "", 0, 401},
      {"GET", "/events.json", "evil.example", kToken, 421, 0},
      {"GET", "/events.json?job=train&after=17", "localhost", kToken, 0, 0},
      {"GET", "/events.json?after=", "localhost", kToken, 400, 400},
      {"GET", "/events.json?after=-1", "localhost", kToken, 400, 400},
      {"GET", "/events.json?pings=1", "localhost", kToken, 400, 400},
      {"GET", "/events.json?token=abc.00ff", "localhost", kToken, 400, 400},
      {"GET", "/status.json?after=1", "localhost", kToken, 400, 400},
      {"GET", "/?x", "localhost", "", 400, 400},
  };
  for (const AccessRow& row : rows) {
    for (const bool loopback : {true, false}) {
      WebRequest request;
      request.method = row.method;
      request.target = row.target;
      request.host = row.host;
      request.authorization = row.authorization;
      const auto found = RouteOf(request, loopback);
      const WebAnswer* refused = std::get_if<WebAnswer>(&found);
      const int want = loopback ? row.on_loopback : row.beyond;
      EXPECT_EQ(refused == nullptr ? 0 : refused->status, want)
          << row.method << " " << row.target << " of " << row.host
          << (loopback ? " on loopback" : " beyond");
      // The answer repeats nothing that was sent.
      if (refused != nullptr) {
        EXPECT_FALSE(absl::StrContains(*refused->body, "abc")) << row.target;
        EXPECT_FALSE(absl::StrContains(*refused->body, "evil")) << row.host;
      }
    }
  }
}

Route MustFind(const std::string& target, const std::string& authorization,
               bool loopback) {
  WebRequest request;
  request.method = "GET";
  request.target = target;
  request.host = "localhost";
  request.authorization = authorization;
  const auto found = RouteOf(request, loopback);
  EXPECT_TRUE(std::holds_alternative<Route>(found)) << target;
  return std::get<Route>(found);
}

TEST(Routes, WhatARouteSays) {
  const Route jobs = MustFind("/status.json?job=a-1&pings=1", kToken, false);
  EXPECT_EQ(jobs.path, WebPath::kStatus);
  EXPECT_EQ(jobs.job, "a-1");
  EXPECT_TRUE(jobs.pings);
  EXPECT_FALSE(jobs.open);
  EXPECT_EQ(TokenText(jobs.token), "abc.00ff");
  const Route events = MustFind("/events.json?job=b&after=17", kToken, false);
  EXPECT_EQ(events.path, WebPath::kEvents);
  EXPECT_EQ(events.job, "b");
  EXPECT_EQ(events.after, 17u);
  EXPECT_FALSE(events.open);
  EXPECT_TRUE(MustFind("/metrics", "", true).open);
  // A header without a valid token gives an empty token. The loop refuses it.
  EXPECT_TRUE(MustFind("/metrics", "Basic YTpi", false).token.id().empty());
  EXPECT_FALSE(MustFind("/metrics", "Basic YTpi", false).open);
  EXPECT_TRUE(MustFind("/healthz", "", false).open);
}

TEST(Routes, StatusOfAnError) {
  const struct {
    absl::Status status;
    int code;
  } rows[] = {
      {absl::UnauthenticatedError("x"), 401},
      {absl::PermissionDeniedError("x"), 403},
      {absl::NotFoundError("x"), 404},
      {absl::InvalidArgumentError("x"), 400},
      {absl::ResourceExhaustedError("x"), 429},
      {absl::UnavailableError("x"), 503},
      {absl::InternalError("x"), 503},
  };
  for (const auto& row : rows) {
    const WebAnswer answer = ErrorAnswer(row.status);
    EXPECT_EQ(answer.status, row.code) << row.status;
    EXPECT_EQ(*answer.body, "x\n");
  }
}

SharedStatus JobOf(const std::string& name) {
  v1::JobStatus job;
  job.set_job(name);
  job.set_state(v1::JOB_STATE_RUNNING);
  job.set_generation(7);
  job.set_world_size(16);
  job.set_nodes_min(2);
  job.set_nodes_max(4);
  job.set_step(123456789);
  job.set_restarts_charged(1);
  job.mutable_waited()->set_nanos(500'000'000);
  job.add_nodes()->set_state(v1::NODE_STATE_RUNNING);
  job.add_nodes()->set_state(v1::NODE_STATE_RUNNING);
  job.add_nodes()->set_state(v1::NODE_STATE_SPARE);
  v1::JobHistory& history = *job.mutable_history();
  (*history.mutable_formed())["first"] = 1;
  (*history.mutable_formed())["lost_lease"] = 2;
  history.set_commits(3);
  history.mutable_commit_time_total()->set_nanos(250'000'000);
  return std::make_shared<const v1::JobStatus>(std::move(job));
}

Snapshot SnapshotOf(std::vector<SharedStatus> jobs) {
  Snapshot snapshot;
  snapshot.jobs = std::move(jobs);
  v1::JobStatus counters;
  (*counters.mutable_refused())["token_unknown"] = 5;
  counters.mutable_unauthenticated()->set_silent(6);
  snapshot.counters =
      std::make_shared<const v1::JobStatus>(std::move(counters));
  return snapshot;
}

TEST(Metrics, SaysTheNumbers) {
  const std::string text = MetricsText(SnapshotOf({JobOf("a"), JobOf("b")}));
  for (const char* line : {
           "# TYPE rollcall_job_state gauge",
           "rollcall_job_state{job=\"a\",state=\"running\"} 1",
           "rollcall_job_state{job=\"a\",state=\"failed\"} 0",
           "rollcall_job_nodes{job=\"b\",state=\"running\"} 2",
           "rollcall_job_nodes{job=\"b\",state=\"spare\"} 1",
           "rollcall_job_nodes{job=\"b\",state=\"lost\"} 0",
           "rollcall_job_generation{job=\"a\"} 7",
           "rollcall_job_world_size{job=\"a\"} 16",
           "rollcall_job_step{job=\"a\"} 123456789",
           "rollcall_job_waited_seconds{job=\"a\"} 0.5",
           "rollcall_job_restarts_charged{job=\"a\"} 1",
           "# TYPE rollcall_job_generations_total counter",
           "rollcall_job_generations_total{job=\"a\",reason=\"lost_lease\"} 2",
           "# TYPE rollcall_job_formation_seconds summary",
           "rollcall_job_formation_seconds_sum{job=\"a\"} 0.25",
           "rollcall_job_formation_seconds_count{job=\"a\"} 3",
           "rollcall_refused_total{reason=\"token_unknown\"} 5",
           "rollcall_unauthenticated_connections_total{how=\"silent\"} 6",
       }) {
    EXPECT_TRUE(absl::StrContains(text, absl::StrCat("\n", line, "\n")) ||
                absl::StartsWith(text, absl::StrCat(line, "\n")))
        << line;
  }
  // A job without a loss has no sample, and each family occurs once.
  EXPECT_FALSE(absl::StrContains(text, "rollcall_job_loss{"));
  std::map<std::string, int> families;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::StartsWith(line, "# TYPE ")) ++families[std::string(line)];
    if (!line.empty() && line[0] != '#') {
      EXPECT_TRUE(absl::StartsWith(line, "rollcall_")) << line;
    }
  }
  for (const auto& [line, count] : families) EXPECT_EQ(count, 1) << line;
}

TEST(Metrics, WhatATrainingMeasures) {
  v1::JobStatus job = *JobOf("a");
  v1::Pace& pace = *job.mutable_pace();
  pace.set_loss(2);
  const struct {
    std::function<void()> change;
    const char* name;
    const char* line;
  } kRows[] = {
      {[&] { pace.set_gradient_norm(0); }, "rollcall_job_gradient_norm",
       "{job=\"a\"} 0\n"},
      {[&] { pace.set_flops_utilization(0.5); },
       "rollcall_job_flops_utilization", "{job=\"a\"} 0.5\n"},
      {[&] { pace.set_validation_loss(1.5); }, "rollcall_job_validation_loss",
       "{job=\"a\"} 1.5\n"},
      {[&] { pace.set_memory_bytes(4096); }, "rollcall_job_memory_bytes",
       "{job=\"a\"} 4096\n"},
  };
  const auto text = [&] {
    return MetricsText(
        SnapshotOf({std::make_shared<const v1::JobStatus>(job)}));
  };
  for (const auto& row : kRows) {
    EXPECT_FALSE(absl::StrContains(text(), absl::StrCat(row.name, "{")));
    row.change();
    EXPECT_TRUE(absl::StrContains(text(), absl::StrCat(row.name, row.line)))
        << text();
  }
}

TEST(Metrics, EscapesAndSpecialNumbers) {
  const struct {
    const char* value;
    const char* escaped;
  } rows[] = {
      {"plain", "plain"},
      {"a\"b", "a\\\"b"},
      {"a\\b", "a\\\\b"},
      {"a\nb", "a\\nb"},
      {"\"} 1\nevil{x=\"", "\\\"} 1\\nevil{x=\\\""},
  };
  for (const auto& row : rows) EXPECT_EQ(EscapedLabel(row.value), row.escaped);
  v1::JobStatus job = *JobOf("a");
  job.mutable_pace()->set_loss(std::numeric_limits<double>::quiet_NaN());
  job.mutable_pace()->set_tokens_per_second(
      std::numeric_limits<double>::infinity());
  const std::string text = MetricsText(
      SnapshotOf({std::make_shared<const v1::JobStatus>(std::move(job))}));
  EXPECT_TRUE(absl::StrContains(text, "rollcall_job_loss{job=\"a\"} NaN\n"));
  EXPECT_TRUE(absl::StrContains(
      text, "rollcall_job_tokens_per_second{job=\"a\"} +Inf\n"));
}

TEST(Snapshots, OneIsMadeForManyWhoAsk) {
  int made = 0;
  Snapshots snapshots([&made](const std::string& job, bool) {
    ++made;
    v1::JobStatus status;
    status.set_job(job);
    return absl::StatusOr<v1::JobStatus>(status);
  });
  const absl::Time now = absl::UnixEpoch();
  const struct {
    absl::Duration at;
    const char* job;
    bool pings;
    int made;
  } rows[] = {
      {absl::Milliseconds(0), "a", false, 1},
      {absl::Milliseconds(1), "a", false, 1},
      {absl::Milliseconds(2), "b", false, 2},
      {absl::Milliseconds(3), "a", true, 3},
      {absl::Milliseconds(199), "a", false, 3},
      {absl::Milliseconds(200), "a", false, 4},
      {absl::Milliseconds(201), "b", false, 4},
      {absl::Milliseconds(202), "b", false, 5},
  };
  for (const auto& row : rows) {
    const auto status = snapshots.Get(row.job, row.pings, now + row.at);
    ASSERT_TRUE(status.ok());
    EXPECT_EQ((*status)->job(), row.job);
    EXPECT_EQ(made, row.made) << row.at;
  }
}

// Only the page's own script and style may run. So a name that became markup
// would have no effect.
TEST(StatusPage, LoadsNothingElse) {
  const std::string& page = *StatusPage();
  for (const char* never :
       {"innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(",
        "http://", "https://", " onclick=", " style=", "localStorage"}) {
    EXPECT_FALSE(absl::StrContains(page, never)) << never;
  }
  const std::string& policy = StatusPagePolicy();
  EXPECT_TRUE(absl::StartsWith(policy, "default-src 'none'; "));
  EXPECT_FALSE(absl::StrContains(policy, "unsafe"));
}

}  // namespace
}  // namespace rollcall
