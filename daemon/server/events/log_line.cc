#include "daemon/server/events/log_line.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace rollcall {
namespace {

// Removes the next word from `rest`, up to a space that is not in double
// quotes. `value` is the word without quotes and their backslashes, after the
// first `=` outside of quotes; `key` is the text before that `=`; empty: there
// is no `=`.
void TakeWord(absl::string_view& rest, std::string& key, std::string& value) {
  key.clear();
  value.clear();
  bool quoted = false;
  bool has_key = false;
  size_t at = 0;
  for (; at < rest.size() && (quoted || rest[at] != ' '); ++at) {
    const char c = rest[at];
    if (c == '"') {
      quoted = !quoted;
    } else if (c == '\\' && quoted && at + 1 < rest.size()) {
      value.push_back(rest[++at]);
    } else if (c == '=' && !quoted && !has_key) {
      has_key = true;
      key.swap(value);
    } else {
      value.push_back(c);
    }
  }
  rest.remove_prefix(std::min(rest.size(), at + 1));
}

}  // namespace

LogFields ParseLogLine(const std::string& line) {
  LogFields fields;
  std::string text;
  std::string key;
  std::string value;
  for (absl::string_view rest = line; !rest.empty();) {
    TakeWord(rest, key, value);
    if (key.empty()) {
      absl::StrAppend(&text, text.empty() ? "" : " ", value);
    } else if (std::none_of(fields.begin(), fields.end(),
                            [&key](const auto& f) { return f.first == key; })) {
      fields.emplace_back(key, value);
    }
  }
  if (!text.empty()) fields.emplace_back("text", text);
  return fields;
}

const std::string& FieldOf(const LogFields& fields, absl::string_view key) {
  static const std::string& none = *new std::string();
  const auto at =
      std::find_if(fields.begin(), fields.end(),
                   [key](const auto& field) { return field.first == key; });
  return at == fields.end() ? none : at->second;
}

std::string LogTime(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", time, absl::UTCTimeZone());
}

const char* LevelName(Log::Level level) {
  switch (level) {
    case Log::Level::kInfo:
      return "info";
    case Log::Level::kWarning:
      return "warning";
    case Log::Level::kError:
      return "error";
  }
  return "error";
}

}  // namespace rollcall
