// Job: silence. One node that is not heard is lost; if most nodes are not
// heard, the daemon takes itself to be isolated.
#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/core/job/job.h"

namespace rollcall {

void Job::NoteBreak(Node& node) {
  const bool world = phase_ == Phase::kForming || phase_ == Phase::kRunning;
  if (!world || !node.member()) return;
  for (const std::string& name : isolation_.NoteBreak(
           node.hello.node(), static_cast<size_t>(world_.members_size()), now_,
           limits_)) {
    const auto at = nodes_.find(name);
    if (at != nodes_.end()) LeaveToItsLease(at->second);
  }
}

void Job::LeaveToItsLease(Node& node) {
  if (node.gone || node.session != 0 || node.broke_with_many) return;
  node.broke_with_many = true;
  node.reason = "its stream broke together with many others";
  SetDeadline(node, std::max(node.deadline, node.lease_until));
}

// Silent: not heard for half a lease, when live nodes are heard every third of
// one; or not back since its stream broke with many others or since this daemon
// started. A single broken stream is not silence: its host has answered.
bool Job::IsSilent(const Node& node) const {
  if (node.session == 0) return node.broke_with_many;
  return node.lease_until <= now_ + limits_.lease / 2;
}

// Whether over half of the world's members are silent.
bool Job::MostAreSilent() const {
  if (phase_ != Phase::kForming && phase_ != Phase::kRunning) return false;
  size_t members = 0;
  size_t silent = 0;
  for (const v1::Member& member : world_.members()) {
    const auto at = nodes_.find(member.node());
    if (at == nodes_.end() || !at->second.member()) continue;
    ++members;
    silent += IsSilent(at->second);
  }
  return silent * 2 > members;
}

void Job::TakeItselfForCutOff() {
  std::set<std::string> silent;
  for (const v1::Member& member : world_.members()) {
    const auto at = nodes_.find(member.node());
    if (at == nodes_.end() || !at->second.member()) continue;
    if (IsSilent(at->second)) silent.insert(member.node());
  }
  isolation_.Begin(std::move(silent), now_ + limits_.daemon_grace);
  Say(Log::Level::kWarning,
      absl::StrCat(
          "event=isolated generation=", generation_,
          " silent=", isolation_.silent(), " of=", world_.members_size(),
          " reason=\"over half of the world fell silent within one lease, so "
          "this daemon takes itself to be cut off; it gives up no node for ",
          absl::FormatDuration(limits_.daemon_grace), "\""));
  TellSpares();
  Changed();
}

// The node sent something, or the daemon knows what happened to it.
void Job::HeardFrom(Node& node) {
  if (isolation_.NoteHeard(node.hello.node())) MaybeReunite();
}

void Job::MaybeReunite() {
  // A cheap test before counting, since this is called for each of thousands.
  if (!isolation_.on() ||
      !isolation_.FewAreSilent(static_cast<size_t>(world_.members_size()))) {
    return;
  }
  size_t members = 0;
  for (const v1::Member& member : world_.members()) {
    const auto at = nodes_.find(member.node());
    members += at != nodes_.end() && at->second.member();
  }
  if (!isolation_.FewAreSilent(members)) return;
  Say(Log::Level::kInfo,
      absl::StrCat("event=reunited generation=", generation_,
                   " silent=", isolation_.silent(), " of=", members));
  EndIsolation();
}

// Nodes that are still silent get one more lease.
std::set<std::string> Job::EndIsolation() {
  std::set<std::string> silent = isolation_.End();
  for (auto& [name, node] : nodes_) {
    if (node.gone || node.deadline == absl::InfiniteFuture()) continue;
    SetDeadline(node, std::max(node.deadline, now_ + limits_.lease));
    node.lease_until = std::max(node.lease_until, now_ + limits_.lease);
  }
  if (phase_ == Phase::kForming) {
    prepare_deadline_ = now_ + limits_.prepare_timeout;
  }
  if (phase_ == Phase::kGathering) {
    gathering_since_ = now_;
    join_until_ = now_ + limits_.join_timeout;
  }
  if (phase_ == Phase::kRunning) grow_at_ = now_ + limits_.last_call;
  hangs_.BeginAgain(now_, limits_);
  TellSpares();
  Changed();
  return silent;
}

// These nodes have not come back during the isolation.
void Job::LoseTheSilent() {
  for (const std::string& name : EndIsolation()) {
    const auto at = nodes_.find(name);
    if (at == nodes_.end() || at->second.gone) continue;
    Lose(at->second, v1::REASON_CODE_LOST_LEASE,
         absl::StrCat("silent for ",
                      absl::FormatDuration(limits_.daemon_grace)));
  }
}

}  // namespace rollcall
