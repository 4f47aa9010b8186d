// What a check of nodes has found, once its rounds are over.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/text/printable.h"
#include "daemon/core/node_check/node_check.h"

namespace rollcall {
namespace {

std::string TimeText(absl::Duration time) {
  return absl::FormatDuration(absl::Trunc(time, absl::Microseconds(10)));
}

}  // namespace

bool NodeCheck::IsFound(size_t member) const {
  if (members_[member].gone) return false;
  const auto& [first, second] = members_[member].rounds;
  if (way_ == Way::kPairsOnce) return first.own || first.shared;
  if (rounds_ < 2) return false;
  if ((first.state == State::kFailed && second.state == State::kNone) ||
      (first.state == State::kNone && second.state == State::kFailed)) {
    return true;
  }
  if (!(first.own || first.shared) || !(second.own || second.shared)) {
    return false;
  }
  if (first.own || second.own) return true;
  // Both are properties of a pair.
  const std::vector<size_t> partners = PartnersOf(member, 1);
  return std::none_of(partners.begin(), partners.end(), [&](size_t other) {
    return ShareFirstGroup(other, member);
  });
}

std::string NodeCheck::TextOf(size_t member, size_t round) const {
  const Result& result = members_[member].rounds[round];
  if (result.state == State::kFailed) return result.error;
  if (result.own) {
    return absl::StrCat("matrix product ", TimeText(result.product),
                        ", median ", TimeText(*products_[round]));
  }
  const std::string with = absl::StrCat(
      "with ", absl::StrJoin(PartnersOf(member, round), ", ",
                             [this](std::string* to, size_t partner) {
                               to->append(members_[partner].node.node);
                             }));
  if (result.state == State::kPeerFailed) {
    return absl::StrCat(with, ": ", result.error);
  }
  return absl::StrCat("all-reduce ", with, " ", TimeText(result.all_reduce),
                      ", median ", TimeText(*all_reduces_[round]));
}

std::string NodeCheck::TextOf(size_t member) const {
  std::vector<std::string> texts;
  for (const size_t round : {0, 1}) {
    if (members_[member].rounds[round].state == State::kNone) continue;
    texts.push_back(TextOf(member, round));
  }
  return Printable(
      absl::StrCat("found by --node-check: ", absl::StrJoin(texts, "; then ")),
      Limits::node_reason_bytes_max);
}

std::vector<NodeCheckVerdict::Finding> NodeCheck::Findings(size_t spare) const {
  std::vector<size_t> found;
  // Those that are found, and those that failed or were slow once.
  size_t bad = 0;
  for (size_t i = 0; i < new_; ++i) {
    const bool is_found = IsFound(i);
    if (is_found) found.push_back(i);
    const auto& [first, second] = members_[i].rounds;
    if (is_found || first.own || second.own) ++bad;
  }
  const auto slowness = [this](size_t i) {
    absl::Duration slowest;
    for (const Result& result : members_[i].rounds) {
      if (result.state != State::kOk) return absl::InfiniteDuration();
      slowest = std::max(slowest, result.product);
    }
    return slowest;
  };
  std::stable_sort(found.begin(), found.end(), [&](size_t a, size_t b) {
    return slowness(a) > slowness(b);
  });
  size_t compared = 0;
  for (const Member& member : members_) {
    const bool known =
        member.node.product.has_value() || member.rounds[0].group >= 0;
    if (known && !member.gone) ++compared;
  }
  std::vector<NodeCheckVerdict::Finding> findings;
  for (const size_t i : found) {
    const auto& [first, second] = members_[i].rounds;
    // It needs no comparison. In one round of pairs, the other node may be the
    // cause, but this one is not needed now.
    const bool failed = first.state == State::kFailed &&
                        (way_ == Way::kPairsOnce ||
                         (alone() && second.state == State::kFailed));
    std::string stays;
    if (members_[i].node.launcher) {
      stays = "it is the launcher's own";
    } else if (failed) {
      spare -= std::min<size_t>(spare, 1);
    } else if (compared < kTimesMin) {
      stays = "fewer than 3 nodes can be compared";
    } else if (2 * bad > compared) {
      stays = "more than half of the nodes failed or were slow";
    } else if (spare == 0) {
      stays = "too few other nodes are there";
    } else {
      --spare;
    }
    findings.push_back({members_[i].node.node, TextOf(i), std::move(stays),
                        way_ == Way::kPairsOnce});
  }
  return findings;
}

std::optional<NodeCheckVerdict> NodeCheck::TakeVerdict(size_t spare) {
  if (!std::exchange(over_, false)) return std::nullopt;
  NodeCheckVerdict verdict;
  verdict.rounds = rounds_;
  verdict.product = products_[rounds_ - 1];
  verdict.all_reduce = all_reduces_[rounds_ - 1];
  for (size_t i = 0; i < new_; ++i) {
    const Member& member = members_[i];
    if (member.gone) continue;
    NodeCheckVerdict::Passed passed{member.node.node, std::nullopt};
    for (const Result& result : member.rounds) {
      if (result.state == State::kOk) passed.product = result.product;
    }
    verdict.checked.push_back(std::move(passed));
  }
  verdict.findings = Findings(spare);
  members_.clear();
  index_.clear();
  groups_ = {};
  return verdict;
}

}  // namespace rollcall
