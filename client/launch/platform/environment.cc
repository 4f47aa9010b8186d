#include "client/launch/platform/environment.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/facts/system/system.h"

namespace rollcall {
namespace {

constexpr size_t kHostsFileBytesMax = 1 << 20;

}  // namespace

NodeEnvironment VariablesOf(const std::vector<std::string>& entries) {
  NodeEnvironment environment;
  for (const std::string& entry : entries) {
    const size_t end = entry.find('=');
    if (end == std::string::npos || end + 1 == entry.size()) continue;
    environment.variables[entry.substr(0, end)] = entry.substr(end + 1);
  }
  return environment;
}

NodeEnvironment ReadNodeEnvironment(const std::vector<std::string>& entries) {
  NodeEnvironment environment = VariablesOf(entries);
  char host[256] = {};
  if (gethostname(host, sizeof(host) - 1) == 0) environment.hostname = host;
  environment.qualified_name = QualifiedName(
      ReadSmallFile("/etc/hosts", kHostsFileBytesMax), environment.hostname);
  return environment;
}

std::string QualifiedName(absl::string_view hosts_file,
                          absl::string_view hostname) {
  if (hostname.empty()) return "";
  const std::string with_domain = absl::StrCat(hostname, ".");
  for (absl::string_view line : absl::StrSplit(hosts_file, '\n')) {
    line = line.substr(0, line.find('#'));
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (std::find(words.begin(), words.end(), hostname) == words.end()) {
      continue;
    }
    for (const absl::string_view word : words) {
      if (absl::StartsWith(word, with_domain)) return std::string(word);
    }
  }
  return "";
}

const std::string* Find(const NodeEnvironment& environment,
                        const std::string& name) {
  const auto found = environment.variables.find(name);
  return found == environment.variables.end() ? nullptr : &found->second;
}

absl::StatusOr<std::optional<uint32_t>> FindNumber(
    const NodeEnvironment& environment, const std::string& name,
    uint32_t most) {
  const std::string* text = Find(environment, name);
  if (text == nullptr) return std::nullopt;
  uint32_t number = 0;
  if (!absl::SimpleAtoi(*text, &number) || number > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("the variable ", name, " should be a number of at most ",
                     most, ", and is '", *text, "'"));
  }
  return number;
}

}  // namespace rollcall
