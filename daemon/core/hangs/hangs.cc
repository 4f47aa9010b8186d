#include "daemon/core/hangs/hangs.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/text/name_list.h"
#include "daemon/core/failures/root_cause.h"

namespace rollcall {
namespace {

// The texts of at most this many ranks are kept; for further ranks, only
// numbers.
constexpr size_t kTextsKept = 4096;

// Of the ranks that have reported nothing or have not begun, at most this many
// are named.
constexpr size_t kRanksNamed = 4;

// It is known to be in a collective, and not only to have begun it.
bool IsInCollective(const v1::RankStalled& said) {
  return said.has_collective_left() &&
         said.collective_entered() > said.collective_left();
}

std::string InCollective(const v1::RankStalled& said) {
  if (HangPlace(said).nccl == HangPlace::kWaits) return "it waits in NCCL";
  if (!said.has_answered()) return "its position is not known";
  // It does not count them, or has not connected to the others yet.
  if (!said.has_collective_entered()) return "it has reported no collective";
  if (said.collective_entered() == 0) return "it has entered no collective";
  if (!said.has_collective_left()) {
    return absl::StrCat("it has begun collective ", said.collective_entered());
  }
  if (IsInCollective(said)) {
    return absl::StrCat("it is in collective ", said.collective_entered());
  }
  return absl::StrCat("it has left collective ", said.collective_left(),
                      " and has entered no other");
}

// The rank is in a collective, may be in the one that it has begun, or is not
// yet ready for the first one.
bool MayWaitForOthers(const v1::RankStalled& said) {
  return HangPlace(said).nccl == HangPlace::kWaits ||
         said.collective_entered() > said.collective_left() ||
         (!said.has_collective_entered() && said.step() == 0);
}

Hangs::Decision NobodyIsToBlame(const std::string& detail,
                                const Hangs::World& world) {
  Hangs::Decision decision;
  decision.cause = CauseOfHang("", -1, detail, world.generation);
  return decision;
}

bool IsOver(const Hangs::Member& member) {
  return member.done.size() == member.ranks;
}

// Whether the ranks of some member have not started yet. If no start is
// expected, agents do not report such ranks as stalled.
bool AMemberHasNotStarted(const Hangs::World& world) {
  return std::any_of(world.members.begin(), world.members.end(),
                     [](const Hangs::Member& member) {
                       return !IsOver(member) && !member.has_begun;
                     });
}

// Whether the daemon still waits for a report of some member. `all`: all ranks
// are reported stalled, including those of members that have come back.
bool AMemberMayStillTell(const Hangs::World& world, bool all, absl::Time now) {
  return std::any_of(
      world.members.begin(), world.members.end(),
      [&](const Hangs::Member& member) {
        return !IsOver(member) &&
               (member.away || (!all && now < member.tells_until));
      });
}

}  // namespace

Hangs::World Hangs::World::Of(const v1::World& world,
                              const Completion& completion,
                              const Membership& membership) {
  World judged{
      world.generation(), world.world_size(), completion.ranks_over(), {}};
  for (const auto& [name, node] : membership.nodes()) {
    if (!node.member()) continue;
    judged.members.push_back({name, world.members(node.node_rank).first_rank(),
                              node.ranks.started, node.ranks.done,
                              node.ranks.start_took.has_value(),
                              node.session == 0, node.lease.tells_until});
  }
  return judged;
}

bool Hangs::Take(uint32_t rank, const std::string& node, int node_rank,
                 const v1::RankStalled& said, absl::Time now,
                 const Limits& limits) {
  if (!HasBegun(said) && HasStepped(said.generation()) && !said.goes_on()) {
    return false;
  }
  if (said.goes_on()) {
    Drop(rank);
    return false;
  }
  const auto [at, fresh] = stalls_.try_emplace(rank);
  Stall& stall = at->second;
  stall.node = node;
  stall.node_rank = node_rank;
  stall.said = said;
  if (stalls_.size() > kTextsKept) stall.said.clear_text();
  if (fresh) stall.number = ++last_number_;
  if (!fresh || stalls_.size() > 1) return false;
  WaitFrom(now, limits);
  return true;
}

void Hangs::WaitFrom(absl::Time now, const Limits& limits) {
  until_ = now + limits.hang_blame_window;
  at_latest_ = until_ + 2 * limits.lease;
}

void Hangs::NoteStep(uint64_t generation) {
  if (std::exchange(stepped_in_, generation) == generation) return;
  std::erase_if(stalls_,
                [](const auto& entry) { return !HasBegun(entry.second.said); });
  if (stalls_.empty()) DropAll();
}

void Hangs::Drop(uint32_t first_rank, uint32_t ranks) {
  if (stalls_.empty()) return;
  stalls_.erase(stalls_.lower_bound(first_rank),
                stalls_.lower_bound(first_rank + ranks));
  if (stalls_.empty()) DropAll();
}

void Hangs::DropAll() {
  stalls_.clear();
  until_ = at_latest_ = absl::InfiniteFuture();
  may_be_old_ = false;
}

void Hangs::AwaitMember(absl::Time now, const Limits& limits) {
  if (stalls_.empty()) return;
  until_ = std::min(std::max(until_, now + limits.arrivals_pause), at_latest_);
}

void Hangs::BeginAgain(absl::Time now, const Limits& limits) {
  if (stalls_.empty()) return;
  WaitFrom(now, limits);
  may_be_old_ = true;
}

std::optional<Hangs::Decision> Hangs::Judge(const World& world, absl::Time now,
                                            const Limits& limits) {
  if (!MayJudge(world.ranks_over, world.world_size, now)) return std::nullopt;
  const bool all = AllStand(world);
  if (now < at_latest_ && AMemberMayStillTell(world, all, now)) {
    AwaitMember(now, limits);
    return std::nullopt;
  }
  if (AllStandAtOnePlace(world)) {
    return NobodyIsToBlame(WhereAllStand(world), world);
  }
  return Blame(world);
}

// Whether no rank is behind, so that all wait for something else.
bool Hangs::AllStandAtOnePlace(const World& world) const {
  const bool all = AllStand(world);
  const v1::RankStalled& first = stalls_.begin()->second.said;
  // A single stalled rank may be the root cause itself.
  const bool waits = HangPlace(first).nccl == HangPlace::kWaits;
  if (stalls_.size() == 1 && (all || !waits) &&
      (all || first.step() > 0 || !AMemberHasNotStarted(world))) {
    return false;
  }
  return std::all_of(stalls_.begin(), stalls_.end(), [&](const auto& entry) {
    const v1::RankStalled& said = entry.second.said;
    const bool in_nccl = HangPlace(said).nccl == HangPlace::kWaits;
    return (said.answered() || in_nccl) && !said.stopped() &&
           HangPlace(said) == HangPlace(first) &&
           (all ? said.has_collective_entered() || in_nccl
                : MayWaitForOthers(said));
  });
}

// Text: the position at which all ranks wait, and what they wait for.
std::string Hangs::WhereAllStand(const World& world) const {
  const v1::RankStalled& said = stalls_.begin()->second.said;
  const std::string where =
      HangPlace(said).nccl == HangPlace::kWaits ? "are in collectives of NCCL"
      : said.collective_entered() == 0          ? "have entered no collective"
      : !said.has_collective_left()
          ? absl::StrCat("have begun collective ", said.collective_entered())
      : IsInCollective(said)
          ? absl::StrCat("are in collective ", said.collective_entered())
          : absl::StrCat("have left collective ", said.collective_left());
  if (AllStand(world)) {
    return absl::StrCat("all ", stalls_.size(), " ranks ", where,
                        ", so none of them is behind");
  }
  std::vector<std::string> missing;
  for (const Member& member : world.members) {
    for (uint32_t i = 0; i < member.ranks; ++i) {
      const uint32_t rank = member.first_rank + i;
      if (stalls_.contains(rank) || member.done.contains(i)) continue;
      missing.push_back(absl::StrCat("rank ", rank, " on ", member.node));
    }
  }
  const bool only_begun =
      said.collective_entered() > 0 && !said.has_collective_left();
  return absl::StrCat(
      stalls_.size(), " of ", world.world_size, " ranks ", where,
      only_begun ? " and may wait" : " and wait",
      " for others: ", NameList(std::move(missing), kRanksNamed));
}

// The ranks for which `holds` is true, with what their agents have observed.
template <typename Predicate>
std::vector<std::string> Hangs::NamesOf(const Predicate& holds) const {
  std::vector<std::string> names;
  for (const auto& [rank, stall] : stalls_) {
    if (!holds(stall.said)) continue;
    std::string name = absl::StrCat("rank ", rank, " on ", stall.node);
    if (!stall.said.text().empty()) {
      absl::StrAppend(&name, " (", stall.said.text(), ")");
    }
    names.push_back(std::move(name));
  }
  return names;
}

std::string Hangs::WhoHasNotBegun(const World& world) const {
  std::vector<std::string> names =
      NamesOf([](const v1::RankStalled& said) { return !HasBegun(said); });
  const size_t all = world.world_size;
  const std::string how_many = names.size() == all
                                   ? absl::StrCat("all ", all)
                                   : absl::StrCat(names.size(), " of ", all);
  return absl::StrCat(how_many,
                      " ranks have neither linked nor published a step since "
                      "their start, and nothing tells them apart: ",
                      NameList(std::move(names), kRanksNamed),
                      "; if they need longer, raise --start-timeout");
}

std::string Hangs::WhoIsBehindInNccl() const {
  return absl::StrCat(
      "ranks of several nodes have begun fewer collectives of NCCL than "
      "others, "
      "and nothing tells them apart: ",
      NameList(NamesOf([](const v1::RankStalled& said) {
                 return HangPlace(said).nccl == HangPlace::kBehind;
               }),
               kRanksNamed));
}

// Text: how the position of the rank to blame differs from the others.
std::string Hangs::WhereItStands(const Stall& stall,
                                 uint64_t believed_max) const {
  const v1::RankStalled& said = stall.said;
  const HangPlace place(said);
  uint64_t furthest = 0;
  bool alone = true, others_wait = false;
  for (const auto& [rank, other] : stalls_) {
    const uint64_t entered = other.said.collective_entered();
    if (entered <= believed_max) furthest = std::max(furthest, entered);
    alone = alone && (&other == &stall || HangPlace(other.said) != place);
    others_wait =
        others_wait || HangPlace(other.said).nccl == HangPlace::kWaits;
  }
  std::string text;
  if (said.stopped()) {
    text = "it is stopped";
  } else if (!HasBegun(said)) {
    text = "it has neither linked nor published a step since its start";
  } else if (said.has_answered() && !said.answered()) {
    text = "it does not answer its agent";
  } else if (place.nccl == HangPlace::kBehind) {
    text = "it has begun fewer collectives of NCCL than others";
  } else if (others_wait && place.nccl != HangPlace::kWaits) {
    text = "others are in collectives of NCCL, and it is not known to be";
  } else if (alone && stalls_.size() > 1 &&
             (said.has_collective_entered() ||
              (said.has_answered() && furthest > 0))) {
    text = absl::StrCat(InCollective(said), ", while others ",
                        said.has_collective_left() ? "are in " : "have begun ",
                        furthest);
  } else {
    text = "it was the first to stall";
    if (said.has_collective_entered()) {
      absl::StrAppend(&text, "; ", InCollective(said));
    }
  }
  if (HasBegun(said)) absl::StrAppend(&text, ", after step ", said.step());
  if (!said.text().empty()) absl::StrAppend(&text, " (", said.text(), ")");
  return text;
}

Hangs::Decision Hangs::Blame(const World& world) const {
  std::vector<HangClaim> claims;
  std::vector<uint32_t> ranks;
  for (const auto& [rank, stall] : stalls_) {
    claims.push_back({stall.node_rank, stall.number, &stall.said});
    ranks.push_back(rank);
  }
  const HangVerdict verdict = JudgeHang(claims);
  const uint32_t rank = ranks[verdict.claim];
  const Stall& stall = stalls_.at(rank);
  using Kind = HangVerdict::Kind;
  if (verdict.kind == Kind::kOneClaim) {
    return NobodyIsToBlame(
        absl::StrCat(
            "only rank ", rank, " on ", stall.node,
            " is reported ahead of the others (", InCollective(stall.said),
            "), and one node's report is not enough to blame another node"),
        world);
  }
  if (verdict.kind == Kind::kNotBegun) {
    return NobodyIsToBlame(WhoHasNotBegun(world), world);
  }
  if (verdict.kind == Kind::kSeveralBehindInNccl) {
    return NobodyIsToBlame(WhoIsBehindInNccl(), world);
  }
  const std::string too_far =
      absl::StrCat(" by its own report, over ", kCollectivesAheadMax,
                   " ahead of the others, which are in ", verdict.median);
  Decision decision;
  decision.cause =
      CauseOfHang(stall.node, static_cast<int32_t>(rank),
                  verdict.kind == Kind::kTooFar
                      ? absl::StrCat(InCollective(stall.said), too_far,
                                     ", after step ", stall.said.step())
                      : WhereItStands(stall, verdict.entered_max),
                  world.generation);
  if (verdict.kind == Kind::kBehind && verdict.disbelieved.has_value()) {
    const uint32_t other = ranks[*verdict.disbelieved];
    decision.disbelieved_rank = other;
    decision.disbelieved_node = stalls_.at(other).node;
    decision.disbelieved_reason =
        InCollective(stalls_.at(other).said) + too_far;
  }
  return decision;
}

}  // namespace rollcall
