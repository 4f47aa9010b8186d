// Log lines: what a line of the log consists of.
//
// Pure; any thread.
#ifndef ROLLCALL_DAEMON_SERVER_EVENTS_LOG_LINE_H_
#define ROLLCALL_DAEMON_SERVER_EVENTS_LOG_LINE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/core/events.h"

namespace rollcall {

// The keys and values of a line ("event=lost node=a"), each key once, in their
// order.
using LogFields = std::vector<std::pair<std::string, std::string>>;

// Words that are not `key=value` are joined under the key `text`, at the end.
LogFields ParseLogLine(const std::string& line);

// The value of `key`; empty: there is none.
const std::string& FieldOf(const LogFields& fields, absl::string_view key);

// The time in UTC, with milliseconds.
std::string LogTime(absl::Time time);
const char* LevelName(Log::Level level);

}  // namespace rollcall

#endif  // ROLLCALL_DAEMON_SERVER_EVENTS_LOG_LINE_H_
