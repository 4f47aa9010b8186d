#include "client/launch/spawn/handoff.h"

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace rollcall {
namespace {

void Append(std::string& to, absl::string_view key, absl::string_view value) {
  absl::StrAppend(&to, key, " ", absl::Base64Escape(value), "\n");
}

}  // namespace

std::string FormatHandoff(const Handoff& handoff) {
  std::string text;
  Append(text, "join", handoff.join_string);
  Append(text, "folder", handoff.folder);
  for (const std::string& entry : handoff.environment) {
    Append(text, "env", entry);
  }
  for (const std::string& argument : handoff.arguments) {
    Append(text, "arg", argument);
  }
  absl::StrAppend(&text, kHandoffEnd);
  return text;
}

absl::StatusOr<Handoff> ParseHandoff(absl::string_view text) {
  Handoff handoff;
  if (!absl::ConsumeSuffix(&text, kHandoffEnd)) {
    return absl::InvalidArgumentError("the handoff is incomplete");
  }
  for (const absl::string_view line :
       absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(' ', 1));
    std::string value;
    if (!absl::Base64Unescape(parts.second, &value)) {
      return absl::InvalidArgumentError("the handoff is damaged");
    }
    if (parts.first == "join") {
      handoff.join_string = std::move(value);
    } else if (parts.first == "folder") {
      handoff.folder = std::move(value);
    } else if (parts.first == "env") {
      handoff.environment.push_back(std::move(value));
    } else if (parts.first == "arg") {
      handoff.arguments.push_back(std::move(value));
    } else {
      return absl::InvalidArgumentError("the handoff is of another version");
    }
  }
  return handoff;
}

}  // namespace rollcall
