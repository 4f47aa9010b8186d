#include "daemon/core/node_check/node_check.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/base/durations.h"
#include "daemon/base/text/name_list.h"

namespace rollcall {
namespace {

constexpr size_t kNamedInCheck = 8;

// `upper`: which one of two middle times.
std::optional<absl::Duration> MedianOf(std::vector<absl::Duration> times,
                                       bool upper) {
  if (times.empty()) return std::nullopt;
  const auto middle = times.begin() + (times.size() - (upper ? 0 : 1)) / 2;
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

bool IsSlow(absl::Duration time, std::optional<absl::Duration> median) {
  return median.has_value() && time >= NodeCheck::kSlowFactor * *median;
}

std::vector<std::vector<size_t>> Neighbours(size_t count) {
  std::vector<std::vector<size_t>> groups;
  for (size_t i = 0; i + 1 < count; i += 2) groups.push_back({i, i + 1});
  if (count % 2 == 1 && !groups.empty()) groups.back().push_back(count - 1);
  return groups;
}

std::vector<std::vector<size_t>> EachAlone(size_t count) {
  std::vector<std::vector<size_t>> groups;
  for (size_t i = 0; i < count; ++i) groups.push_back({i});
  return groups;
}

}  // namespace

NodeCheck::Requests NodeCheck::Open(const std::vector<NodeToCheck>& nodes,
                                    Way way, absl::Time now) {
  CHECK(!under_way());
  way_ = way;
  members_.clear();
  index_.clear();
  groups_ = {};
  over_ = false;
  rounds_ = 0;
  products_ = {};
  all_reduces_ = {};
  for (const NodeToCheck& node : nodes) {
    if (!node.checked) members_.push_back({node, false, {}});
  }
  new_ = members_.size();
  for (const NodeToCheck& node : nodes) {
    if (node.checked) members_.push_back({node, false, {}});
  }
  for (size_t i = 0; i < members_.size(); ++i) {
    index_[members_[i].node.node] = i;
  }
  if (draw_ == nullptr || new_ == 0) return {};
  if (!alone() && members_.size() < 2) return {};
  round_at_ = 0;
  began_ = now;
  return BeginRound(
      alone() ? EachAlone(new_) : Neighbours(std::max<size_t>(new_, 2)), now);
}

NodeCheck::Requests NodeCheck::BeginRound(
    std::vector<std::vector<size_t>> groups, absl::Time now) {
  ++number_;
  until_ = now + Limits::node_check_round + Limits::node_check_answer;
  awaited_ = 0;
  Requests requests;
  for (std::vector<size_t>& members : groups) {
    const int at = static_cast<int>(groups_[round_at_].size());
    groups_[round_at_].push_back({std::move(members), false});
    const Group& group = groups_[round_at_].back();
    for (const size_t member : group.members) Now(member).group = at;
    const size_t first = group.members[0];
    Await(first);
    requests.emplace_back(members_[first].node.node,
                          RequestFor(group, 0, Limits::node_check_round));
  }
  return requests;
}

v1::GroupCheck NodeCheck::RequestFor(const Group& group, size_t place,
                                     absl::Duration limit) const {
  v1::GroupCheck request;
  request.set_round(number_);
  for (const size_t member : group.members) {
    request.add_addresses(members_[member].node.address);
  }
  request.set_place(static_cast<uint32_t>(place));
  request.set_secret(
      draw_(number_,
            absl::StrCat("node check/", members_[group.members[0]].node.node)));
  ToProto(limit, request.mutable_limit());
  return request;
}

std::optional<size_t> NodeCheck::Awaited(const std::string& node,
                                         uint64_t round) const {
  const auto at = index_.find(node);
  if (!under_way() || at == index_.end() || round != number_ ||
      Now(at->second).state != State::kAwaited) {
    return std::nullopt;
  }
  return at->second;
}

void NodeCheck::Await(size_t member) {
  Now(member).state = State::kAwaited;
  ++awaited_;
}

void NodeCheck::Answered(size_t member, State state) {
  Now(member).state = state;
  --awaited_;
}

std::vector<size_t> NodeCheck::PartnersOf(size_t member, size_t round) const {
  std::vector<size_t> partners;
  const int group = members_[member].rounds[round].group;
  if (group < 0) return partners;
  for (const size_t other : groups_[round][group].members) {
    if (other != member) partners.push_back(other);
  }
  return partners;
}

NodeCheck::Requests NodeCheck::TakeListening(
    const std::string& node, const v1::GroupListening& listening,
    absl::Time now) {
  const std::optional<size_t> at = Awaited(node, listening.round());
  if (!at.has_value()) return {};
  Group& group = groups_[round_at_][Now(*at).group];
  if (group.members[0] != *at || group.listening) return {};
  group.listening = true;
  const absl::Duration left = until_ - Limits::node_check_answer - now;
  Requests requests;
  for (size_t place = 1; place < group.members.size(); ++place) {
    const size_t member = group.members[place];
    if (members_[member].gone) continue;
    Await(member);
    v1::GroupCheck request =
        RequestFor(group, place, std::max(left, absl::Seconds(1)));
    request.set_port(listening.port());
    requests.emplace_back(members_[member].node.node, std::move(request));
  }
  return requests;
}

bool NodeCheck::TakeChecked(const std::string& node,
                            const v1::GroupChecked& checked) {
  const std::optional<size_t> at = Awaited(node, checked.round());
  if (!at.has_value()) return false;
  Result& result = Now(*at);
  if (!checked.error().empty()) {
    const bool peer = checked.peer() && !alone();
    Answered(*at, peer ? State::kPeerFailed : State::kFailed);
    result.error = checked.error();
    if (peer) return true;
    // The others of its group would wait for it until their time is over, and
    // their results would not count.
    for (const size_t partner : PartnersOf(*at, round_at_)) {
      if (Now(partner).state == State::kAwaited) {
        Answered(partner, State::kNone);
      }
    }
    return true;
  }
  Answered(*at, State::kOk);
  result.product = FromProto(checked.product());
  result.all_reduce = FromProto(checked.all_reduce());
  return true;
}

void NodeCheck::Gone(const std::string& node) {
  const auto at = index_.find(node);
  if (!under_way() || at == index_.end()) return;
  members_[at->second].gone = true;
  if (Now(at->second).state == State::kAwaited) {
    Answered(at->second, State::kNone);
  }
}

NodeCheck::Requests NodeCheck::Advance(absl::Time now) {
  if (!under_way()) return {};
  if (awaited_ > 0 && now < until_) return {};
  JudgeRound();
  const bool found = std::any_of(
      members_.begin(), members_.begin() + new_, [](const Member& member) {
        const Result& first = member.rounds[0];
        return !member.gone &&
               (first.own || first.shared || first.state != State::kOk);
      });
  std::vector<std::vector<size_t>> groups;
  if (round_at_ == 0 && found && way_ != Way::kPairsOnce) {
    groups = alone() ? FoundAlone() : SecondGroups();
  }
  if (groups.empty()) {
    round_at_ = -1;
    over_ = true;
    if (!alone()) used_ += now - began_;
    return {};
  }
  round_at_ = 1;
  return BeginRound(std::move(groups), now);
}

// The nodes of a group measure the same all-reduces, each by its own clock: the
// least time counts for all of them.
void NodeCheck::ShareTimes() {
  for (const Group& group : groups_[round_at_]) {
    absl::Duration least = absl::InfiniteDuration();
    for (const size_t i : group.members) {
      if (Now(i).state == State::kOk) {
        least = std::min(least, Now(i).all_reduce);
      }
    }
    for (const size_t i : group.members) Now(i).all_reduce = least;
  }
}

// Marks the nodes that failed or were slow in the round that ends.
void NodeCheck::JudgeRound() {
  ShareTimes();
  rounds_ = round_at_ + 1;
  std::vector<absl::Duration> products, all_reduces;
  for (size_t i = 0; i < members_.size(); ++i) {
    Result& result = Now(i);
    if (result.state == State::kAwaited) {
      result.state = State::kFailed;
      result.error = "it did not answer in time";
    }
    if (result.state == State::kOk) {
      products.push_back(result.product);
      if (!alone()) all_reduces.push_back(result.all_reduce);
    } else if (members_[i].node.product.has_value()) {
      products.push_back(*members_[i].node.product);
    }
  }
  const bool enough = products.size() >= kTimesMin;
  // The upper middle, so that less than half of the nodes cannot make others
  // slow by reporting short times. Of two times, the smaller one is the base
  // for a warning.
  products_[round_at_] = MedianOf(products, /*upper=*/enough);
  all_reduces_[round_at_] = MedianOf(all_reduces, /*upper=*/false);
  for (size_t i = 0; i < members_.size(); ++i) {
    Result& result = Now(i);
    result.own =
        result.state == State::kFailed ||
        (result.state == State::kOk && (enough || products.size() == 2) &&
         IsSlow(result.product, products_[round_at_]));
  }
  if (alone()) return;
  for (const Group& group : groups_[round_at_]) {
    const bool excused =
        std::any_of(group.members.begin(), group.members.end(),
                    [&](size_t i) { return Now(i).own || members_[i].gone; });
    if (excused) continue;
    for (const size_t i : group.members) {
      Result& result = Now(i);
      result.shared = result.state == State::kPeerFailed ||
                      (result.state == State::kOk &&
                       IsSlow(result.all_reduce, all_reduces_[round_at_]));
    }
  }
}

std::vector<std::vector<size_t>> NodeCheck::FoundAlone() const {
  std::vector<std::vector<size_t>> groups;
  for (size_t i = 0; i < new_; ++i) {
    if (!members_[i].gone && members_[i].rounds[0].own) groups.push_back({i});
  }
  return groups;
}

bool NodeCheck::ShareFirstGroup(size_t a, size_t b) const {
  const int group = members_[a].rounds[0].group;
  return group >= 0 && group == members_[b].rounds[0].group;
}

// The fastest node with the slowest one, the second with the last but one, and
// so on. The faster node comes first, since the others need it.
std::vector<std::vector<size_t>> NodeCheck::SecondGroups() const {
  std::vector<size_t> order;
  std::vector<size_t> partners;
  for (size_t i = 0; i < members_.size(); ++i) {
    if (members_[i].gone) continue;
    (i < new_ ? order : partners).push_back(i);
  }
  // A partner that served in the first round comes last.
  std::stable_sort(partners.begin(), partners.end(),
                   [this](size_t a, size_t b) {
                     return (members_[a].rounds[0].group < 0) >
                            (members_[b].rounds[0].group < 0);
                   });
  // One or two new nodes get a partner each, if possible another one.
  if (order.size() <= 2 && partners.size() >= order.size()) {
    std::vector<std::vector<size_t>> groups;
    for (size_t i = 0; i < order.size(); ++i) {
      groups.push_back({partners[i], order[i]});
    }
    return groups;
  }
  const auto rank = [this](size_t i) {
    const Result& result = members_[i].rounds[0];
    switch (result.state) {
      case State::kOk:
        return std::pair(0, result.product);
      case State::kNone:
      case State::kAwaited:
        return std::pair(1, absl::ZeroDuration());
      case State::kPeerFailed:
        return std::pair(2, absl::ZeroDuration());
      case State::kFailed:
        return std::pair(3, absl::ZeroDuration());
    }
    return std::pair(3, absl::ZeroDuration());
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return rank(a) < rank(b); });
  std::vector<std::vector<size_t>> groups;
  const size_t pairs = order.size() / 2;
  for (size_t i = 0; i < pairs; ++i) {
    groups.push_back({order[i], order[order.size() - 1 - i]});
  }
  if (order.size() % 2 == 1 && pairs > 0) {
    groups.back().push_back(order[pairs]);
  }
  // The same pair again would tell nothing new.
  for (size_t i = 0; pairs >= 2 && i < pairs; ++i) {
    if (!ShareFirstGroup(groups[i][0], groups[i][1])) continue;
    std::swap(groups[i][1], groups[(i + 1) % pairs][1]);
  }
  return groups;
}

std::string NodeCheck::WaitingText() const {
  if (!under_way()) return "";
  std::vector<std::string> awaited = AwaitedNodes();
  return absl::StrCat(
      alone() ? "spares are checked, round " : "nodes check each other, round ",
      round_at_ + 1,
      awaited.empty()
          ? ""
          : absl::StrCat("; no answer yet from ",
                         NameList(std::move(awaited), kNamedInCheck)));
}

std::vector<std::string> NodeCheck::AwaitedNodes() const {
  std::vector<std::string> awaited;
  for (const Member& member : members_) {
    if (under_way() && member.rounds[round_at_].state == State::kAwaited) {
      awaited.push_back(member.node.node);
    }
  }
  return awaited;
}

}  // namespace rollcall
