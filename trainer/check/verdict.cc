#include "trainer/check/verdict.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "daemon/base/counted.h"

namespace rollcall {
namespace {

// The most similar findings that one sentence names.
constexpr size_t kNamedMax = 8;
// A link is an outlier only if it is this much above the median; smaller
// differences can be scheduling noise.
constexpr double kOutlierMinUs = 20;

// The part of the slowest port's rate that the bus bandwidth of an all-reduce
// is expected to reach. A ring through one port of each node comes close to the
// whole rate, and one through several ports exceeds it. A quarter leaves room
// for large worlds and for GPUs that are far from their port, so less is a
// fault.
constexpr double kPortRateMin = 0.25;
// A smaller all-reduce measures latencies, mostly.
constexpr size_t kPortRateBytesMin = 128 << 20;

constexpr char kSocket[] = "Socket";
// NcclLog returns this name as long as the log has named no transport.
constexpr char kUnknownNet[] = "NCCL";

// The networks in a transport such as "IB/GDRDMA+NVLS+P2P": {"IB"}. Empty: the
// rank communicates only within its node. CollNet is not counted, because it
// sums in the switches of another network that is listed too.
std::vector<std::string> NetworksOf(absl::string_view transport) {
  std::vector<std::string> networks;
  for (absl::string_view way : absl::StrSplit(transport, '+')) {
    if (way == "P2P" || way == "SHM" || way == "NVLS" || way == "CollNet") {
      continue;
    }
    networks.emplace_back(way.substr(0, way.find('/')));
  }
  return networks;
}

bool IsNet(absl::string_view name, absl::string_view required) {
  // The names that NVIDIA's own plugin uses: IBext, IBext_v8.
  if (required == "ib" && absl::StartsWithIgnoreCase(name, "IBext")) {
    return true;
  }
  // The names that two generations of Amazon's plugin use.
  if (required == "efa") {
    return absl::EqualsIgnoreCase(name, "AWS Libfabric") ||
           absl::EqualsIgnoreCase(name, "Libfabric");
  }
  return absl::EqualsIgnoreCase(name, required);
}

class Judgement {
 public:
  Judgement(const Findings& findings, const Thresholds& thresholds)
      : findings_(findings), thresholds_(thresholds) {}

  Verdict Judged() {
    JudgeResults();
    if (findings_.ranks == 1) {
      JudgeAlone();
    } else {
      JudgeNet();
      JudgeBandwidth();
      JudgePortRate();
      JudgeLatency();
      JudgeOutliers();
    }
    return verdict_;
  }

 private:
  void Say(VerdictLevel level, std::string reason) {
    verdict_.level = std::max(verdict_.level, level);
    // Reasons of the same level stay in their order.
    auto at = verdict_.reasons.end();
    if (level == VerdictLevel::kFatal) {
      at = verdict_.reasons.begin() + fatal_++;
    }
    verdict_.reasons.insert(at, std::move(reason));
  }

  void JudgeResults() {
    for (const Row& row : findings_.rows) {
      if (row.wrong.empty()) continue;
      const WrongOnRank& first = row.wrong.front();
      Say(VerdictLevel::kFatal,
          absl::StrFormat(
              "%s of %u bytes gave %s on %s; first on %s: "
              "element %u is %g, expected %g; see that node's memory, GPU and "
              "network card",
              NameOf(row.kind), row.size.bytes,
              Counted(row.wrong_count(), "wrong element"),
              Counted(row.wrong.size(), "rank"), RankIn(findings_, first.rank),
              first.values.index, first.values.found, first.values.expected));
    }
  }

  // A network requirement cannot be checked if there is no network.
  void JudgeAlone() {
    const bool demanded =
        thresholds_.require_net.value_or(kAnyNet) != kAnyNet ||
        thresholds_.min_busbw_gbps || thresholds_.max_latency_us;
    if (!demanded) return;
    Say(VerdictLevel::kFatal,
        "a world of one rank uses no network, so no requirement on it can "
        "be tested; start the check on all nodes with rollcall launch");
  }

