#include "client/doctor/doctor_text.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "daemon/base/text/printable.h"
#include "nlohmann/json.hpp"

namespace rollcall {
namespace {

constexpr size_t kTextBytesMax = 1 << 10;
// Columns are padded to at most this width.
constexpr size_t kColumnMax = 24;
constexpr size_t kLineMax = 79;

std::string Clean(absl::string_view text) {
  return Printable({text.data(), text.size()}, kTextBytesMax);
}

bool IsShown(const Finding& finding, bool all) {
  return all || finding.severity > Severity::kOk;
}

std::string FoundText(const Finding& finding) {
  const std::string found = Clean(finding.found);
  return finding.expected.empty()
             ? found
             : absl::StrCat(found, "; expected ", Clean(finding.expected));
}

std::string Rows(const std::vector<Finding>& shown) {
  using Row = std::array<std::string, 4>;
  std::vector<Row> rows = {{"SEVERITY", "CHECK", "SUBJECT", "FOUND"}};
  for (const Finding& finding : shown) {
    rows.push_back({std::string(Word(finding.severity)), Clean(finding.check),
                    Clean(finding.subject), FoundText(finding)});
  }
  std::array<size_t, 3> widths = {};
  for (const Row& row : rows) {
    for (size_t i = 0; i < widths.size(); ++i) {
      widths[i] = std::min(kColumnMax, std::max(widths[i], row[i].size()));
    }
  }
  std::string text;
  for (const Row& row : rows) {
    absl::StrAppendFormat(&text, "%-*s  %-*s  %-*s  %s\n",
                          static_cast<int>(widths[0]), row[0],
                          static_cast<int>(widths[1]), row[1],
                          static_cast<int>(widths[2]), row[2], row[3]);
  }
  return text;
}

// `text` in lines of at most kLineMax characters, each indented by `indent`
// spaces. A longer word gets its own line.
std::string Wrapped(const std::string& text, size_t indent) {
  std::string wrapped, line;
  const auto end_line = [&] {
    absl::StrAppend(&wrapped, std::string(indent, ' '), line, "\n");
    line.clear();
  };
  for (const absl::string_view word :
       absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (!line.empty() && indent + line.size() + 1 + word.size() > kLineMax) {
      end_line();
    }
    absl::StrAppend(&line, line.empty() ? "" : " ", word);
  }
  if (!line.empty()) end_line();
  return wrapped;
}

// Each way to fix a problem, once.
std::string Mends(const std::vector<Finding>& shown) {
  std::vector<std::pair<std::string, std::string>> said;
  std::string text;
  for (const Finding& finding : shown) {
    if (finding.mend.empty()) continue;
    std::pair<std::string, std::string> key(finding.check, finding.mend);
    if (std::find(said.begin(), said.end(), key) != said.end()) continue;
    said.push_back(std::move(key));
    absl::StrAppend(
        &text,
        Wrapped(absl::StrCat(Clean(finding.check), ": ", Clean(finding.why)),
                2),
        Wrapped(Clean(finding.mend), 4));
  }
  return text.empty() ? text : absl::StrCat("\nHow to fix it:\n", text);
}

}  // namespace

std::string DoctorTable(const std::vector<Finding>& findings, bool all) {
  std::vector<Finding> shown;
  for (Finding& finding : WorstFirst(findings)) {
    if (IsShown(finding, all)) shown.push_back(std::move(finding));
  }
  std::string text =
      shown.empty() ? "" : absl::StrCat(Rows(shown), Mends(shown), "\n");
  const auto count = Count(findings);
  for (auto at = count.rbegin(); at != count.rend(); ++at) {
    absl::StrAppend(&text, at == count.rbegin() ? "" : ", ", at->second, " ",
                    Word(at->first));
  }
  return text + "\n";
}

nlohmann::ordered_json DoctorJson(absl::string_view node,
                                  const std::vector<Finding>& findings) {
  using nlohmann::ordered_json;
  const Severity worst = Worst(findings);
  const bool judged = worst != Severity::kNotApplicable;
  ordered_json counts = ordered_json::object();
  const auto count = Count(findings);
  for (auto at = count.rbegin(); at != count.rend(); ++at) {
    counts[std::string(Word(at->first))] = at->second;
  }
  auto all = ordered_json::array();
  for (const Finding& finding : WorstFirst(findings)) {
    all.push_back({{"check", Clean(finding.check)},
                   {"severity", std::string(Word(finding.severity))},
                   {"subject", Clean(finding.subject)},
                   {"found", Clean(finding.found)},
                   {"expected", Clean(finding.expected)},
                   {"why", Clean(finding.why)},
                   {"mend", Clean(finding.mend)}});
  }
  return {{"node", Clean(node)},
          {"verdict", std::string(Word(judged ? worst : Severity::kOk))},
          {"exit_code", ExitCode(worst)},
          {"counts", std::move(counts)},
          {"findings", std::move(all)}};
}

std::string OneLineText(const Finding& finding) {
  std::string text =
      absl::StrCat(Clean(finding.subject), ": ", FoundText(finding));
  if (!finding.mend.empty()) {
    absl::StrAppend(&text, "; ", Clean(finding.mend));
  }
  return text;
}

}  // namespace rollcall
