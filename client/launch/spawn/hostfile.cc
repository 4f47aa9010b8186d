#include "client/launch/spawn/hostfile.h"

#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "daemon/core/admission/admission.h"
#include "daemon/core/limits.h"

namespace rollcall {
namespace {

absl::Status AtLine(size_t line, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("line ", line, ": ", what));
}

absl::Status Twice(const char* key, absl::string_view word) {
  return absl::InvalidArgumentError(
      absl::StrCat("expected ", key, " once, got '", word, "' as well"));
}

absl::Status ReadWord(absl::string_view word, Host& host) {
  const absl::string_view whole = word;
  if (absl::ConsumePrefix(&word, "name=")) {
    if (!host.name.empty()) return Twice("name=", whole);
    host.name = std::string(word);
    return AdmitNodeName(host.name);
  }
  if (absl::ConsumePrefix(&word, "slots=")) {
    if (host.slots != 0) return Twice("slots=", whole);
    if (absl::SimpleAtoi(word, &host.slots) && host.slots >= 1 &&
        host.slots <= Limits::ranks_per_node_max) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat("expected slots=1 to slots=", Limits::ranks_per_node_max,
                     ", got '", whole, "'"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "expected `[USER@]HOST [slots=N] [name=NODE]`, got '", whole, "'"));
}

absl::StatusOr<Host> ReadHost(const std::vector<absl::string_view>& words) {
  Host host;
  host.target = std::string(words.front());
  // ssh would read such a name as a flag.
  if (absl::StartsWith(host.target, "-")) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a host, got '", host.target, "'"));
  }
  for (size_t i = 1; i < words.size(); ++i) {
    if (absl::Status read = ReadWord(words[i], host); !read.ok()) return read;
  }
  if (!host.name.empty()) return host;
  host.name = host.target.substr(host.target.rfind('@') + 1);
  if (absl::Status good = AdmitNodeName(host.name); !good.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        good.message(), "; give the node another name with name=NODE"));
  }
  return host;
}

}  // namespace

absl::StatusOr<std::vector<Host>> ParseHostfile(absl::string_view text) {
  std::vector<Host> hosts;
  std::set<std::string> names;
  size_t number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = line.substr(0, line.find('#'));
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty()) continue;
    auto host = ReadHost(words);
    if (!host.ok()) return AtLine(number, host.status().message());
    if (!names.insert(host->name).second) {
      return AtLine(number, absl::StrCat(host->name,
                                         " is there twice; give "
                                         "its ranks as slots=N"));
    }
    if (hosts.size() == Limits::nodes_max) {
      return AtLine(number, absl::StrCat("a job has at most ",
                                         Limits::nodes_max, " nodes"));
    }
    hosts.push_back(*std::move(host));
  }
  if (hosts.empty()) return absl::InvalidArgumentError("it names no host");
  return hosts;
}

std::string FormatHost(const Host& host) {
  std::string line = host.target;
  if (host.slots != 0) absl::StrAppend(&line, " slots=", host.slots);
  if (host.name != host.target.substr(host.target.rfind('@') + 1)) {
    absl::StrAppend(&line, " name=", host.name);
  }
  return line;
}

bool IsThisMachine(const Host& host, const std::string& hostname) {
  const std::string text = host.target.substr(host.target.rfind('@') + 1);
  return text == "localhost" || text == "127.0.0.1" ||
         (!hostname.empty() &&
          (text == hostname || text == hostname.substr(0, hostname.find('.'))));
}

}  // namespace rollcall
