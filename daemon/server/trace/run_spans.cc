#include "daemon/server/trace/run_spans.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/text/printable.h"
#include "daemon/server/trace/otlp_json.h"
#include "nlohmann/json.hpp"
#include "rollcall/v1/reasons.pb.h"

namespace rollcall {
namespace {

using nlohmann::ordered_json;

constexpr size_t kAttributesMax = 12;
constexpr size_t kAttributeBytesMax = 256;

// Nodes that come and go by themselves would fill the list in a large job.
bool IsEventOfRun(const std::string& name) {
  static constexpr const char* kNames[] = {
      "run",          "adopt",         "abort",   "lost",     "stalled",
      "fact_changed", "quarantined",   "evict",   "isolated", "reunited",
      "fenced",       "resumed_below", "reached", "end",      "setup_failed",
      "node_check",   "checkpoint"};
  return std::any_of(std::begin(kNames), std::end(kNames),
                     [&name](const char* known) { return name == known; });
}

bool IsNumber(const std::string& key) {
  static constexpr const char* kKeys[] = {
      "generation", "step", "was", "saved", "world_size", "rank", "exit_code"};
  return std::any_of(std::begin(kKeys), std::end(kKeys),
                     [&key](const char* known) { return key == known; });
}

ordered_json AttributesOf(const LogFields& fields) {
  ordered_json attributes = ordered_json::array();
  for (const auto& [key, value] : fields) {
    if (key == "job" || key == "event") continue;
    if (attributes.size() == kAttributesMax) break;
    const std::string name =
        absl::StrCat("rollcall.", Printable(key, kAttributeBytesMax));
    int64_t number = 0;
    attributes.push_back(
        IsNumber(key) && absl::SimpleAtoi(value, &number) && number >= 0
            ? OtlpAttribute(name, static_cast<uint64_t>(number))
            : OtlpAttribute(name, Printable(value, kAttributeBytesMax)));
  }
  return attributes;
}

}  // namespace

RunSpans::RunSpans(std::string job, std::string run, absl::Time began,
                   absl::Time now, absl::Time wall_now)
    : job_(std::move(job)),
      run_(std::move(run)),
      run_began_(std::min(began, wall_now)),
      began_(now),
      wall_began_(wall_now) {}

std::vector<std::string> RunSpans::Take(const std::vector<LogFields>& events,
                                        bool runs, absl::Time now) {
  for (const LogFields& fields : events) {
    TakeEvent(FieldOf(fields, "event"), fields, now);
  }
  // A node that was lost and the world runs on: it had no seat.
  if (runs) {
    std::erase_if(open_,
                  [](const Event& open) { return open.name == "recovery"; });
  }
  return std::exchange(lines_, {});
}

void RunSpans::TakeEvent(const std::string& name, const LogFields& fields,
                         absl::Time now) {
  if (IsEventOfRun(name)) {
    events_.push_back({name, now, fields});
    if (events_.size() > kEventsMax) {
      events_.pop_front();
      ++events_dropped_;
    }
  }
  if (name == "lost") Open("recovery", fields, now);
  if (name == "notice") Open("notice", fields, now);
  if (name == "slow") Open("slow", fields, now);
  if (name == "slow_ended") Close("slow", 0, now);
  if (name == "abort" || name == "end") {
    Close("slow", 0, now);
    Close("notice", 0, now);
  }
  if (name == "run" || name == "adopt") Close("recovery", kOtlpOk, now);
  if (name == "end") {
    Close("recovery", kOtlpError, now);
    lines_.push_back(RunLine(fields, now));
  }
}

void RunSpans::Open(const char* name, const LogFields& fields, absl::Time now) {
  if (open_.size() < kOpenMax) open_.push_back({name, now, fields});
}

void RunSpans::Close(const std::string& name, int status, absl::Time now) {
  for (const Event& open : open_) {
    if (open.name != name) continue;
    ordered_json span =
        Span(name, Wall(open.at), Wall(now), open.fields, status);
    span["spanId"] = OtlpSpanId(absl::StrCat(
        "period ", run_, " ", OtlpTime(wall_began_), " ", ++spans_));
    span["parentSpanId"] = OtlpRunSpanId(run_);
    lines_.push_back(OtlpRequest(ordered_json::array({std::move(span)})));
  }
  std::erase_if(open_,
                [&name](const Event& open) { return open.name == name; });
}

ordered_json RunSpans::Span(const std::string& name, absl::Time begin,
                            absl::Time end, const LogFields& fields,
                            int status) const {
  ordered_json attributes = AttributesOf(fields);
  attributes.insert(attributes.begin(), {OtlpAttribute("rollcall.job", job_),
                                         OtlpAttribute("rollcall.run", run_)});
  ordered_json span = {{"traceId", OtlpTraceId(run_)},
                       {"spanId", OtlpRunSpanId(run_)},
                       {"name", name},
                       {"kind", kOtlpInternal},
                       {"startTimeUnixNano", OtlpTime(begin)},
                       {"endTimeUnixNano", OtlpTime(std::max(begin, end))},
                       {"attributes", std::move(attributes)}};
  if (status != 0) span["status"] = {{"code", status}};
  return span;
}

std::string RunSpans::RunLine(const LogFields& end, absl::Time now) const {
  const bool finished =
      FieldOf(end, "code") == v1::ReasonCode_Name(v1::REASON_CODE_FINISHED);
  ordered_json span =
      Span("run", run_began_, Wall(now), end, finished ? kOtlpOk : kOtlpError);
  if (!finished) {
    span["status"]["message"] =
        Printable(FieldOf(end, "reason"), kAttributeBytesMax);
  }
  span["events"] = ordered_json::array();
  for (const Event& event : events_) {
    span["events"].push_back({{"timeUnixNano", OtlpTime(Wall(event.at))},
                              {"name", event.name},
                              {"attributes", AttributesOf(event.fields)}});
  }
  if (events_dropped_ > 0) span["droppedEventsCount"] = events_dropped_;
  return OtlpRequest(ordered_json::array({std::move(span)}));
}

}  // namespace rollcall
