#include "daemon/server/events/event_log.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "daemon/base/durations.h"
#include "daemon/base/text/printable.h"
#include "daemon/core/limits.h"
#include "daemon/server/events/log_line.h"
#include "nlohmann/json.hpp"

namespace rollcall {
namespace {

using nlohmann::ordered_json;

// The most bytes of each of the two lists of EventLog::Newest. Usual events are
// far shorter than the longest ones.
constexpr size_t kNewestBytesMax = 48 << 10;

std::string Dump(const ordered_json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false,
                   ordered_json::error_handler_t::replace);
}

std::string StringIn(const ordered_json& json, const char* key) {
  const auto at = json.find(key);
  return at != json.end() && at->is_string() ? at->get<std::string>() : "";
}

// Whether the job itself did this, so that it does not happen for each node.
bool IsOwn(const std::string& event) {
  static constexpr const char* kOwn[] = {
      "start",      "form",      "run",        "adopt",    "abort",
      "end",        "slow",      "isolated",   "reunited", "resumed_below",
      "notice",     "fenced",    "slow_ended", "reached",  "node_check_begun",
      "node_check", "checkpoint"};
  return std::any_of(std::begin(kOwn), std::end(kOwn),
                     [&event](const char* own) { return event == own; });
}

}  // namespace

void EventLog::Latest::Add(Event event, size_t count_max, size_t bytes_max) {
  bytes += event.json.size();
  events.push_back(std::move(event));
  while (events.size() > count_max || bytes > bytes_max) {
    bytes -= events.front().json.size();
    events.pop_front();
  }
}

EventLog::EventLog(std::string folder)
    : folder_(std::move(folder)),
      file_(folder_ + kFile, folder_ + kOlderFile, Limits::event_file_bytes_max,
            [this] { return FirstLines(); }) {
  if (folder_.empty()) return;
  ReadFile(folder_ + kOlderFile);
  ReadFile(folder_ + kFile);
}

void EventLog::Begin() {
  if (folder_.empty()) jobs_.clear();
}

// --- Reading -----------------------------------------------------------------

void EventLog::ReadFile(const std::string& path) {
  std::ifstream file(path);
  file.seekg(0, std::ios::end);
  const std::streamoff size = file.tellg();
  if (!file) return;
  // Only a file that another program has written is longer.
  file.seekg(std::max<std::streamoff>(
      size - static_cast<std::streamoff>(2 * Limits::event_file_bytes_max), 0));
  for (std::string line; std::getline(file, line);) ReadLine(line);
  // A job counts as ended until it logs again.
  for (auto& [job, of] : jobs_) of.over = true;
}

// A line may be cut, or changed by hand; then it is skipped.
void EventLog::ReadLine(const std::string& line) {
  if (line.size() > 4 * Limits::event_bytes_max) return;
  const ordered_json json = ordered_json::parse(line, nullptr, false);
  if (!json.is_object()) return;
  const auto id = json.find("id");
  Event event = {0, absl::InfinitePast(), line};
  if (id == json.end() || !id->is_number_unsigned() ||
      !absl::ParseTime(absl::RFC3339_full, StringIn(json, "time"), &event.at,
                       nullptr) ||
      event.at == absl::InfinitePast() || event.at == absl::InfiniteFuture()) {
    return;
  }
  event.id = id->get<uint64_t>();
  // The status page computes with doubles, which count to 2^53. A file that was
  // changed by hand must leave ids for later events.
  if (event.id > (uint64_t{1} << 52)) return;
  last_id_ = std::max(last_id_, event.id);
  LogFields fields;
  for (const auto& [key, value] : json.items()) {
    if (value.is_string()) fields.emplace_back(key, value.get<std::string>());
  }
  const std::string job = FieldOf(fields, "job");
  if (!job.empty()) Keep(job, FieldOf(fields, "run"), std::move(event), fields);
}

// --- Adding ------------------------------------------------------------------

void EventLog::Add(const std::string& job, const std::string& run,
                   Log::Level level, const std::string& line,
                   absl::Time wall_now) {
  const LogFields fields =
      ParseLogLine(Printable(line, Limits::event_bytes_max));
  // As in the file, so that a daemon that reads it computes the same.
  const absl::Time at = absl::FromUnixMillis(absl::ToUnixMillis(wall_now));
  if (unmentioned_ > 0) ++last_id_;  // The id of the line that mentions them.
  ordered_json json = {{"id", ++last_id_},
                       {"time", LogTime(at)},
                       {"level", LevelName(level)},
                       {"job", job},
                       {"run", run}};
  for (const auto& [key, value] : fields) {
    if (!json.contains(key)) json[key] = value;
  }
  Event event = {last_id_, at, Dump(json)};
  Write(event.json, at);
  Keep(job, run, std::move(event), fields);
}

EventLog::OfJob& EventLog::Find(const std::string& job) {
  const auto known = jobs_.find(job);
  if (known != jobs_.end()) return known->second;
  if (jobs_.size() >= Limits::event_jobs_max) {
    // A job that is over, and of these the one that has been quiet for longest.
    jobs_.erase(std::min_element(
        jobs_.begin(), jobs_.end(), [](const auto& a, const auto& b) {
          return std::make_pair(!a.second.over, a.second.last_id) <
                 std::make_pair(!b.second.over, b.second.last_id);
        }));
  }
  return jobs_[job];
}

