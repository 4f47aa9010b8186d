#include "daemon/server/events/event_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/base/durations.h"
#include "daemon/base/printable.h"
#include "daemon/server/events/log_line.h"
#include "nlohmann/json.hpp"

namespace rollcall {
namespace {

using nlohmann::ordered_json;

std::string Dump(const ordered_json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false,
                   ordered_json::error_handler_t::replace);
}

}  // namespace

EventLog::EventLog(std::string folder) : folder_(std::move(folder)) {
  if (folder_.empty()) return;
  ReadFile(folder_ + kOlderFile);
  ReadFile(folder_ + kFile);
}

void EventLog::ReadFile(const std::string& path) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    // A line may be cut or changed by hand; it is skipped.
    const ordered_json json = ordered_json::parse(line, nullptr, false);
    if (!json.is_object() || line.size() > 2 * kLineBytesMax) continue;
    std::vector<std::pair<std::string, std::string>> fields;
    for (const auto& [key, value] : json.items()) {
      if (value.is_string()) fields.emplace_back(key, value);
    }
    const auto id = json.find("id");
    Event event = {0, absl::InfinitePast(), line};
    if (id == json.end() || !id->is_number_unsigned() ||
        !absl::ParseTime(absl::RFC3339_full, json.value("time", ""), &event.at,
                         nullptr)) {
      continue;
    }
    event.id = id->get<uint64_t>();
    last_id_ = std::max(last_id_, event.id);
    const std::string job = json.value("job", "");
    if (!job.empty()) Keep(job, json.value("run", ""), event, fields);
  }
}

void EventLog::Add(const std::string& job, const std::string& run,
                   Log::Level level, const std::string& line,
                   absl::Time wall_now) {
  auto fields = LogFields(Printable(line, kLineBytesMax));
  // As in the file, so that a daemon that reads it computes the same.
  Event event = {++last_id_, absl::FromUnixMillis(absl::ToUnixMillis(wall_now)),
                 ""};
  ordered_json json = {{"id", event.id},
                       {"time", LogTime(event.at)},
                       {"level", LevelName(level)},
                       {"job", job},
                       {"run", run}};
  for (const auto& [key, value] : fields) {
    if (!json.contains(key)) json[key] = value;
  }
  event.json = Dump(json);
  Write(event.json, event.at);
  Keep(job, run, std::move(event), fields);
}

void EventLog::Keep(
    const std::string& job, const std::string& run, Event event,
    const std::vector<std::pair<std::string, std::string>>& fields) {
  if (!jobs_.contains(job) && jobs_.size() == kJobsMax) {
    jobs_.erase(std::min_element(
        jobs_.begin(), jobs_.end(), [](const auto& a, const auto& b) {
          return a.second.events.back().id < b.second.events.back().id;
        }));
  }
  OfJob& of = jobs_[job];
  if (!run.empty() && of.run != run) {
    of.run = run;
    of.account = RunAccount();
  }
  of.account.Take(fields, event.at);
  of.bytes += event.json.size();
  of.events.push_back(std::move(event));
  while (of.events.size() > kEventsMax || of.bytes > kBytesMax) {
    of.bytes -= of.events.front().json.size();
    of.events.pop_front();
  }
}

v1::EventsResponse EventLog::Events(const v1::EventsRequest& request,
                                    absl::Time wall_now) const {
  v1::EventsResponse answer;
  answer.set_lost(lost_);
  const auto of = jobs_.find(request.job());
  if (of == jobs_.end()) return answer;
  const std::deque<Event>& events = of->second.events;
  const absl::Time since = request.has_within()
                               ? wall_now - FromProto(request.within())
                               : absl::InfinitePast();
  size_t bytes = 0;
  auto at = std::upper_bound(
      events.begin(), events.end(), request.after(),
      [](uint64_t after, const Event& event) { return after < event.id; });
  for (; at != events.end(); ++at) {
    if (at->at < since) continue;
    bytes += at->json.size();
    if (answer.lines_size() > 0 && bytes > kAnswerBytesMax) {
      answer.set_more(true);
      break;
    }
    answer.add_lines(at->json);
    answer.set_last(at->id);
  }
  return answer;
}

std::optional<v1::RunSummary> EventLog::Summary(const std::string& job,
                                                const std::string& run,
                                                absl::Time wall_now) const {
  const auto of = jobs_.find(job);
  if (of == jobs_.end() || of->second.run != run) return std::nullopt;
  return of->second.account.Summary(wall_now);
}

void EventLog::Write(const std::string& json, absl::Time at) {
  if (folder_.empty()) return;
  std::string line = absl::StrCat(json, "\n");
  if (unmentioned_ > 0) {
    const ordered_json missing = {{"id", last_id_},
                                  {"time", LogTime(at)},
                                  {"level", "warning"},
                                  {"event", "events_lost"},
                                  {"count", absl::StrCat(unmentioned_)}};
    line = absl::StrCat(Dump(missing), "\n", line);
  }
  if (Append(line)) {
    unmentioned_ = 0;
  } else {
    ++lost_;
    ++unmentioned_;
  }
}

bool EventLog::Append(const std::string& line) {
  if (file_.open() && file_bytes_ + line.size() > kFileBytesMax) {
    file_.Close();
    std::rename((folder_ + kFile).c_str(), (folder_ + kOlderFile).c_str());
  }
  if (!file_.open()) {
    file_ =
        Fd(open((folder_ + kFile).c_str(),
                O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    struct stat info;
    if (!file_.open() || fstat(file_.get(), &info) != 0) {
      file_.Close();
      return false;
    }
    file_bytes_ = static_cast<size_t>(info.st_size);
  }
  const ssize_t wrote = write(file_.get(), line.data(), line.size());
  if (wrote == static_cast<ssize_t>(line.size())) {
    file_bytes_ += line.size();
    return true;
  }
  // A disk that fills may have room for a part of the line.
  if (wrote > 0 &&
      ftruncate(file_.get(), static_cast<off_t>(file_bytes_)) != 0) {
    file_.Close();
  }
  return false;
}

}  // namespace rollcall
