// Job: silence. A single node that is not heard is lost. If most nodes are not
// heard, the daemon takes itself to be isolated.
#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/core/job/job.h"

namespace rollcall {

void Job::NoteBreak(Node& node) {
  if (!HasWorld() || !node.member()) return;
  for (const std::string& name : isolation_.NoteBreak(
           node.name(), static_cast<size_t>(world().members_size()), now_,
           limits_)) {
    Node* const at = membership_.Find(name);
    if (at == nullptr || at->gone || at->session != 0 || at->broke_with_many) {
      continue;
    }
    // The node is lost only when its lease ends.
    at->broke_with_many = true;
    at->reason = "its stream broke together with many others";
    membership_.SetDeadline(*at, std::max(at->deadline, at->lease_until));
  }
}

void Job::MaybeTakeItselfForCutOff() {
  const Membership& membership = membership_;
  if (isolation_.on() || !HasWorld() ||
      !isolation_.MaybeBegin(membership.MembersOf(world()), now_, limits_)) {
    return;
  }
  out_.Say(
      Log::Level::kWarning,
      absl::StrCat(
          "event=isolated generation=", generation(),
          " silent=", isolation_.silent(), " of=", world().members_size(),
          " reason=\"over half of the world fell silent within one lease, so "
          "this daemon takes itself to be cut off; it gives up no node for ",
          absl::FormatDuration(limits_.daemon_grace), "\""));
  TellSpares();
  out_.Changed();
}

// The node sent something, or the daemon knows what happened to it.
void Job::HeardFrom(const std::string& name) {
  if (!isolation_.NoteHeard(name)) return;
  // A cheap test before the count, because this is called for thousands of
  // nodes.
  if (!isolation_.on() ||
      !isolation_.FewAreSilent(static_cast<size_t>(world().members_size()))) {
    return;
  }
  const size_t members = membership_.MembersOf(world()).size();
  if (!isolation_.FewAreSilent(members)) return;
  out_.Say(Log::Level::kInfo,
           absl::StrCat("event=reunited generation=", generation(),
                        " silent=", isolation_.silent(), " of=", members));
  EndIsolation();
}

// Nodes that are still silent get one more lease.
std::set<std::string> Job::EndIsolation() {
  std::set<std::string> silent = isolation_.End();
  for (auto& [name, node] : membership_.nodes()) {
    if (node.gone || node.deadline == absl::InfiniteFuture()) continue;
    membership_.SetDeadline(node,
                            std::max(node.deadline, now_ + limits_.lease));
    node.lease_until = std::max(node.lease_until, now_ + limits_.lease);
  }
  if (phase_ == Phase::kForming) formation_.Extend(now_, limits_);
  if (phase_ == Phase::kGathering) gathering_.BeginAgain(now_, limits_);
  if (IsRunning()) newcomers_.GrowAt(now_ + limits_.last_call);
  hangs_.BeginAgain(now_, limits_);
  TellSpares();
  out_.Changed();
  return silent;
}

// These nodes have not come back during the isolation.
void Job::LoseTheSilent() {
  for (const std::string& name : EndIsolation()) {
    Node* const at = membership_.Find(name);
    if (at == nullptr || at->gone) continue;
    Lose(*at, v1::REASON_CODE_LOST_LEASE,
         absl::StrCat("silent for ",
                      absl::FormatDuration(limits_.daemon_grace)));
  }
}

}  // namespace rollcall