void EventLog::Keep(const std::string& job, const std::string& run, Event event,
                    const LogFields& fields) {
  OfJob& of = Find(job);
  of.over = false;
  of.last_id = std::max(of.last_id, event.id);
  if (!run.empty() && of.run != run) {
    of.run = run;
    of.account = RunAccount();
  }
  if (!IsOwn(FieldOf(fields, "event"))) {
    return of.of_nodes.Add(std::move(event), Limits::events_of_nodes_max,
                           Limits::events_of_nodes_bytes_max);
  }
  // A file begins with events that the older one has as well.
  if (!of.own.events.empty() && event.id <= of.own.events.back().id) return;
  of.account.Take(fields, event.at);
  of.steps.Take(run, fields);
  of.own.Add(std::move(event), Limits::events_of_job_max,
             Limits::events_of_job_bytes_max);
}

void EventLog::Forget(const std::string& job) {
  const auto of = jobs_.find(job);
  if (of != jobs_.end()) of->second.over = true;
}

// --- Answers -----------------------------------------------------------------

v1::EventsResponse EventLog::Events(const v1::EventsRequest& request,
                                    absl::Time wall_now) const {
  v1::EventsResponse answer;
  answer.set_lost(lost_);
  const auto of = jobs_.find(request.job());
  if (of == jobs_.end()) return answer;
  std::vector<const Event*> events;
  for (const Latest* latest : {&of->second.own, &of->second.of_nodes}) {
    for (const Event& event : latest->events) events.push_back(&event);
  }
  std::sort(events.begin(), events.end(),
            [](const Event* a, const Event* b) { return a->id < b->id; });
  const absl::Time since = request.has_within()
                               ? wall_now - FromProto(request.within())
                               : absl::InfinitePast();
  size_t bytes = 0;
  for (const Event* event : events) {
    if (event->id <= request.after() || event->at < since) continue;
    bytes += event->json.size();
    if (answer.lines_size() > 0 && bytes > Limits::event_answer_bytes_max) {
      answer.set_more(true);
      break;
    }
    answer.add_lines(event->json);
    answer.set_last(event->id);
  }
  return answer;
}

v1::EventsResponse EventLog::Newest(const std::string& job,
                                    uint64_t after) const {
  v1::EventsResponse answer;
  answer.set_lost(lost_);
  answer.set_last(LastId(job));
  const auto of = jobs_.find(job);
  if (of == jobs_.end()) return answer;
  std::vector<const Event*> events;
  for (const Latest* latest : {&of->second.own, &of->second.of_nodes}) {
    size_t count = 0;
    size_t bytes = 0;
    for (auto at = latest->events.rbegin();
         at != latest->events.rend() && at->id > after; ++at) {
      bytes += at->json.size();
      if (++count > kNewestMax || bytes > kNewestBytesMax) {
        answer.set_more(true);
        break;
      }
      events.push_back(&*at);
    }
  }
  std::sort(events.begin(), events.end(),
            [](const Event* a, const Event* b) { return a->id < b->id; });
  for (const Event* event : events) answer.add_lines(event->json);
  return answer;
}

uint64_t EventLog::LastId(const std::string& job) const {
  const auto of = jobs_.find(job);
  return of == jobs_.end() ? 0 : of->second.last_id;
}

std::optional<v1::RunSummary> EventLog::Summary(const std::string& job,
                                                const std::string& run,
                                                absl::Time wall_now) const {
  const auto of = jobs_.find(job);
  if (of == jobs_.end() || of->second.run != run) return std::nullopt;
  v1::RunSummary summary = of->second.account.Summary(wall_now);
  summary.set_events_lost(lost_);
  return summary;
}

LastStep EventLog::LastStepOf(const std::string& job) const {
  const auto of = jobs_.find(job);
  return of == jobs_.end() ? LastStep() : of->second.steps.last();
}

// --- Writing -----------------------------------------------------------------

void EventLog::Write(const std::string& json, absl::Time at) {
  if (folder_.empty()) return;
  std::string line = absl::StrCat(json, "\n");
  if (unmentioned_ > 0) {
    const ordered_json missing = {{"id", last_id_ - 1},
                                  {"time", LogTime(at)},
                                  {"level", "warning"},
                                  {"event", "events_lost"},
                                  {"count", absl::StrCat(unmentioned_)}};
    line = absl::StrCat(Dump(missing), "\n", line);
  }
  if (file_.Append(line)) {
    unmentioned_ = 0;
  } else {
    ++lost_;
    ++unmentioned_;
  }
}

std::string EventLog::FirstLines() const {
  std::string text;
  for (const auto& [job, of] : jobs_) {
    if (of.over) continue;
    std::string lines;
    for (auto at = of.own.events.rbegin(); at != of.own.events.rend(); ++at) {
      if (lines.size() + at->json.size() > Limits::event_carried_bytes_max) {
        break;
      }
      lines = absl::StrCat(at->json, "\n", lines);
    }
    text += lines;
  }
  return text;
}

}  // namespace rollcall
