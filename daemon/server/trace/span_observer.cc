#include "daemon/server/trace/span_observer.h"

#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "daemon/base/durations.h"
#include "daemon/core/status_words.h"
#include "daemon/server/events/log_line.h"

namespace rollcall {

SpanObserver::SpanObserver(const std::string& folder, const EventLog& events)
    : events_(events),
      file_(folder + kFile, folder + kOlderFile, kFileBytesMax) {}

void SpanObserver::Write(const std::string& line) {
  file_.Append(absl::StrCat(line, "\n"));
}

void SpanObserver::TookUp(const Job& job, const std::vector<Action>& actions,
                          absl::Time now) {
  See(job, actions, now);
}

void SpanObserver::AfterStep(const Job& job, const Event&, absl::Time now,
                             const std::vector<Action>& actions) {
  See(job, actions, now);
}

// The run's first event may be one of an earlier life of the daemon.
RunSpans SpanObserver::Begin(const Job& job, absl::Time now) const {
  const absl::Time wall_now = absl::Now();
  const auto summary = events_.Summary(job.name(), job.run(), wall_now);
  return {job.name(), job.run(),
          summary.has_value() && summary->has_began()
              ? FromProto(summary->began())
              : wall_now,
          now, wall_now};
}

void SpanObserver::See(const Job& job, const std::vector<Action>& actions,
                       absl::Time now) {
  std::vector<LogFields> events;
  for (const Action& action : actions) {
    const Log* const log = std::get_if<Log>(&action);
    if (log != nullptr) events.push_back(ParseLogLine(log->text));
  }
  OfJob& of = jobs_[job.name()];
  const bool over = job.end().has_value();
  if (of.run.has_value() && of.run->run() != job.run()) of.run.reset();
  // After the end of a run its job still has Steps, without events.
  if (!of.run.has_value() && !(over && events.empty())) {
    of.run.emplace(Begin(job, now));
  }
  const JobReport report = job.Report();
  const auto formation = of.formations.Note(
      {job.state(), job.generation(), report.IsProbing()}, now, absl::Now());
  if (formation.has_value()) {
    Write(OtlpLine(*formation, {job.name(), job.run(), job.generation(),
                                report.world_nodes(), report.world_size(),
                                Word(job.last_reform().code()),
                                formation->formed ? job.last_reform().reason()
                                : job.end().has_value() ? job.end()->reason()
                                                        : ""}));
  }
  if (of.run.has_value()) {
    for (const std::string& line :
         of.run->Take(events, job.state() == v1::JOB_STATE_RUNNING, now)) {
      Write(line);
    }
  }
  if (over) jobs_.erase(job.name());
}

}  // namespace rollcall