  void JudgeNet() {
    const std::optional<RequiredNet>& net = thresholds_.require_net;
    if (!net.has_value()) return JudgeFallback();
    if (*net == kAnyNet) return;
    for (size_t rank = 0; rank < findings_.transports.size(); ++rank) {
      const std::string& used = findings_.transports[rank];
      const std::vector<std::string> networks = NetworksOf(used);
      const auto other = std::find_if_not(
          networks.begin(), networks.end(),
          [&](const std::string& name) { return IsNet(name, *net); });
      if (other == networks.end()) continue;
      const CheckedNode* node = NodeOf(findings_, rank);
      return Say(VerdictLevel::kFatal,
                 absl::StrCat(RankIn(findings_, rank), " uses ", used,
                              ", required: ", *net, "; ", Ports(node), ": ",
                              NextStep(*other, node)));
    }
  }

  // Reports a node that has a faster network but fell back to TCP, if no flag
  // allows that.
  void JudgeFallback() {
    if (findings_.one_machine) return;
    for (size_t rank = 0; rank < findings_.transports.size(); ++rank) {
      const std::vector<std::string> networks =
          NetworksOf(findings_.transports[rank]);
      const CheckedNode* node = NodeOf(findings_, rank);
      if (std::find(networks.begin(), networks.end(), kSocket) ==
              networks.end() ||
          node == nullptr || (node->ports.empty() && node->gpus == 0)) {
        continue;
      }
      return Say(
          VerdictLevel::kFatal,
          absl::StrCat(RankIn(findings_, rank),
                       " fell back to TCP, which no flag allows; ", Ports(node),
                       ": ", NextStep(kSocket, node),
                       "; if TCP is what you want, give --require-net socket"));
    }
    JudgeUnknown();
  }

  // Without a requirement, a log that cannot be read might hide a fallback.
  void JudgeUnknown() {
    for (size_t rank = 0; rank < findings_.transports.size(); ++rank) {
      if (findings_.transports[rank] != kUnknownNet) continue;
      return Say(VerdictLevel::kWarning,
                 absl::StrCat("the network of ", RankIn(findings_, rank),
                              " is not known; ",
                              NextStep(kUnknownNet, NodeOf(findings_, rank))));
    }
  }

  static std::string Ports(const CheckedNode* node) {
    if (node == nullptr || node->ports.empty()) {
      return "that node reports no InfiniBand ports";
    }
    const size_t shown = std::min(node->ports.size(), kNamedMax);
    std::string text = absl::StrCat(
        "its InfiniBand ports: ",
        absl::StrJoin(node->ports.begin(), node->ports.begin() + shown, ", ",
                      [](std::string* to, const CheckedPort& port) {
                        absl::StrAppend(to, port.name,
                                        port.active ? "" : " (not active)");
                      }));
    if (shown < node->ports.size()) {
      absl::StrAppend(&text, " and ", node->ports.size() - shown, " more");
    }
    return text;
  }

  static std::string NextStep(absl::string_view used, const CheckedNode* node) {
    if (used == kUnknownNet) {
      return "unset NCCL_DEBUG and NCCL_DEBUG_FILE, so that rollcall-train can "
             "read NCCL's log, which alone names its network";
    }
    if (used != kSocket) {
      return "see NCCL_NET and NCCL_IB_DISABLE in its environment";
    }
    if (node == nullptr || node->gpus == 0) {
      return "ranks without a GPU always use TCP; run it on nodes with "
             "GPUs";
    }
    return "run it with NCCL_DEBUG=INFO to see why, and look at NCCL_IB_HCA, "
           "NCCL_IB_DISABLE and ulimit -l there";
  }

  // Null: there is none.
  const Row* LargestAllReduce() const {
    const Row* largest = nullptr;
    for (const Row& row : findings_.rows) {
      if (row.kind != CollectiveKind::kAllReduce) continue;
      if (largest == nullptr || row.size.bytes >= largest->size.bytes) {
        largest = &row;
      }
    }
    return largest;
  }

  void JudgeBandwidth() {
    if (!thresholds_.min_busbw_gbps) return;
    const Row* largest = LargestAllReduce();
    const double found =
        largest == nullptr ? 0 : largest->busbw_gbps(findings_.ranks);
    if (found >= *thresholds_.min_busbw_gbps) return;
    Say(VerdictLevel::kFatal,
        absl::StrFormat("the all-reduce of %u bytes has a bus bandwidth of "
                        "%.4g GB/s, at least %.4g is required; see the links' "
                        "latencies for the slowest, and that node's network "
                        "card",
                        largest == nullptr ? size_t{0} : largest->size.bytes,
                        found, *thresholds_.min_busbw_gbps));
  }

