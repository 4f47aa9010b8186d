// Job: why a world of other nodes has to wait for the last world.
#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/base/name_list.h"
#include "daemon/base/printable.h"
#include "daemon/core/formation/world.h"
#include "daemon/core/job/job.h"

namespace rollcall {
namespace {

// Most members named in a message.
constexpr size_t kFencedNamedMax = 4;

// Members whose ranks have finished, or are not started (--once), do not keep
// the world from training. They neither open the fence nor are waited for.
std::vector<Fence::Member> WhoMayRun(const v1::World& world,
                                     const v1::Seal& seal,
                                     const std::set<uint32_t>& finished,
                                     absl::Time heard_at) {
  std::vector<Fence::Member> members;
  for (int row = 0; row < world.members_size(); ++row) {
    const v1::Member& member = world.members(row);
    if (finished.contains(member.node_rank())) continue;
    if (RanksStarted(member) == 0) continue;
    members.push_back(
        {member.node(),
         row < seal.incarnations_size() ? seal.incarnations(row) : 0,
         heard_at});
  }
  return members;
}

}  // namespace

// The running world has ended: from now on its members may run unheard.
void Job::FenceOff() {
  std::vector<Fence::Member> members =
      WhoMayRun(world_, *seal_, finished_, now_);
  for (Fence::Member& member : members) {
    const auto at = nodes_.find(member.node);
    if (at == nodes_.end() || at->second.served_in != generation_) continue;
    member.heard_at = at->second.heard_at;
  }
  fence_ = Fence(generation_, std::move(members));
  // Journaling it with the end of the generation would be too late.
  if (finished_due_ != absl::InfiniteFuture()) JournalFinished();
}

// The journal does not say when the members were last heard. The restart is the
// latest possible time.
void Job::RestoreFence(const JournalState& state) {
  if (!state.ran_proposal.has_value() || !state.ran_seal.has_value()) return;
  const absl::StatusOr<v1::World> world =
      DecodeWorld(state.ran_proposal->world());
  if (!world.ok()) return;
  std::set<uint32_t> finished;
  if (state.ran_finished.has_value()) {
    finished.insert(state.ran_finished->node_ranks().begin(),
                    state.ran_finished->node_ranks().end());
  }
  fence_ = Fence(world->generation(),
                 WhoMayRun(*world, *state.ran_seal, finished, now_));
}

// Whether this agent had ranks in the last world. An incarnation is not a
// secret, so a token does not prove it; only what this daemon has seen itself
// does.
bool Job::IsOfFenced(const Node& node) const {
  return (node.by_credential || node.served_in == fence_.generation()) &&
         fence_.Has({node.hello.node(), node.hello.incarnation()});
}

// Whether another agent now has the name of a member. (A journaled row may be
// of either.)
bool Job::IsTakenOver(const std::string& node) const {
  const auto at = nodes_.find(node);
  return fence_.HasNode(node) && at != nodes_.end() && !at->second.gone &&
         at->second.hello.incarnation() != 0 && !IsOfFenced(at->second);
}

bool Job::EvictsFormer(const std::string& node) const {
  return FenceLeft(now_) > absl::ZeroDuration() && IsTakenOver(node);
}

// Its ranks of all earlier generations are gone.
void Job::NoteStopped(const Node& node) {
  if (!IsOfFenced(node)) return;
  fence_.Gone(node.hello.node());
  FenceOpened();
}

// Journaled, so that the next daemon does not wait either.
void Job::FenceOpened() {
  // Nothing is journaled after the end.
  if (phase_ == Phase::kEnded) return;
  actions_.push_back(
      Journal{Journal::Kind::kFenceOpen, fence_.generation(), ""});
  Say(Log::Level::kInfo,
      absl::StrCat("event=fence_open generation=", fence_.generation()));
  Changed();
}

// Whether a world of these nodes must wait.
bool Job::IsFenced(const std::vector<Seated>& seated) {
  const absl::Time opens = fence_.Opens(limits_.unheard());
  if (now_ >= opens ||
      std::any_of(seated.begin(), seated.end(), [&](const Seated& s) {
        return IsOfFenced(nodes_.at(s.node));
      })) {
    Unfence();
    return false;
  }
  if (std::exchange(fenced_until_, opens) != opens) {
    Say(Log::Level::kWarning,
        absl::StrCat("event=fenced generation=", fence_.generation(),
                     " reason=", Quoted(FenceText(opens - now_))));
    Changed();
  }
  // A node without a seat may be a member of the last world.
  fence_asked_until_ = opens;
  for (const auto& [session, name] : sessions_) {
    const absl::Time held = HeldUntil(nodes_.at(name));
    if (held > now_) fence_asked_until_ = std::min(fence_asked_until_, held);
  }
  fence_asked_at_revision_ = revision_;
  return true;
}

// Enough nodes were present during the wait, so --join-timeout starts now.
void Job::Unfence() {
  if (fenced_until_ == absl::InfinitePast()) return;
  join_until_ = now_ + limits_.join_timeout;
  fenced_until_ = absl::InfinitePast();
  fence_asked_until_ = absl::InfinitePast();
}

// The fence may have opened since it was last asked.
absl::Duration Job::FenceLeft(absl::Time now) const {
  if (phase_ != Phase::kGathering || fence_.open()) {
    return absl::ZeroDuration();
  }
  return std::max(fenced_until_ - now, absl::ZeroDuration());
}

std::string Job::FenceText(absl::Duration left) const {
  const std::vector<Fence::Member>& members = fence_.members();
  std::vector<std::string> names;
  for (const Fence::Member& member : members) names.push_back(member.node);
  const bool one = members.size() == 1;
  // A member without a stream is preferred: another agent may have the name of
  // one with a stream by now.
  const auto absent = [&](const Fence::Member& member) {
    const auto at = nodes_.find(member.node);
    return at == nodes_.end() || at->second.session == 0;
  };
  auto advised = std::find_if(members.begin(), members.end(), absent);
  if (advised == members.end()) advised = members.begin();
  // Rounded: a person needs no finer value, and the status changes less often.
  const absl::Duration unit =
      left > absl::Minutes(1) ? absl::Minutes(1) : absl::Seconds(10);
  return absl::StrCat(
      "generation ", fence_.generation(), " may still train on ",
      NameList(std::move(names), kFencedNamedMax), ", whose former agent",
      one ? " is" : "s are", " not heard: the next world waits until ",
      one ? "it has" : "one of them has", " stopped, at most ",
      absl::FormatDuration(absl::Ceil(left, unit)),
      "; if one is known to be gone, `rollcall evict ", advised->node, "`");
}

}  // namespace rollcall
