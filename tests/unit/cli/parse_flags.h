// Parses command lines of `rollcall` as a test writes them.
#ifndef ROLLCALL_TESTS_UNIT_CLI_PARSE_FLAGS_H_
#define ROLLCALL_TESTS_UNIT_CLI_PARSE_FLAGS_H_

#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_split.h"
#include "client/cli/flags/argv.h"
#include "client/cli/flags/flags.h"

namespace rollcall {

// Splits `line` as a shell would, after the program's name.
inline Argv Split(const std::string& line) {
  std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
  words.insert(words.begin(), "rollcall");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return SplitArguments(static_cast<int>(argv.size()), argv.data());
}

template <typename Flags>
Flags Parse(const std::string& line) {
  auto invocation = ParseFlags(Split(line));
  if (!invocation.ok()) {
    ADD_FAILURE() << line << ": " << invocation.status();
    return Flags();
  }
  if (!std::holds_alternative<Flags>(*invocation)) {
    ADD_FAILURE() << line << ": another command";
    return Flags();
  }
  return std::get<Flags>(*invocation);
}

inline std::string Complaint(const std::string& line) {
  auto invocation = ParseFlags(Split(line));
  if (invocation.ok()) return "";
  EXPECT_EQ(invocation.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(invocation.status().message());
}

}  // namespace rollcall

#endif  // ROLLCALL_TESTS_UNIT_CLI_PARSE_FLAGS_H_
