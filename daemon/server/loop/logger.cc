#include "daemon/server/loop/logger.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include "daemon/base/printable.h"

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

class Logger::Sink {
 public:
  explicit Sink(Log::Level least)
      : logger_("rollcall", std::make_shared<spdlog::sinks::stderr_sink_mt>()) {
    logger_.set_pattern("time=%Y-%m-%dT%H:%M:%S.%eZ level=%l %v",
                        spdlog::pattern_time_type::utc);
    logger_.set_level(LevelOf(least));
    logger_.flush_on(spdlog::level::trace);
    // A failure to write the log ends nothing.
    logger_.set_error_handler([](const std::string&) {});
  }

  void Write(Log::Level level, const std::string& line) {
    logger_.log(LevelOf(level), spdlog::string_view_t(line));
  }

 private:
  spdlog::logger logger_;
};

Logger::Logger(Log::Level least) : sink_(std::make_unique<Sink>(least)) {}
Logger::~Logger() = default;

void Logger::Write(Log::Level level, const std::string& line) {
  sink_->Write(level, Printable(line, kLineBytesMax));
}

}  // namespace rollcall
