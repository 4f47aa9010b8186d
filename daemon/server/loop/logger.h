// Logger: writes one `key=value` line per state change to stderr.
//
// Thread rule: any thread.
#ifndef ROLLCALL_DAEMON_SERVER_LOOP_LOGGER_H_
#define ROLLCALL_DAEMON_SERVER_LOOP_LOGGER_H_

#include <memory>
#include <string>

#include "daemon/core/events.h"

namespace rollcall {

class Logger {
 public:
  // Writes lines of level `least` and above.
  explicit Logger(Log::Level least);
  virtual ~Logger();

  // `line` is made printable and cut to a bound.
  virtual void Write(Log::Level level, const std::string& line);

 private:
  class Sink;
  std::unique_ptr<Sink> sink_;
};

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_LOOP_LOGGER_H_
