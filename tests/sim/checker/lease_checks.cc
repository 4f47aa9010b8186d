// Part of InvariantChecker: which nodes the daemon declares lost, and when.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/checker/invariant_checker.h"

namespace rollcall::sim {

// Computes the leases again from what the job was told.
void InvariantChecker::CheckLeases(const Job& job, const Event& event,
                                   absl::Time now) {
  if (job.end().has_value()) return leases_.clear();
  if (const auto* attend = std::get_if<Attend>(&event)) {
    const auto at = leases_.find(attend->session);
    if (at != leases_.end()) at->second.until = now + lease_;
  } else if (const auto* said = std::get_if<Said>(&event)) {
    const auto at = leases_.find(said->session);
    if (at != leases_.end()) at->second.until = now + lease_;
  } else if (const auto* closed = std::get_if<StreamClosed>(&event)) {
    leases_.erase(closed->session);
  }
  const bool isolated = job.state() == v1::JOB_STATE_ISOLATED;
  if (isolated && !isolated_) {
    Tested(Invariant::kMajority);
    isolated_since_ = now;
  }
  if (std::exchange(isolated_, isolated) && !isolated) {
    for (auto& [session, lease] : leases_) {
      lease.until = std::max(lease.until, now + lease_);
    }
  }
  if (!std::holds_alternative<Tick>(event)) return;
  // This is checked before the leases: a job that misses a deadline also keeps
  // the node that the deadline is for, and this invariant names the cause more
  // exactly.
  Tested(Invariant::kNothingLeftDue);
  if (job.NextDeadline() <= now) {
    Broken(Invariant::kNothingLeftDue,
           absl::StrCat("the job asks for a moment ",
                        absl::FormatDuration(now - job.NextDeadline()),
                        " ago, in state ", v1::JobState_Name(job.state())));
  }
  for (auto& [session, lease] : leases_) {
    if (isolated || lease.until > now || !job.Attends(session)) continue;
    Broken(Invariant::kLeaseHolds,
           absl::StrCat("node ", lease.name, " is kept ",
                        absl::FormatDuration(now - lease.until),
                        " after its lease ended"));
  }
}

void InvariantChecker::OnClose(const CloseStream& close, absl::Time now) {
  claims_.erase(close.session);
  const auto lease = leases_.find(close.session);
  if (lease == leases_.end()) return;
  const v1::RefusalCode code = close.refusal.code();
  if (code == v1::REFUSAL_CODE_LOST) {
    Tested(Invariant::kLeaseHolds);
    if (lease->second.until > now) {
      Broken(Invariant::kLeaseHolds,
             absl::StrCat("node ", lease->second.name, " is given up ",
                          absl::FormatDuration(lease->second.until - now),
                          " before its lease ends"));
    }
    CheckMajority(lease->second.name, lease->second.until, now);
    out_[lease->second.name].insert(lease->second.incarnation);
  }
  leases_.erase(lease);
}

void InvariantChecker::CheckMajority(const std::string& name, absl::Time until,
                                     absl::Time now) {
  // Between two generations there is no world whose silence could count.
  if (!open_) return;
  // A node that was replaced, or whose stream broke, was not lost because of
  // silence.
  if (until > now || seats_.count(name) == 0) return;
  // A node that has finished may be lost without a new world, and a spare may
  // have taken its name since.
  const auto sits = [&](const std::string& seated) {
    return seats_.contains(seated) && members_.contains(seated);
  };
  size_t silent = 0;
  size_t seated = 0;
  for (const auto& [session, lease] : leases_) {
    silent += sits(lease.name) && lease.until <= now + lease_ / 2;
  }
  for (const auto& [node, seat] : seats_) seated += sits(node);
  if (silent * 2 > seated) Tested(Invariant::kMajority);
  if (silent * 2 <= seated) return;
  if (isolated_ && now - isolated_since_ >= daemon_grace_) return;
  Broken(
      Invariant::kMajority,
      absl::StrCat(
          "node ", name, " is given up, ", silent, " of ", seated,
          " are silent, and the daemon is ",
          isolated_ ? absl::StrCat("isolated for ",
                                   absl::FormatDuration(now - isolated_since_))
                    : "not isolated"));
}

// Only a step with a due deadline can declare silent nodes lost.
void InvariantChecker::NoteMembers(const Job& job, absl::Time now) {
  if (job.NextDeadline() > now) return;
  members_.clear();
  const v1::JobStatus status = job.Status(now);
  for (const v1::NodeStatus& node : status.nodes()) {
    if (node.node_rank() >= 0) members_.insert(node.node());
  }
}

// A member whose stream has just broken has a grace to come back.
void InvariantChecker::NoteSuspects(const Job& job, const Event& event,
                                    absl::Time now) {
  const auto* closed = std::get_if<StreamClosed>(&event);
  if (closed == nullptr || job.end().has_value()) return;
  const auto lease = leases_.find(closed->session);
  if (lease == leases_.end() || !seats_.contains(lease->second.name)) return;
  const v1::JobStatus status = job.Status(now);
  for (const v1::NodeStatus& node : status.nodes()) {
    if (node.node() == lease->second.name && node.seat() >= 0 &&
        node.state() == v1::NODE_STATE_SUSPECT) {
      suspects_[node.node()] =
          std::min(lease->second.until, now + reconnect_grace_);
    }
  }
}

}  // namespace rollcall::sim
