// Logger: writes one line per state change to stderr, as `key=value` entries or
// as a JSON object.
//
// Thread rule: any thread.
#ifndef ROLLCALL_DAEMON_SERVER_LOOP_STATE_LOGGER_H_
#define ROLLCALL_DAEMON_SERVER_LOOP_STATE_LOGGER_H_

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "daemon/core/events.h"

namespace rollcall {

enum class LogFormat { kText, kJson };

// Returns `line` ("event=lost node=a reason=\"its stream broke\"") as one JSON
// object of strings: time, level and LogFields.
std::string JsonLogLine(absl::Time time, Log::Level level,
                        const std::string& line);

class Logger {
 public:
  // Writes lines of level `least` and above.
  explicit Logger(Log::Level least, LogFormat format = LogFormat::kText);
  virtual ~Logger();

  // `line` is made printable and cut to a bound.
  virtual void Write(Log::Level level, const std::string& line);

 private:
  class Sink;
  const LogFormat format_;
  std::unique_ptr<Sink> sink_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_LOOP_STATE_LOGGER_H_
