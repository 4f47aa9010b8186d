#include "daemon/server/loop/state/logger.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "daemon/base/text/printable.h"
#include "daemon/server/events/log_line.h"
#include "nlohmann/json.hpp"

namespace rollcall {
namespace {

constexpr size_t kLineBytesMax = 8 << 10;

spdlog::level::level_enum LevelOf(Log::Level level) {
  switch (level) {
    case Log::Level::kInfo:
      return spdlog::level::info;
    case Log::Level::kWarning:
      return spdlog::level::warn;
    case Log::Level::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

}  // namespace

std::string JsonLogLine(absl::Time time, Log::Level level,
                        const std::string& line) {
  nlohmann::ordered_json json = {{"time", LogTime(time)},
                                 {"level", LevelName(level)}};
  for (auto& [key, value] : ParseLogLine(line)) {
    if (!json.contains(key)) json[key] = value;
  }
  return json.dump(-1, ' ', /*ensure_ascii=*/false,
                   nlohmann::ordered_json::error_handler_t::replace);
}

class Logger::Sink {
 public:
  Sink(Log::Level least, LogFormat format)
      : logger_("rollcall", std::make_shared<spdlog::sinks::stderr_sink_mt>()) {
    logger_.set_pattern(format == LogFormat::kJson
                            ? "%v"
                            : "time=%Y-%m-%dT%H:%M:%S.%eZ level=%l %v",
                        spdlog::pattern_time_type::utc);
    logger_.set_level(LevelOf(least));
    logger_.flush_on(spdlog::level::trace);
    // A failure to write the log is ignored.
    logger_.set_error_handler([](const std::string&) {});
  }

  void Write(Log::Level level, const std::string& line) {
    logger_.log(LevelOf(level), spdlog::string_view_t(line));
  }

 private:
  spdlog::logger logger_;
};

Logger::Logger(Log::Level least, LogFormat format)
    : format_(format), sink_(std::make_unique<Sink>(least, format)) {}
Logger::~Logger() = default;

void Logger::Write(Log::Level level, const std::string& line) {
  const std::string printable = Printable(line, kLineBytesMax);
  sink_->Write(level, format_ == LogFormat::kJson
                          ? JsonLogLine(absl::Now(), level, printable)
                          : printable);
}

}  // namespace rollcall
