// Log lines: what a line of the log consists of.
//
// Pure; any thread.
#ifndef ROLLCALL_DAEMON_SERVER_EVENTS_LOG_LINE_H_
#define ROLLCALL_DAEMON_SERVER_EVENTS_LOG_LINE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "daemon/core/events.h"

namespace rollcall {

// Returns the keys and values of `line` ("event=lost node=a"), each key once,
// in their order. Words that are not `key=value` are joined under the key
// `text`, at the end.
std::vector<std::pair<std::string, std::string>> LogFields(
    const std::string& line);

// The time in UTC, with milliseconds.
std::string LogTime(absl::Time time);
const char* LevelName(Log::Level level);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_EVENTS_LOG_LINE_H_
