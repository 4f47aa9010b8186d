#include "daemon/core/notices/notices.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/base/durations.h"
#include "daemon/base/text/name_list.h"
#include "daemon/base/text/printable.h"
#include "daemon/core/admission/grammar.h"

namespace rollcall {
namespace {

// At the deadline, agents kill the ranks that have not ended, and report it.
// The daemon waits this much longer for the reports.
constexpr absl::Duration kKillsReported = absl::Seconds(1);
constexpr size_t kKilledNamedMax = 8;
constexpr absl::Duration kLeavingDeadlineMax = absl::Minutes(10);
// A number that an agent reports is not plausible if it is this far ahead.
constexpr uint64_t kNumbersAheadMax = uint64_t{1} << 32;

int Gravity(v1::NoticeKind kind) {
  return kind == v1::NOTICE_KIND_PREEMPT ? 3
         : kind == v1::NOTICE_KIND_DRAIN ? 2
                                         : 1;
}

}  // namespace

absl::Duration LeavingDeadline(const v1::Leaving& leaving,
                               const Limits& limits) {
  // A signalled agent gets the same grace period as its ranks. All ranks wait
  // for the boundary until the deadline, so a node may not set it far away.
  const absl::Duration asked = leaving.has_deadline()
                                   ? FromProto(leaving.deadline())
                                   : limits.notice_time;
  return std::min(asked, std::max(kLeavingDeadlineMax, limits.notice_time));
}

v1::End RequeueEnd(const std::string& reason, uint32_t nodes_min,
                   const Limits& limits) {
  v1::End end;
  end.set_exit_code(limits.requeue_exit_code);
  end.set_code(v1::REASON_CODE_REQUEUE);
  end.set_reason(
      absl::StrCat(reason, "; fewer than ", nodes_min, " nodes are left"));
  return end;
}

Notices::Request Notices::TakeRequest(const Node& node, bool in_world,
                                      absl::Time until,
                                      const std::string& reason,
                                      const Membership& membership,
                                      uint32_t nodes_min, const Limits& limits,
                                      absl::Time now) {
  Request request;
  request.first = Leave(node.name());
  if (request.first) {
    if (in_world && !end_then_.has_value() &&
        TooFewWithout(node.name(), membership, nodes_min)) {
      EndThen(RequeueEnd(reason, nodes_min, limits));
    }
    request.journal = LeavingChanged(now);
  } else if (!pending() || until >= this->until()) {
    return request;
  }
  request.then = in_world ? Request::Then::kAsk : Request::Then::kAtOnce;
  return request;
}

bool Notices::TooFewWithout(const std::string& node,
                            const Membership& membership,
                            uint32_t nodes_min) const {
  // A cheap test before counting, since this is called for each of thousands.
  if (membership.present() + membership.suspects() >
      leaving_.size() + nodes_min) {
    return false;
  }
  size_t left = 0;
  for (const auto& [name, other] : membership.nodes()) {
    const bool here = other.session != 0 || membership.IsSuspect(name);
    left += here && !other.gone && !membership.IsExcluded(name) &&
            name != node && !Leaves(name);
  }
  return left < nodes_min;
}

bool Notices::LeavingChanged(absl::Time now) {
  unwritten_ = true;
  if (now - written_ >= kTogether) return true;
  due_ = std::min(due_, written_ + kTogether);
  return false;
}

v1::Notice Notices::TakeRecord(absl::Time now) {
  unwritten_ = false;
  written_ = now;
  v1::Notice record;
  for (const std::string& name : leaving_) record.add_nodes(name);
  if (end_then_.has_value()) *record.mutable_end() = *end_then_;
  // The number of the notice that will ask for this.
  record.set_notice(last_ + 1);
  return record;
}

void Notices::TakeUp(const v1::Notice& record) {
  // An implausibly high number is ignored, as for generations.
  if (AdmitCount("notice", record.notice(), uint64_t{1} << 61).ok()) {
    last_ = record.notice();
  }
  if (!record.has_end()) return;
  v1::End& end = end_then_.emplace();
  end.set_exit_code(record.end().exit_code());
  end.set_code(record.end().code());
  end.set_reason(Printable(record.end().reason(), Limits::stderr_tail_bytes));
}

bool Notices::Ask(v1::NoticeKind kind, absl::Time until,
                  const std::string& reason, bool again, absl::Time now) {
  const bool first = !pending_.has_value();
  if (first) pending_ = Pending();
  v1::Notice& notice = pending_->notice;
  const bool graver = first || Gravity(kind) > Gravity(notice.kind());
  if (graver) {
    notice.set_kind(kind);
    notice.set_reason(reason);
  } else if (kind == notice.kind()) {
    notice.set_reason(Printable(absl::StrCat(notice.reason(), "; ", reason),
                                Limits::stderr_tail_bytes));
  }
  const bool sooner = until < pending_->until;
  if (sooner) pending_->until = until;
  if (graver || (sooner && !again)) return true;
  return TellSoon(now);
}

bool Notices::TellSoon(absl::Time now) {
  if (now - pending_->told >= kTogether) return true;
  pending_->untold = true;
  due_ = std::min(due_, pending_->told + kTogether);
  return false;
}

const v1::Notice& Notices::Tell(
    uint64_t generation, std::map<uint32_t, std::string> missing,
    const std::function<bool(const std::string&)>& is_here, absl::Time now) {
  CHECK(pending_.has_value());
  pending_->told = now;
  pending_->untold = false;
  pending_->missing = std::move(missing);
  v1::Notice& notice = pending_->notice;
  notice.set_notice(++last_);
  notice.set_generation(generation);
  notice.clear_nodes();
  for (const std::string& name : leaving_) {
    if (is_here(name)) notice.add_nodes(name);
  }
  if (end_then_.has_value()) *notice.mutable_end() = *end_then_;
  return notice;
}

v1::Notice Notices::Now(absl::Time now) const {
  CHECK(pending_.has_value());
  v1::Notice notice = pending_->notice;
  if (pending_->until != absl::InfiniteFuture()) {
    ToProto(std::max(pending_->until - now, absl::ZeroDuration()),
            notice.mutable_deadline());
  }
  return notice;
}

Notices::Answer Notices::Seen(uint64_t notice, bool taken_up, absl::Time now) {
  const bool later = notice > last_;
  // If this daemon does not know the notice, it can only be from an earlier
  // daemon.
  if (!taken_up && (later || !pending_.has_value())) return Answer::kNothing;
  // An implausibly high number is ignored, as for generations.
  if (later && notice - last_ >= kNumbersAheadMax) return Answer::kNothing;
  if (!pending_.has_value()) {
    last_ = std::max(last_, notice);
    return Answer::kAsk;
  }
  if (later) {
    last_ = notice;
    return TellSoon(now) ? Answer::kTell : Answer::kNothing;
  }
  return notice == pending_->notice.notice() ? Answer::kReached
                                             : Answer::kNothing;
}

void Notices::Bound(absl::Time now, const Limits& limits) {
  if (!pending_.has_value() || pending_->until != absl::InfiniteFuture())
    return;
  pending_->until = now + limits.stop_grace + limits.lease;
}

bool Notices::Reached(uint32_t node_rank, absl::Time now,
                      const Limits& limits) {
  if (!pending_.has_value() || pending_->missing.erase(node_rank) == 0) {
    return false;
  }
  Bound(now, limits);
  return pending_->missing.empty();
}

void Notices::Killed(uint32_t rank, const std::string& node) {
  CHECK(pending_.has_value());
  pending_->killed.emplace(rank, node);
}

absl::Time Notices::BoundaryEnds(bool isolated) const {
  return isolated && !end_then_.has_value() ? absl::InfiniteFuture()
                                            : until() + kKillsReported;
}

// Names the ranks that were killed, and the nodes whose ranks have neither
// ended nor reached a step boundary. Empty if there are none.
std::string Notices::KilledText() const {
  std::vector<std::string> killed;
  for (const auto& [rank, node] : pending_->killed) {
    killed.push_back(absl::StrCat("rank ", rank, " on ", node));
  }
  std::vector<std::string> missing;
  for (const auto& [node_rank, node] : pending_->missing) {
    missing.push_back(node);
  }
  std::string text;
  if (!killed.empty()) {
    absl::StrAppend(&text, "; killed, since the time to save was over: ",
                    NameList(std::move(killed), kKilledNamedMax));
  }
  if (!missing.empty()) {
    absl::StrAppend(&text,
                    "; at no step boundary when the time to save was "
                    "over: ",
                    NameList(std::move(missing), kKilledNamedMax));
  }
  if (!text.empty()) {
    absl::StrAppend(&text, " (--notice-time gives them more)");
  }
  return text;
}

Notices::Outcome Notices::AtBoundary() const {
  CHECK(pending_.has_value());
  const std::string killed = KilledText();
  Outcome outcome;
  if (end_then_.has_value()) {
    outcome.end = *end_then_;
    outcome.end->set_reason(absl::StrCat(end_then_->reason(), killed));
    return outcome;
  }
  const v1::Notice& notice = pending_->notice;
  outcome.code = notice.kind() == v1::NOTICE_KIND_GROW
                     ? v1::REASON_CODE_GROW
                     : v1::REASON_CODE_LEAVING;
  outcome.reason = absl::StrCat(notice.reason(), killed);
  if (notice.nodes_size() > 0) outcome.node = notice.nodes(0);
  return outcome;
}

void Notices::DropAll() {
  pending_.reset();
  unwritten_ = false;
  due_ = absl::InfiniteFuture();
}

Notices::Due Notices::TakeDue(absl::Time now) {
  if (now < due_) return {};
  due_ = absl::InfiniteFuture();
  return {unwritten_, pending_.has_value() && pending_->untold};
}

}  // namespace rollcall
