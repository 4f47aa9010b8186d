// Job: silence, and whose it is. One node that is not heard is lost; when most
// of them are not heard, the daemon is.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/core/admission/admission.h"
#include "daemon/core/job/job.h"

namespace rollcall {

// A member's stream broke. One alone is that node's; over a tenth of a world's
// within a second are a switch's or a load balancer's, and the leases decide.
void Job::NoteBreak(Node& node) {
  const bool world = phase_ == Phase::kForming || phase_ == Phase::kRunning;
  if (!world || !node.member()) return;
  while (!breaks_.empty() &&
         now_ - breaks_.front().at > limits_.mass_break_window) {
    breaks_.pop_front();
  }
  // One that breaks again and again is still one.
  if (now_ - node.broke_at > limits_.mass_break_window) {
    node.broke_at = now_;
    breaks_.push_back({now_, node.hello.node(), false});
    if (breaks_.size() > Limits::nodes_max) breaks_.pop_front();
  }
  const size_t tenth = static_cast<size_t>(world_.members_size()) / 10;
  if (breaks_.size() <= tenth || breaks_.size() < Limits::mass_break_least) {
    return;
  }
  LeaveToItsLease(node);
  // Those before one that was counted have been as well.
  for (auto at = breaks_.rbegin(); at != breaks_.rend() && !at->counted; ++at) {
    at->counted = true;
    const auto other = nodes_.find(at->node);
    if (other != nodes_.end()) LeaveToItsLease(other->second);
  }
}

void Job::LeaveToItsLease(Node& node) {
  if (node.gone || node.session != 0 || node.broke_with_many) return;
  node.broke_with_many = true;
  node.reason = "its stream broke together with many others";
  SetDeadline(node, std::max(node.deadline, node.lease_until));
}

// Not heard for half a lease, where who lives is heard every third of one; or
// not back since its stream broke with many others, or since this daemon began.
// A stream that broke alone was no silence: its host has answered.
bool Job::IsSilent(const Node& node) const {
  if (node.session == 0) return node.broke_with_many;
  return node.lease_until <= now_ + limits_.lease / 2;
}

// Of over half of the world.
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
  isolated_ = true;
  isolated_until_ = now_ + limits_.daemon_grace;
  silent_ = 0;
  for (const v1::Member& member : world_.members()) {
    const auto at = nodes_.find(member.node());
    if (at == nodes_.end() || !at->second.member()) continue;
    if (!IsSilent(at->second)) continue;
    at->second.silent = true;
    ++silent_;
  }
  Say(Log::Level::kWarning,
      absl::StrCat("event=isolated generation=", generation_,
                   " silent=", silent_, " of=", world_.members_size(),
                   " reason=\"over half of the world fell silent within one "
                   "lease, so this daemon is the one cut off; nobody is given "
                   "up for ",
                   absl::FormatDuration(limits_.daemon_grace), "\""));
  Changed();
}

// It has said something, or it is known what became of it.
void Job::HeardFrom(Node& node) {
  if (!node.silent) return;
  node.silent = false;
  CHECK_GT(silent_, 0u);
  --silent_;
  MaybeReunite();
}

void Job::MaybeReunite() {
  if (!isolated_) return;
  // Before all are counted: this is asked for each of thousands.
  if (silent_ * 2 > static_cast<size_t>(world_.members_size())) return;
  size_t members = 0;
  for (const v1::Member& member : world_.members()) {
    const auto at = nodes_.find(member.node());
    members += at != nodes_.end() && at->second.member();
  }
  if (silent_ * 2 > members) return;
  Say(Log::Level::kInfo, absl::StrCat("event=reunited generation=", generation_,
                                      " silent=", silent_, " of=", members));
  EndIsolation();
}

// Who is still silent has one more lease.
void Job::EndIsolation() {
  isolated_ = false;
  isolated_until_ = absl::InfiniteFuture();
  silent_ = 0;
  for (auto& [name, node] : nodes_) {
    node.silent = false;
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
  // What has become of ranks that stood still is on its way.
  if (!stalls_.empty()) {
    stalls_until_ = now_ + limits_.hang_settlement;
    stalls_may_be_old_ = true;
  }
  Changed();
}

// They have not come back in all that time.
void Job::LoseTheSilent() {
  std::vector<std::string> names;
  for (const auto& [name, node] : nodes_) {
    if (node.silent) names.push_back(name);
  }
  EndIsolation();
  for (const std::string& name : names) {
    const auto at = nodes_.find(name);
    if (at == nodes_.end() || at->second.gone) continue;
    Lose(at->second, v1::REASON_CODE_LOST_LEASE,
         absl::StrCat("silent for ",
                      absl::FormatDuration(limits_.daemon_grace)));
  }
}

}  // namespace rollcall
