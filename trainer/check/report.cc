#include "trainer/check/report.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "daemon/base/counted.h"

namespace rollcall {
namespace {

// If there are more links than this, only the slowest are listed.
constexpr size_t kLinksMax = 64;

using Json = nlohmann::ordered_json;

std::string Line(const Json& object) {
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

const char* PlaceOf(CollectiveKind kind) {
  return kind == CollectiveKind::kAllReduce ||
                 kind == CollectiveKind::kBroadcast
             ? "in place"
             : "out of place";
}

std::vector<LinkTime> ListedLinks(const Findings& findings) {
  std::vector<LinkTime> links = findings.links;
  if (links.size() <= kLinksMax) return links;
  std::nth_element(links.begin(), links.begin() + kLinksMax, links.end(),
                   [](const LinkTime& a, const LinkTime& b) {
                     return a.median_us > b.median_us;
                   });
  links.resize(kLinksMax);
  std::sort(
      links.begin(), links.end(),
      [](const LinkTime& a, const LinkTime& b) { return a.from < b.from; });
  return links;
}

Json RowObject(const Findings& findings, const Row& row) {
  Json object = {{"collective", NameOf(row.kind)},
                 {"size", row.size.bytes},
                 {"count", row.size.count},
                 {"type", "float"},
                 {"redop", RedOpOf(row.kind)},
                 {"root", RootOf(row.kind)},
                 {"in_place", PlaceOf(row.kind) == std::string("in place")},
                 {"iterations", row.iterations},
                 {"time_us", row.time_us},
                 {"algbw", row.algbw_gbps()},
                 {"busbw", row.busbw_gbps(findings.ranks)},
                 {"wrong", row.wrong_count()}};
  if (!row.wrong.empty()) {
    const WrongOnRank& first = row.wrong.front();
    object["first_wrong"] = {{"rank", first.rank},
                             {"index", first.values.index},
                             {"expected", first.values.expected},
                             {"found", first.values.found}};
  }
  return object;
}

}  // namespace

std::string TransportsOf(const Findings& findings) {
  std::map<std::string, size_t> counts;
  for (const std::string& transport : findings.transports) ++counts[transport];
  if (counts.size() == 1) return counts.begin()->first;
  std::vector<std::string> parts;
  for (const auto& [transport, count] : counts) {
    parts.push_back(absl::StrCat(
        transport, " on ",
        parts.empty() ? Counted(count, "rank") : absl::StrCat(count)));
  }
  return absl::StrJoin(parts, ", ");
}

void CheckReport::Begin(const Findings& findings) {
  if (json_) return;
  say_(absl::StrCat(
      "# rollcall-train --check: ", Counted(findings.ranks, "rank"), " on ",
      Counted(std::max<size_t>(1, findings.nodes.size()), "node"),
      ", transport ", TransportsOf(findings)));
}

void CheckReport::Tell(const Findings& findings, const Row& row) {
  if (json_) return say_(Line(RowObject(findings, row)));
  if (told_ != row.kind) {
    told_ = row.kind;
    say_(absl::StrCat("# ", NameOf(row.kind), ", ", PlaceOf(row.kind)));
    say_(absl::StrFormat("#%11s %13s %7s %7s %6s %10s %8s %8s %7s", "size",
                         "count", "type", "redop", "root", "time", "algbw",
                         "busbw", "#wrong"));
    say_(absl::StrFormat("#%11s %13s %7s %7s %6s %10s %8s %8s %7s", "(B)",
                         "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)",
                         ""));
  }
  say_(absl::StrFormat(
      "%12u %13u %7s %7s %6d %10.2f %8.3f %8.3f %7u", row.size.bytes,
      row.size.count, "float", RedOpOf(row.kind), RootOf(row.kind), row.time_us,
      row.algbw_gbps(), row.busbw_gbps(findings.ranks), row.wrong_count()));
}

void CheckReport::TellLinks(const Findings& findings) {
  const std::vector<LinkTime> listed = ListedLinks(findings);
  if (json_) {
    for (const LinkTime& link : listed) {
      say_(Line({{"link", LinkIn(findings, link)},
                 {"from", link.from},
                 {"to", (link.from + 1) % findings.ranks},
                 {"median_us", link.median_us},
                 {"p99_us", link.p99_us}}));
    }
    return;
  }
  if (!findings.links_unmeasured.empty()) {
    return say_(absl::StrCat("# latency between neighbours: not measured: ",
                             findings.links_unmeasured));
  }
  if (listed.empty()) return;
  say_(absl::StrCat("# latency between neighbours, half a round trip",
                    listed.size() < findings.links.size()
                        ? absl::StrCat(", the slowest ", listed.size(), " of ",
                                       findings.links.size())
                        : ""));
  say_(absl::StrFormat("#%11s %13s  %s", "median (us)", "p99 (us)", "link"));
  for (const LinkTime& link : listed) {
    say_(absl::StrFormat("%12.2f %13.2f  %s", link.median_us, link.p99_us,
                         LinkIn(findings, link)));
  }
  for (const bool between_nodes : {true, false}) {
    const SlowestLink slowest = FindSlowest(findings, between_nodes);
    if (slowest.link == nullptr) continue;
    say_(absl::StrFormat(
        "# slowest %s nodes: %s, %.2f us, %.2f times the "
        "median of %.2f us",
        between_nodes ? "between" : "within", LinkIn(findings, *slowest.link),
        slowest.link->median_us, slowest.times(), slowest.median_us));
  }
}

void CheckReport::End(const Findings& findings, const Verdict& verdict) {
  if (json_) {
    return say_(Line({{"verdict", NameOf(verdict.level)},
                      {"exit_code", static_cast<int>(verdict.level)},
                      {"ranks", findings.ranks},
                      {"transport", TransportsOf(findings)},
                      {"reasons", verdict.reasons}}));
  }
  for (const std::string& reason : verdict.reasons) {
    say_(absl::StrCat("# ", reason));
  }
  say_(absl::StrCat("# verdict: ", NameOf(verdict.level)));
}

}  // namespace rollcall
