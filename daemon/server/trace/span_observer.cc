#include "daemon/server/trace/span_observer.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <sys/stat.h>

#include <cstdio>

#include "absl/time/clock.h"
#include "daemon/core/job/job_report.h"
#include "daemon/core/status_words.h"

namespace rollcall {

class SpanObserver::File {
 public:
  explicit File(const std::string& path) {
    spdlog::file_event_handlers handlers;
    // Only the owner may read the state folder's files.
    handlers.after_open = [](const std::string&, std::FILE* file) {
      fchmod(fileno(file), 0600);
    };
    try {
      logger_ = std::make_unique<spdlog::logger>(
          "spans", std::make_shared<spdlog::sinks::rotating_file_sink_st>(
                       path, kFileBytesMax, 1, false, handlers));
    } catch (const spdlog::spdlog_ex&) {
      return;
    }
    logger_->set_pattern("%v");
    logger_->flush_on(spdlog::level::trace);
    logger_->set_error_handler([](const std::string&) {});
  }

  void Write(const std::string& line) {
    if (logger_ != nullptr) logger_->info(spdlog::string_view_t(line));
  }

 private:
  std::unique_ptr<spdlog::logger> logger_;
};

SpanObserver::SpanObserver(const std::string& path)
    : file_(std::make_unique<File>(path)) {}
SpanObserver::~SpanObserver() = default;

void SpanObserver::TookUp(const Job& job, const std::vector<Action>&,
                          absl::Time now) {
  See(job, now);
}

void SpanObserver::AfterStep(const Job& job, const Event&, absl::Time now,
                             const std::vector<Action>&) {
  See(job, now);
}

void SpanObserver::See(const Job& job, absl::Time now) {
  const JobReport report(job);
  const auto formation = jobs_[job.name()].Note(
      {job.state(), job.generation(), report.IsProbing()}, now, absl::Now());
  if (formation.has_value()) {
    file_->Write(
        OtlpLine(*formation,
                 {job.name(), job.run(), job.generation(), report.world_nodes(),
                  report.world_size(), Word(job.last_reform().code()),
                  formation->formed       ? job.last_reform().reason()
                  : job.end().has_value() ? job.end()->reason()
                                          : ""}));
  }
  if (job.end().has_value()) jobs_.erase(job.name());
}

}  // namespace rollcall
