// Job: ranks that live and stand still, and which of them began it.
//
// When one rank hangs, all others soon wait for it in a collective, and all are
// said to stand still. So nothing is judged until all have been, or the
// settlement's time is over; then hang_verdict says which one is to blame, and
// the others are not. Nor is anybody where they all wait at one place: it is
// for none of them, or for one that cannot be seen to stand still, as before it
// attends.
//
// A rank that has not begun (neither linked nor published a step) is expected
// to where ranks of most nodes have (Starts), which the members are told. It
// counts for nothing once a rank of its world has published a step: ranks that
// make steps together wait for nobody, and not every rank of a job needs to
// publish.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/durations.h"
#include "daemon/base/printable.h"
#include "daemon/core/hang_verdict.h"
#include "daemon/core/job/job.h"
#include "daemon/core/root_cause.h"

namespace rollcall {
namespace {

// Of how many ranks the words are kept: of more, numbers have to do.
constexpr size_t kTextsKept = 4096;

// How many ranks are named of those that have said nothing or have not begun.
constexpr size_t kRanksNamed = 4;

std::string FirstOf(std::vector<std::string> names) {
  const size_t more = names.size() - std::min(names.size(), kRanksNamed);
  names.resize(names.size() - more);
  return absl::StrCat(absl::StrJoin(names, ", "),
                      more > 0 ? absl::StrCat(" and ", more, " more") : "");
}

std::string InCollective(const v1::RankStalled& said) {
  if (!said.has_answered()) return "it cannot be asked where it is";
  if (said.collective_entered() == 0) return "it has entered no collective";
  if (said.collective_entered() > said.collective_left()) {
    return absl::StrCat("it is in collective ", said.collective_entered());
  }
  return absl::StrCat("it has left collective ", said.collective_left(),
                      " and entered no other");
}

// In a collective, or not yet ready for the first.
bool WaitsForOthers(const v1::RankStalled& said) {
  return said.collective_entered() > said.collective_left() ||
         (!said.has_collective_entered() && said.step() == 0);
}

}  // namespace

void Job::OnRankStalled(Node& node, const v1::RankStalled& stalled) {
  if (!HasRank(node, stalled.local_rank()) || phase_ != Phase::kRunning ||
      stalled.generation() != generation_ || !node.member() ||
      node.over(stalled.local_rank())) {
    return;
  }
  if (HasBegun(stalled)) {
    NoteStarted(node);
  } else if (stepped_in_ == generation_ && !stalled.goes_on()) {
    return;
  }
  const uint32_t rank = RankOf(node, stalled.local_rank());
  if (stalled.goes_on()) return DropStall(rank);
  const auto [at, fresh] = stalls_.try_emplace(rank);
  at->second.node_rank = node.node_rank;
  at->second.said = stalled;
  if (stalls_.size() > kTextsKept) at->second.said.clear_text();
  if (!fresh) return;
  at->second.number = ++last_stall_;
  if (stalls_.size() > 1) return MaybeEndHung();
  stalls_until_ = now_ + limits_.hang_settlement;
  SayOf(node, Log::Level::kWarning,
        absl::StrCat("event=stalled generation=", generation_, " rank=", rank,
                     " node=", node.hello.node(), " step=", stalled.step(),
                     " text=", Quoted(stalled.text())));
  MaybeEndHung();
}

// A world runs from now on.
void Job::BeginStarts() {
  std::vector<absl::Duration> took;
  for (const auto& [name, node] : nodes_) {
    if (node.member() && node.start_took) took.push_back(*node.start_took);
  }
  starts_ = Starts(static_cast<size_t>(world_.members_size()), std::move(took));
  if (starts_.expected()) TellRanksLink(MemberSessions());
}

void Job::NoteStarted(Node& node, absl::Duration took) {
  const bool known = node.start_took.has_value();
  node.start_took = std::max(took, node.start_took.value_or(took));
  if (known || phase_ != Phase::kRunning || !node.member()) return;
  Changed();  // Its first step shows.
  if (!starts_.Add(took)) return;
  Say(Log::Level::kInfo,
      absl::StrCat(
          "event=ranks-link generation=", generation_,
          " start_timeout=", absl::FormatDuration(limits_.start_timeout),
          " starts_took=", absl::FormatDuration(starts_.more())));
  TellRanksLink(MemberSessions());
}

void Job::TellRanksLink(std::vector<SessionId> sessions) {
  if (limits_.start_timeout <= absl::ZeroDuration()) return;
  v1::DaemonMessage message;
  v1::RanksLink& link = *message.mutable_ranks_link();
  link.set_generation(generation_);
  ToProto(limits_.start_timeout + starts_.more(), link.mutable_start_timeout());
  actions_.push_back(Send{std::move(sessions), std::move(message)});
}

// The generation that runs has published one.
void Job::NoteStep(Node& node) {
  NoteStarted(node);
  if (std::exchange(stepped_in_, generation_) == generation_) return;
  std::erase_if(stalls_,
                [](const auto& entry) { return !HasBegun(entry.second.said); });
  if (stalls_.empty()) DropStalls();
}

void Job::DropStall(uint32_t rank) {
  if (stalls_.erase(rank) > 0 && stalls_.empty()) DropStalls();
}

void Job::DropStallsOf(const Node& node) {
  if (stalls_.empty() || !node.member()) return;
  for (uint32_t i = 0; i < node.hello.ranks(); ++i) DropStall(RankOf(node, i));
}

void Job::DropStalls() {
  stalls_.clear();
  stalls_until_ = absl::InfiniteFuture();
  stalls_may_be_old_ = false;
}

bool Job::AllAreSaidToStand() const {
  return stalls_.size() + ranks_over_ >= world_.world_size();
}

// Whether ranks of some member have never started, of whom nothing is said
// where no start is expected.
bool Job::AMemberHasNotStarted() const {
  return std::any_of(nodes_.begin(), nodes_.end(), [](const auto& entry) {
    const Node& node = entry.second;
    return node.member() && !node.ended() && !node.start_took.has_value();
  });
}

// Nobody is behind: what they wait for is none of them.
bool Job::AllStandAtOnePlace() const {
  if (stalls_.empty()) return false;
  const bool all = AllAreSaidToStand();
  const v1::RankStalled& first = stalls_.begin()->second.said;
  // One alone may as well have begun it.
  if (stalls_.size() == 1 &&
      (all || first.step() > 0 || !AMemberHasNotStarted())) {
    return false;
  }
  return std::all_of(stalls_.begin(), stalls_.end(), [&](const auto& entry) {
    const v1::RankStalled& said = entry.second.said;
    return said.answered() && !said.stopped() &&
           HangPlace(said) == HangPlace(first) &&
           (all ? said.has_collective_entered() : WaitsForOthers(said));
  });
}

// Where they all stand, and for whom they wait.
std::string Job::WhereAllStand() const {
  const v1::RankStalled& said = stalls_.begin()->second.said;
  const std::string where =
      said.collective_entered() == 0 ? "have entered no collective"
      : said.collective_entered() > said.collective_left()
          ? absl::StrCat("are in collective ", said.collective_entered())
          : absl::StrCat("have left collective ", said.collective_left());
  if (AllAreSaidToStand()) {
    return absl::StrCat("all ", stalls_.size(), " ranks ", where,
                        ", so none of them is behind");
  }
  std::vector<std::string> missing;
  for (const auto& [name, node] : nodes_) {
    for (uint32_t i = 0; node.member() && i < node.hello.ranks(); ++i) {
      const uint32_t rank = RankOf(node, i);
      if (stalls_.contains(rank) || node.over(i)) continue;
      missing.push_back(absl::StrCat("rank ", rank, " on ", name));
    }
  }
  return absl::StrCat(stalls_.size(), " of ", world_.world_size(), " ranks ",
                      where,
                      " and wait for others: ", FirstOf(std::move(missing)));
}

std::string Job::WhoHasNotBegun() const {
  std::vector<std::string> names;
  for (const auto& [rank, stall] : stalls_) {
    if (HasBegun(stall.said)) continue;
    std::string name = absl::StrCat("rank ", rank, " on ",
                                    world_.members(stall.node_rank).node());
    if (!stall.said.text().empty()) {
      absl::StrAppend(&name, " (", stall.said.text(), ")");
    }
    names.push_back(std::move(name));
  }
  const size_t all = world_.world_size();
  const std::string how_many = names.size() == all
                                   ? absl::StrCat("all ", all)
                                   : absl::StrCat(names.size(), " of ", all);
  return absl::StrCat(how_many,
                      " ranks have neither linked nor published a step since "
                      "their start, and nothing tells them apart: ",
                      FirstOf(std::move(names)),
                      "; if they need longer, --start-timeout gives it");
}

// Whether it is not known yet what the ranks of some member do: it is away, and
// what it has said may be out of date; or it is back, and may not have said
// again what stands there. `all`: all ranks are said to stand, and so are those
// of members that are back.
bool Job::AMemberMayStillTell(bool all) const {
  return std::any_of(nodes_.begin(), nodes_.end(), [&](const auto& entry) {
    const Node& node = entry.second;
    return node.member() && !node.ended() &&
           (node.session == 0 || (!all && now_ < node.tells_until));
  });
}

// What sets the one that is to blame apart from the others.
std::string Job::WhereItStands(const Stall& stall,
                               uint64_t believed_max) const {
  const v1::RankStalled& said = stall.said;
  const HangPlace place(said);
  uint64_t furthest = 0;
  bool alone = true;
  for (const auto& [rank, other] : stalls_) {
    const uint64_t entered = other.said.collective_entered();
    if (entered <= believed_max) furthest = std::max(furthest, entered);
    alone = alone && (&other == &stall || HangPlace(other.said) != place);
  }
  std::string text;
  if (said.stopped()) {
    text = "it is stopped";
  } else if (!HasBegun(said)) {
    text = "it has neither linked nor published a step since its start";
  } else if (said.has_answered() && !said.answered()) {
    text = "it does not answer its agent";
  } else if (alone && stalls_.size() > 1 && said.has_answered()) {
    text = absl::StrCat(InCollective(said), ", while others are in ", furthest);
  } else {
    text = "it was the first to stand still";
    if (said.has_collective_entered()) {
      absl::StrAppend(&text, "; ", InCollective(said));
    }
  }
  if (HasBegun(said)) absl::StrAppend(&text, ", after step ", said.step());
  if (!said.text().empty()) absl::StrAppend(&text, " (", said.text(), ")");
  return text;
}

void Job::MaybeEndHung() {
  if (!MayEndHung()) return;
  const bool all = AllAreSaidToStand();
  if (now_ < stalls_until_ && (!all || stalls_may_be_old_)) return;
  if (AMemberMayStillTell(all)) {
    stalls_until_ = std::max(stalls_until_, now_ + limits_.last_call);
    return;
  }
  // Not by the time that it has run: it may have stood all the while.
  if (progressed_) MadeProgress();
  if (AllStandAtOnePlace()) {
    return GenerationFailed(CauseOfHang("", -1, WhereAllStand(), generation_));
  }
  EndHung();
}

void Job::EndHung() {
  std::vector<HangClaim> claims;
  std::vector<uint32_t> ranks;
  for (const auto& [rank, stall] : stalls_) {
    claims.push_back({stall.node_rank, stall.number, &stall.said});
    ranks.push_back(rank);
  }
  const auto node_of = [&](size_t claim) {
    return world_.members(claims[claim].node_rank).node();
  };
  const HangVerdict verdict = JudgeHang(claims);
  const uint32_t rank = ranks[verdict.claim];
  const std::string node = node_of(verdict.claim);
  const Stall& stall = stalls_.at(rank);
  using Kind = HangVerdict::Kind;
  if (verdict.kind == Kind::kOneClaim) {
    return GenerationFailed(CauseOfHang(
        "", -1,
        absl::StrCat("only rank ", rank, " on ", node,
                     " is said to be ahead of the others (",
                     InCollective(stall.said),
                     "), and no node is to blame by one other node's word"),
        generation_));
  }
  if (verdict.kind == Kind::kNotBegun) {
    return GenerationFailed(CauseOfHang("", -1, WhoHasNotBegun(), generation_));
  }
  const std::string too_far =
      absl::StrCat(" by its own word, over ", kCollectivesAheadMax,
                   " ahead of the others, which are in ", verdict.median);
  if (verdict.kind == Kind::kBehind && verdict.disbelieved.has_value()) {
    const uint32_t other = ranks[*verdict.disbelieved];
    Say(Log::Level::kWarning,
        absl::StrCat("event=disbelieved generation=", generation_, " rank=",
                     other, " node=", node_of(*verdict.disbelieved), " reason=",
                     Quoted(InCollective(stalls_.at(other).said) + too_far)));
  }
  const std::string detail =
      verdict.kind == Kind::kTooFar
          ? absl::StrCat(InCollective(stall.said), too_far, ", after step ",
                         stall.said.step())
          : WhereItStands(stall, verdict.entered_max);
  hung_ = stall.said.local_rank();
  GenerationFailed(
      CauseOfHang(node, static_cast<int32_t>(rank), detail, generation_));
  hung_.reset();
}

}  // namespace rollcall