  // Whether data moves between the nodes, and always over InfiniBand or RoCE.
  bool OnlyInfiniband() const {
    if (findings_.one_machine) return false;
    bool used = false;
    for (const std::string& transport : findings_.transports) {
      for (const std::string& network : NetworksOf(transport)) {
        if (!IsNet(network, "ib")) return false;
        used = true;
      }
    }
    return used;
  }

  // Whether NCCL may use the node's port in a rank of the node. A port that
  // NCCL_IB_HCA leaves out, one for storage perhaps, must not lower the rate
  // that is expected.
  bool IsUsed(const CheckedNode& node, size_t port) const {
    if (findings_.ports_used.empty() || port >= kUsedPortsMax) return true;
    for (int i = 0; i < node.ranks; ++i) {
      if (findings_.ports_used[node.first_rank + i] >> port & 1) return true;
    }
    return false;
  }

  // Without a required bandwidth, the network is held against its own rate.
  void JudgePortRate() {
    const Row* largest = LargestAllReduce();
    if (thresholds_.min_busbw_gbps || !OnlyInfiniband() || largest == nullptr ||
        largest->size.bytes < kPortRateBytesMin) {
      return;
    }
    const CheckedNode* node = nullptr;
    const CheckedPort* slowest = nullptr;
    for (const CheckedNode& each : findings_.nodes) {
      for (size_t i = 0; i < each.ports.size(); ++i) {
        const CheckedPort& port = each.ports[i];
        if (!port.active || port.rate_gbps == 0 || !IsUsed(each, i)) continue;
        if (slowest == nullptr || port.rate_gbps < slowest->rate_gbps) {
          node = &each;
          slowest = &port;
        }
      }
    }
    if (slowest == nullptr) return;
    const double rate = slowest->rate_gbps / 8.0;  // Gigabytes per second.
    const double found = largest->busbw_gbps(findings_.ranks);
    if (found >= kPortRateMin * rate) return;
    Say(VerdictLevel::kWarning,
        absl::StrFormat(
            "the all-reduce of %u bytes has a bus bandwidth of %.4g GB/s, less "
            "than a quarter of the %.4g GB/s of %s on %s, the slowest "
            "InfiniBand port that NCCL may use; run it with NCCL_DEBUG=INFO to "
            "see which ports "
            "NCCL uses and whether GPUs use them directly (GDRDMA), and look "
            "at NCCL_IB_HCA; if this is what you expect, give --min-busbw",
            largest->size.bytes, found, rate, slowest->name, node->name));
  }

  void JudgeLatency() {
    if (!thresholds_.max_latency_us) return;
    if (!findings_.links_unmeasured.empty()) {
      return Say(VerdictLevel::kFatal,
                 absl::StrCat(
                     "a maximum latency is set, but no latency was measured: ",
                     findings_.links_unmeasured));
    }
    std::vector<const LinkTime*> over;
    for (const LinkTime& link : findings_.links) {
      if (link.median_us > *thresholds_.max_latency_us) over.push_back(&link);
    }
    if (over.empty()) return;
    Say(VerdictLevel::kFatal,
        absl::StrFormat("%u of %s %s over %.4g us: %s", over.size(),
                        Counted(findings_.links.size(), "link"),
                        over.size() == 1 ? "takes" : "take",
                        *thresholds_.max_latency_us, Named(over)));
  }

  void JudgeOutliers() {
    const double factor =
        thresholds_.link_outlier.value_or(kLinkOutlierDefault);
    for (const bool between_nodes : {true, false}) {
      const SlowestLink slowest = FindSlowest(findings_, between_nodes);
      if (slowest.link == nullptr) continue;
      const double limit = std::max(factor * slowest.median_us,
                                    slowest.median_us + kOutlierMinUs);
      std::vector<const LinkTime*> over;
      for (const LinkTime& link : findings_.links) {
        if (BetweenNodes(link) == between_nodes && link.median_us > limit) {
          over.push_back(&link);
        }
      }
      if (over.empty()) continue;
      Say(VerdictLevel::kWarning,
          absl::StrFormat("the median link %s nodes takes %.1f us; far above "
                          "it: %s%s",
                          between_nodes ? "between" : "within",
                          slowest.median_us, Named(over), Suspect(over)));
    }
  }

