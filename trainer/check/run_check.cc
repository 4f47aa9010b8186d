#include "trainer/check/run_check.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace rollcall {
namespace {

constexpr size_t kTransportBytes = 64;  // "IB/GDRDMA+NVLS+P2P" has 18.

std::string Shown(const std::optional<double>& number) {
  return number ? absl::StrFormat("%.17g", *number) : "-";
}

std::string TextOf(const CheckOptions& o, size_t max_bytes) {
  const Thresholds& t = o.thresholds;
  return absl::StrCat(o.min_bytes, " ", max_bytes, " ", o.step_factor, " ",
                      o.warmup, " ", o.iterations, " ", o.trips, " ",
                      t.require_net.value_or("-"), " ", Shown(t.min_busbw_gbps),
                      " ", Shown(t.max_latency_us), " ", Shown(t.link_outlier));
}

uint64_t HashOf(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const unsigned char c : text) hash = (hash ^ c) * 0x100000001b3;
  return hash;
}

// Fails if the ranks' options differ, because such ranks would call different
// functions and wait forever.
absl::Status CheckAllEqual(Collective& collective, const std::string& text) {
  const uint64_t hash = HashOf(text);
  // Each piece is a number that a float represents exactly. The minimum is the
  // negated maximum of the negated values.
  std::vector<float> pieces;
  for (int shift = 0; shift < 64; shift += 16) {
    const float piece = (hash >> shift) & 0xffff;
    pieces.insert(pieces.end(), {piece, -piece});
  }
  absl::Status s =
      collective.AllReduce(absl::MakeSpan(pieces), Reduction::kMax);
  if (!s.ok()) return s;
  for (size_t i = 0; i < pieces.size(); i += 2) {
    if (pieces[i] == -pieces[i + 1]) continue;
    return absl::FailedPreconditionError(
        "the ranks do not agree: the flags of --check differ; give every node "
        "the same");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> Transports(Collective& collective) {
  std::string mine = collective.transport().substr(0, kTransportBytes);
  mine.resize(kTransportBytes, '\0');
  std::string all(kTransportBytes * collective.size(), '\0');
  absl::Status s = collective.AllGather(mine, absl::MakeSpan(all));
  if (!s.ok()) return s;
  std::vector<std::string> transports;
  for (int rank = 0; rank < collective.size(); ++rank) {
    const std::string one = all.substr(rank * kTransportBytes, kTransportBytes);
    transports.push_back(one.substr(0, one.find('\0')));
  }
  return transports;
}

absl::StatusOr<std::vector<uint64_t>> PortsUsed(Collective& collective,
                                                uint64_t mine) {
  std::vector<uint64_t> all(collective.size());
  absl::Status s = collective.AllGather(
      {reinterpret_cast<const char*>(&mine), sizeof(mine)},
      {reinterpret_cast<char*>(all.data()), all.size() * sizeof(mine)});
  if (!s.ok()) return s;
  return all;
}

// True on all ranks if `mine` is true on any rank.
absl::StatusOr<bool> Any(Collective& collective, bool mine) {
  float any = mine ? 1 : 0;
  absl::Status s =
      collective.AllReduce(absl::MakeSpan(&any, 1), Reduction::kMax);
  if (!s.ok()) return s;
  return any > 0;
}

absl::Status MeasureRows(const CheckOptions& options, size_t max_bytes,
                         Collective& collective, CheckMemory& memory,
                         const CheckedWorld& world, CheckReport* report,
                         Findings* findings) {
  uint32_t seed = 0;
  for (const CollectiveKind kind : kAllCollectives) {
    size_t last = 0;
    for (const size_t bytes :
         SizesBetween(options.min_bytes, max_bytes, options.step_factor)) {
      RowPlan plan;
      plan.kind = kind;
      plan.size = RowSizeOf(kind, bytes, collective.size());
      // In a large world, several small sizes may be rounded to the same size.
      if (plan.size.bytes == last) continue;
      last = plan.size.bytes;
      plan.warmup = options.warmup;
      plan.iterations = options.iterations;
      plan.seed = ++seed;
      absl::StatusOr<Row> row = MeasureRow(collective, memory, plan);
      if (!row.ok()) return row.status();
      if (report != nullptr) report->Tell(*findings, *row);
      findings->rows.push_back(*std::move(row));
      const absl::StatusOr<bool> noticed = Any(collective, world.noticed());
      if (!noticed.ok()) return noticed.status();
      if (*noticed) return absl::CancelledError("a rank was asked to stop");
    }
  }
  return absl::OkStatus();
}

absl::Status FindLinks(int trips, Collective& collective, Findings* findings) {
  absl::StatusOr<std::vector<LinkTime>> links = MeasureLinks(collective, trips);
  if (links.ok()) {
    findings->links = *std::move(links);
  } else if (absl::IsUnimplemented(links.status())) {
    findings->links_unmeasured = std::string(links.status().message());
  } else {
    return links.status();
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Verdict> RunCheck(const CheckOptions& options,
                                 Collective& collective, CheckMemory& memory,
                                 const CheckedWorld& world,
                                 const CheckReport::Say& say) {
  CheckReport said(options.json, say);
  CheckReport* const report = collective.rank() == 0 ? &said : nullptr;
  const size_t max_bytes =
      options.max_bytes != 0
          ? options.max_bytes
          : std::max(options.min_bytes, DefaultMaxBytes(memory.device()));
  absl::Status status = CheckAllEqual(collective, TextOf(options, max_bytes));
  if (!status.ok()) return status;
  Findings findings;
  findings.ranks = collective.size();
  findings.nodes = world.nodes;
  findings.one_machine = world.one_machine;
  absl::StatusOr<std::vector<std::string>> transports = Transports(collective);
  if (!transports.ok()) return transports.status();
  findings.transports = *std::move(transports);
  absl::StatusOr<std::vector<uint64_t>> ports_used =
      PortsUsed(collective, world.ports_used);
  if (!ports_used.ok()) return ports_used.status();
  findings.ports_used = *std::move(ports_used);
  if (report != nullptr) report->Begin(findings);
  status = MeasureRows(options, max_bytes, collective, memory, world, report,
                       &findings);
  if (!status.ok()) return status;
  status = FindLinks(options.trips, collective, &findings);
  if (!status.ok()) return status;
  if (report != nullptr) report->TellLinks(findings);
  Verdict verdict = Judge(findings, options.thresholds);
  if (report != nullptr) report->End(findings, verdict);
  // If a rank's data were wrong without being noticed, its verdict may differ.
  // So all ranks take the most severe level.
  float highest = static_cast<float>(verdict.level);
  status = collective.AllReduce(absl::MakeSpan(&highest, 1), Reduction::kMax);
  if (!status.ok()) return status;
  if (highest > static_cast<float>(verdict.level)) {
    verdict.level = static_cast<VerdictLevel>(static_cast<int>(highest));
    verdict.reasons.push_back("another rank reached a more severe verdict");
  }
  return verdict;
}

}  // namespace rollcall
