#include "daemon/core/hangs/hang_verdict.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace rollcall {
namespace {

// Uses one position per node: that of its rank that is furthest ahead.
std::optional<uint64_t> MedianOfNodes(const std::vector<HangClaim>& claims) {
  std::map<int, uint64_t> of_node;
  for (const HangClaim& claim : claims) {
    if (!claim.said->answered()) continue;
    uint64_t& entered = of_node[claim.node_rank];
    entered = std::max(entered, claim.said->collective_entered());
  }
  if (of_node.size() < kHangNodesToCompare) return std::nullopt;
  std::vector<uint64_t> sorted;
  for (const auto& [node, entered] : of_node) sorted.push_back(entered);
  // With an even number, the lower one of the two in the middle.
  const auto middle = sorted.begin() + (sorted.size() - 1) / 2;
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

size_t NodesOf(const std::vector<HangClaim>& claims) {
  std::set<int> nodes;
  for (const HangClaim& claim : claims) nodes.insert(claim.node_rank);
  return nodes.size();
}

// Whether one node can be blamed for the ranks at this position. Either there
// is only one such rank, or all of them are on one node and other ranks are
// further ahead.
bool IsOneNodes(const std::vector<HangClaim>& claims, const HangPlace& place) {
  std::vector<HangClaim> alike;
  for (const HangClaim& claim : claims) {
    if (HangPlace(*claim.said) == place) alike.push_back(claim);
  }
  return alike.size() == 1 ||
         (alike.size() < claims.size() && NodesOf(alike) == 1);
}

HangPlace::Nccl NcclOf(const v1::RankStalled& said) {
  if (said.has_collective_entered()) return HangPlace::kUnknown;
  switch (said.nccl()) {
    case v1::NCCL_PLACE_BEHIND:
      return HangPlace::kBehind;
    case v1::NCCL_PLACE_WAITS:
      return HangPlace::kWaits;
    default:
      return HangPlace::kUnknown;
  }
}

// A rank that knows only what it has begun is taken to be in it.
uint64_t LeftOf(const v1::RankStalled& said) {
  if (said.has_collective_left()) return said.collective_left();
  return said.collective_entered() - (said.collective_entered() > 0);
}

}  // namespace

bool HasBegun(const v1::RankStalled& said) {
  return said.has_answered() || said.step() > 0;
}

HangPlace::HangPlace(const v1::RankStalled& said)
    : runs(!said.stopped()),
      begun(HasBegun(said)),
      answers(!said.has_answered() || said.answered()),
      nccl(NcclOf(said)),
      entered(said.has_answered() ? said.collective_entered() : UINT64_MAX),
      left(said.has_answered() ? LeftOf(said) : UINT64_MAX) {}

HangVerdict JudgeHang(const std::vector<HangClaim>& claims) {
  HangVerdict verdict;
  if (const std::optional<uint64_t> median = MedianOfNodes(claims)) {
    verdict.median = *median;
    // If the bound would overflow, no position is too far ahead.
    if (*median <= UINT64_MAX - kCollectivesAheadMax) {
      verdict.entered_max = *median + kCollectivesAheadMax;
    }
  }
  const auto key = [&claims](size_t at) {
    return std::make_tuple(HangPlace(*claims[at].said), claims[at].number);
  };
  // The claim at the median is believed, so this is not empty.
  std::vector<size_t> believed;
  for (size_t at = 0; at < claims.size(); ++at) {
    const v1::RankStalled& said = *claims[at].said;
    // A rank that knows only what it has begun may have queued any number of
    // collectives, or may count other operations too, so it is believed.
    const bool too_far = said.answered() && said.has_collective_left() &&
                         said.collective_entered() > verdict.entered_max;
    if (!too_far) {
      believed.push_back(at);
    } else if (!verdict.disbelieved.has_value() ||
               claims[at].number < claims[*verdict.disbelieved].number) {
      verdict.disbelieved = at;
    }
  }
  verdict.claim =
      *std::min_element(believed.begin(), believed.end(),
                        [&key](size_t a, size_t b) { return key(a) < key(b); });

  const HangClaim& behind = claims[verdict.claim];
  const HangPlace place(*behind.said);
  if (place.runs && !place.begun && !IsOneNodes(claims, place)) {
    verdict.kind = HangVerdict::Kind::kNotBegun;
  }
  if (!place.runs || !place.begun || !place.answers) return verdict;
  if (place.nccl == HangPlace::kBehind) {
    const bool several =
        std::any_of(claims.begin(), claims.end(), [&](const HangClaim& other) {
          return other.node_rank != behind.node_rank &&
                 HangPlace(*other.said).nccl == HangPlace::kBehind;
        });
    if (several) verdict.kind = HangVerdict::Kind::kSeveralBehindInNccl;
    return verdict;
  }
  std::set<int> nodes_ahead;
  size_t furthest = verdict.claim;
  for (const size_t at : believed) {
    const HangPlace other(*claims[at].said);
    if (claims[at].node_rank == behind.node_rank || other <= place) continue;
    nodes_ahead.insert(claims[at].node_rank);
    if (other > HangPlace(*claims[furthest].said)) furthest = at;
  }
  if (nodes_ahead.size() >= 2) return verdict;
  if (verdict.disbelieved.has_value()) {
    verdict.kind = HangVerdict::Kind::kTooFar;
    verdict.claim = *verdict.disbelieved;
  } else if (nodes_ahead.size() == 1 &&
             NodesOf(claims) >= kHangNodesToCompare) {
    verdict.kind = HangVerdict::Kind::kOneClaim;
    verdict.claim = furthest;
  }
  return verdict;
}

}  // namespace rollcall