  bool BetweenNodes(const LinkTime& link) const {
    return NodeOf(findings_, link.from) !=
           NodeOf(findings_, (link.from + 1) % findings_.ranks);
  }

  // Names the links, the slowest first.
  std::string Named(std::vector<const LinkTime*> links) const {
    std::stable_sort(links.begin(), links.end(),
                     [](const LinkTime* a, const LinkTime* b) {
                       return a->median_us > b->median_us;
                     });
    const size_t shown = std::min(links.size(), kNamedMax);
    std::vector<std::string> names;
    for (size_t i = 0; i < shown; ++i) {
      names.push_back(absl::StrFormat(
          "%s (%.1f us)", LinkIn(findings_, *links[i]), links[i]->median_us));
    }
    if (shown < links.size()) {
      names.push_back(absl::StrCat(links.size() - shown, " more"));
    }
    return absl::StrJoin(names, ", ");
  }

  // The node that several slow links have in common, if there is exactly one.
  std::string Suspect(const std::vector<const LinkTime*>& links) const {
    std::set<const CheckedNode*> common = Ends(*links[0]);
    for (const LinkTime* link : links) {
      std::set<const CheckedNode*> both;
      for (const CheckedNode* node : Ends(*link)) {
        if (common.contains(node)) both.insert(node);
      }
      common = both;
    }
    if (common.size() != 1 || *common.begin() == nullptr) {
      return "; look at the cables and network cards at both ends";
    }
    return absl::StrCat("; look at ", (*common.begin())->name,
                        ", its cable and network card");
  }

  std::set<const CheckedNode*> Ends(const LinkTime& link) const {
    return {NodeOf(findings_, link.from),
            NodeOf(findings_, (link.from + 1) % findings_.ranks)};
  }

  const Findings& findings_;
  const Thresholds& thresholds_;
  Verdict verdict_;
  int fatal_ = 0;
};

}  // namespace

const char* NameOf(VerdictLevel level) {
  switch (level) {
    case VerdictLevel::kOk:
      return "ok";
    case VerdictLevel::kWarning:
      return "warning";
    case VerdictLevel::kRetryable:
      return "retryable";
    case VerdictLevel::kFatal:
      return "fatal";
  }
  return "";
}

Verdict Judge(const Findings& findings, const Thresholds& thresholds) {
  return Judgement(findings, thresholds).Judged();
}

const CheckedNode* NodeOf(const Findings& findings, int rank) {
  const auto after = std::upper_bound(
      findings.nodes.begin(), findings.nodes.end(), rank,
      [](int r, const CheckedNode& node) { return r < node.first_rank; });
  if (after == findings.nodes.begin()) return nullptr;
  const CheckedNode& node = *std::prev(after);
  return rank < node.first_rank + node.ranks ? &node : nullptr;
}

std::string RankIn(const Findings& findings, int rank) {
  const CheckedNode* node = NodeOf(findings, rank);
  if (node == nullptr) return absl::StrCat("rank ", rank);
  return absl::StrCat("rank ", rank, " on ", node->name);
}

std::string LinkIn(const Findings& findings, const LinkTime& link) {
  return absl::StrCat(RankIn(findings, link.from), " - ",
                      RankIn(findings, (link.from + 1) % findings.ranks));
}

SlowestLink FindSlowest(const Findings& findings, bool between_nodes) {
  SlowestLink slowest;
  std::vector<double> medians;
  for (const LinkTime& link : findings.links) {
    const bool between = NodeOf(findings, link.from) !=
                         NodeOf(findings, (link.from + 1) % findings.ranks);
    if (between != between_nodes) continue;
    medians.push_back(link.median_us);
    if (slowest.link == nullptr || link.median_us > slowest.link->median_us) {
      slowest.link = &link;
    }
  }
  if (medians.empty()) return slowest;
  // The lower median is used, so that one of two links can be an outlier, and
  // so can both links of one node among four.
  const auto middle = medians.begin() + (medians.size() - 1) / 2;
  std::nth_element(medians.begin(), middle, medians.end());
  slowest.median_us = *middle;
  return slowest;
}

}  // namespace rollcall
