#include "daemon/server/web/web_site.h"

#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/codec/job_json.h"
#include "daemon/server/web/metrics.h"
#include "daemon/server/web/status_page.h"
#include "nlohmann/json.hpp"

namespace rollcall {
namespace {

// With it the page asks for events only if there are new ones.
constexpr char kLastEventHeader[] = "Rollcall-Last-Event";
constexpr char kBusy[] = "the daemon has too many requests; try again";

// The work for an answer that is ready already.
HttpServer::Work Done(WebAnswer answer) {
  return [answer = std::move(answer)] { return answer; };
}

WebAnswer PageAnswer() {
  WebAnswer answer;
  answer.content_type = "text/html; charset=utf-8";
  answer.body = StatusPage();
  answer.headers.emplace_back("Content-Security-Policy", StatusPagePolicy());
  answer.headers.emplace_back("X-Frame-Options", "DENY");
  return answer;
}

// A list of several jobs with a few fields of each. A client gets the full
// status of a job by its name.
std::string ListText(const std::vector<SharedStatus>& jobs) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const SharedStatus& job : jobs) {
    const nlohmann::ordered_json all = StatusJson(*job);
    nlohmann::ordered_json one;
    for (const char* field :
         {"job", "run", "state", "generation", "world_size", "nodes_min",
          "nodes_max", "waited_s", "step", "steps"}) {
      one[field] = all[field];
    }
    list.push_back(std::move(one));
  }
  return OneLine({{"jobs", std::move(list)}});
}

// Each line is an object of JSON already.
WebAnswer EventsAnswer(const v1::EventsResponse& events) {
  WebAnswer answer;
  answer.content_type = "application/json; charset=utf-8";
  answer.body = std::make_shared<const std::string>(absl::StrCat(
      "{\"last\":", events.last(), ",\"more\":",
      events.more() ? "true" : "false", ",\"lost\":", events.lost(),
      ",\"events\":[", absl::StrJoin(events.lines(), ","), "]}\n"));
  return answer;
}

}  // namespace

void WebSite::Answer(const WebRequest& request, HttpServer::Reply reply) {
  std::variant<Route, WebAnswer> found = RouteOf(request, loopback_);
  if (WebAnswer* refusal = std::get_if<WebAnswer>(&found)) {
    return reply(Done(std::move(*refusal)));
  }
  const Route& route = std::get<Route>(found);
  switch (route.path) {
    case WebPath::kPage:
      return reply(Done(PageAnswer()));
    case WebPath::kHealth:
      return AskHealth(/*ready=*/false, std::move(reply));
    case WebPath::kReady:
      return AskHealth(/*ready=*/true, std::move(reply));
    case WebPath::kEvents:
      return AskEvents(route, request.address, std::move(reply));
    case WebPath::kStatus:
    case WebPath::kMetrics:
      return AskJobs(route, request.address, std::move(reply));
  }
}

// /healthz is OK also for a daemon that does not lead or whose journal is
// broken, because a restart would not help it.
void WebSite::AskHealth(bool ready, HttpServer::Reply reply) {
  HealthAsked asked;
  asked.reply = [ready, reply](const absl::Status& status) {
    if (ready && !status.ok()) return reply(Done(ErrorAnswer(status)));
    reply(Done(TextAnswer(200, ready ? "ready" : "ok")));
  };
  if (!loop_.Post(std::move(asked))) reply(Done(TextAnswer(503, kBusy)));
}

void WebSite::AskEvents(const Route& route, const std::string& address,
                        HttpServer::Reply reply) {
  EventsAsked asked;
  asked.caller.token = route.token;
  asked.caller.address = address;
  asked.request.set_job(route.job);
  asked.request.set_after(route.after);
  asked.newest = true;
  asked.open = route.open;
  asked.reply = [reply](const absl::StatusOr<v1::EventsResponse>& events) {
    if (!events.ok()) return reply(Done(ErrorAnswer(events.status())));
    reply([events = *events] { return EventsAnswer(events); });
  };
  if (!loop_.Post(std::move(asked))) reply(Done(TextAnswer(503, kBusy)));
}

void WebSite::AskJobs(const Route& route, const std::string& address,
                      HttpServer::Reply reply) {
  SnapshotAsked asked;
  asked.caller.token = route.token;
  asked.caller.address = address;
  asked.request.set_job(route.job);
  asked.request.set_pings(route.pings);
  asked.all = route.path == WebPath::kMetrics;
  asked.open = route.open;
  asked.reply = [this, reply,
                 path = route.path](const absl::StatusOr<Snapshot>& snapshot) {
    if (!snapshot.ok()) return reply(Done(ErrorAnswer(snapshot.status())));
    // Runs on the server's thread, so the server exists, and so does this.
    reply(
        [this, path, snapshot = *snapshot] { return Encode(path, snapshot); });
  };
  if (!loop_.Post(std::move(asked))) reply(Done(TextAnswer(503, kBusy)));
}

WebAnswer WebSite::Encode(WebPath path, const Snapshot& snapshot) {
  const bool metrics = path == WebPath::kMetrics;
  Encoded& last = metrics ? metrics_ : status_;
  if (last.body == nullptr || last.jobs != snapshot.jobs ||
      last.single != snapshot.single || snapshot.jobs.empty()) {
    std::string text = metrics ? MetricsText(snapshot)
                       : snapshot.single
                           ? OneLine(StatusJson(*snapshot.jobs.front()))
                           : ListText(snapshot.jobs);
    if (!metrics) text.push_back('\n');
    last = {snapshot.jobs, snapshot.single,
            std::make_shared<const std::string>(std::move(text))};
  }
  WebAnswer answer;
  answer.content_type = metrics ? "text/plain; version=0.0.4; charset=utf-8"
                                : "application/json; charset=utf-8";
  answer.body = last.body;
  if (!metrics && snapshot.single) {
    answer.headers.emplace_back(kLastEventHeader,
                                absl::StrCat(snapshot.last_event));
  }
  return answer;
}

}  // namespace rollcall
