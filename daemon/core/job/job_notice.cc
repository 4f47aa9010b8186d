// Job: nodes that leave, newcomers, and what all ranks are asked for first.
#include <algorithm>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/base/durations.h"
#include "daemon/base/name_list.h"
#include "daemon/base/printable.h"
#include "daemon/core/job/job.h"

namespace rollcall {
namespace {

// Requests to leave are journaled and sent together after this time: one
// message to all nodes for each of them would overload any network.
constexpr absl::Duration kTogether = absl::Milliseconds(100);
// At the deadline, agents kill the ranks that have not ended, and report it.
// The daemon waits this much longer for the reports.
constexpr absl::Duration kKillsReported = absl::Seconds(1);
constexpr size_t kKilledNamedMax = 8;

// Most time that all ranks wait for a boundary because one node asks to leave.
constexpr absl::Duration kLeavingDeadlineMax = absl::Minutes(10);

}  // namespace

void Job::On(const DrainAsked& drain) {
  const auto at = nodes_.find(drain.node);
  if (at == nodes_.end() || at->second.gone) return;  // The shell said so.
  AskToLeave(at->second, drain.deadline,
             drain.reason.empty() ? "drained" : drain.reason);
  // The admin is told that the request is done. An agent would ask again.
  if (leaving_unwritten_) JournalLeaving();
}

void Job::On(const EvictAsked& evict) {
  if (phase_ == Phase::kEnded) return;  // The shell said so.
  const std::string reason = evict.reason.empty()
                                 ? "evicted"
                                 : absl::StrCat("evicted: ", evict.reason);
  for (const std::string& name : evict.nodes) {
    if (phase_ == Phase::kEnded) return;
    if (evict.former) {
      // Its credential became invalid when the other agent took the name.
      Say(Log::Level::kWarning,
          absl::StrCat("event=evict node=", name,
                       " former=true reason=", Quoted(reason)));
      if (fence_.Gone(name)) FenceOpened();
      continue;
    }
    const bool taken_over = IsTakenOver(name);
    node_epochs_.Raise(name);
    // Of the run that this job had before adoption.
    if (former_epochs_.Has(name)) former_epochs_.Raise(name);
    const auto at = nodes_.find(name);
    if (at != nodes_.end() && !at->second.gone) {
      Lose(at->second, v1::REASON_CODE_EVICTED, reason);
    } else {
      Say(Log::Level::kWarning,
          absl::StrCat("event=evict node=", name, " reason=", Quoted(reason)));
    }
    // The agent that had the name before may still run ranks.
    if (!taken_over && fence_.Gone(name)) FenceOpened();
    // The node is evicted. If it is admitted again, it is not asked to leave.
    if (phase_ != Phase::kEnded) ForgetLeaving(name);
  }
}

void Job::OnLeaving(Node& node, const v1::Leaving& leaving) {
  // A signalled agent gets the same grace period as its ranks. All ranks wait
  // for the boundary until the deadline, so a node may not set it far away.
  const absl::Duration deadline = leaving.has_deadline()
                                      ? FromProto(leaving.deadline())
                                      : limits_.notice_time;
  // Counts as a loss, since the node may attend again at once. A drain by a
  // person does not count.
  CountLoss(node);
  const absl::Duration most =
      std::max(kLeavingDeadlineMax, limits_.notice_time);
  AskToLeave(node, std::min(deadline, most), leaving.reason());
}

void Job::AskToLeave(Node& node, absl::Duration deadline,
                     const std::string& reason) {
  if (phase_ == Phase::kEnded) return;
  deadline = std::max(deadline, absl::ZeroDuration());
  const std::string text = absl::StrCat(node.hello.node(), " leaves: ", reason);
  const bool in_world =
      phase_ == Phase::kRunning && node.member() && !node.finished();
  const bool again = !leaving_.insert(node.hello.node()).second;
  if (!again) {
    node.state = v1::NODE_STATE_DRAINING;
    node.reason = text;
    if (in_world && !end_then_.has_value() &&
        TooFewWithout(node.hello.node())) {
      end_then_ = RequeueEnd(text);
    }
    LeavingChanged();
    Changed();
  } else if (!pending_.has_value() || now_ + deadline >= pending_->until) {
    return;  // Asked before, and not to be sooner than that.
  }
  if (!in_world) return LeaveAtOnce(node, text);
  Ask(end_then_.has_value() ? v1::NOTICE_KIND_PREEMPT : v1::NOTICE_KIND_DRAIN,
      deadline, text, again);
}

// For a node without a running rank.
void Job::LeaveAtOnce(Node& node, const std::string& reason) {
  const bool forming = phase_ == Phase::kForming && node.member();
  // A member that leaves between two generations ends the job, as it would have
  // just before.
  const bool between =
      generation_ > 0 && node.seat >= 0 && phase_ == Phase::kGathering;
  const bool finished = phase_ == Phase::kRunning && node.member();
  const std::string name = node.hello.node();
  if (!finished) {
    Bar(node, reason);
    node.state = v1::NODE_STATE_DRAINING;
    // Before the first world there is nothing to requeue, and others may come.
    if ((forming || between) && HasRun() && TooFewWithout(name)) {
      return Finish(RequeueEnd(reason));
    }
  }
  SendLeft(node);
  if (forming) Reform(v1::REASON_CODE_LEAVING, reason, name);
}

// Whether too few nodes would be left; nodes that already leave do not count.
bool Job::TooFewWithout(const std::string& node) const {
  // A cheap test before counting, since this is called for each of thousands.
  if (Present() + suspects_.size() > leaving_.size() + nodes_min_) return false;
  size_t left = 0;
  for (const auto& [name, other] : nodes_) {
    const bool here = other.session != 0 || suspects_.contains(name);
    left += here && !other.gone && !barred_.contains(name) && name != node &&
            !Leaves(other);
  }
  return left < nodes_min_;
}

v1::End Job::RequeueEnd(const std::string& reason) const {
  v1::End end;
  end.set_exit_code(limits_.requeue_exit_code);
  end.set_code(v1::REASON_CODE_REQUEUE);
  end.set_reason(
      absl::StrCat(reason, "; fewer than ", nodes_min_, " nodes are left"));
  return end;
}

void Job::LeavingChanged() {
  leaving_unwritten_ = true;
  if (now_ - leaving_written_ >= kTogether) return JournalLeaving();
  leaving_due_ = std::min(leaving_due_, leaving_written_ + kTogether);
}

void Job::MaybeTellLeaving() {
  if (now_ < leaving_due_) return;
  leaving_due_ = absl::InfiniteFuture();
  if (leaving_unwritten_) JournalLeaving();
  if (pending_.has_value() && pending_->untold) TellNotice();
}

void Job::JournalLeaving() {
  leaving_unwritten_ = false;
  leaving_written_ = now_;
  v1::Notice notice;
  for (const std::string& name : leaving_) notice.add_nodes(name);
  if (end_then_.has_value()) *notice.mutable_end() = *end_then_;
  // The number of the notice that will ask for it.
  notice.set_notice(last_notice_ + 1);
  actions_.push_back(Journal{Journal::Kind::kLeaving, generation_,
                             notice.SerializeAsString()});
}

void Job::ForgetLeaving(const std::string& name) {
  if (leaving_.erase(name) > 0 && phase_ != Phase::kEnded) LeavingChanged();
}

// The node's agent may exit.
void Job::SendLeft(const Node& node) {
  v1::DaemonMessage message;
  message.mutable_end()->set_finished(true);
  message.mutable_end()->set_code(v1::REASON_CODE_LEAVING);
  message.mutable_end()->set_reason("this node left the job");
  ToNode(node, std::move(message));
}

// Requests that come together make one notice, with the most severe kind and
// the earliest deadline.
void Job::Ask(v1::NoticeKind kind, absl::Duration deadline,
              const std::string& reason, bool again) {
  CHECK(phase_ == Phase::kRunning);
  const bool first = !pending_.has_value();
  if (first) pending_ = Pending();
  v1::Notice& notice = pending_->notice;
  const auto gravity = [](v1::NoticeKind k) {
    return k == v1::NOTICE_KIND_PREEMPT ? 3
           : k == v1::NOTICE_KIND_DRAIN ? 2
                                        : 1;
  };
  const bool graver = first || gravity(kind) > gravity(notice.kind());
  if (graver) {
    notice.set_kind(kind);
    notice.set_reason(reason);
  } else if (kind == notice.kind()) {
    notice.set_reason(Printable(absl::StrCat(notice.reason(), "; ", reason),
                                Limits::stderr_tail_bytes));
  }
  const bool sooner = now_ + deadline < pending_->until;
  if (sooner) pending_->until = now_ + deadline;
  if (graver || (sooner && !again)) return TellNotice();
  TellNoticeSoon();
}

// Changes within kTogether are sent as one notice.
void Job::TellNoticeSoon() {
  if (now_ - pending_->told >= kTogether) return TellNotice();
  pending_->untold = true;
  leaving_due_ = std::min(leaving_due_, pending_->told + kTogether);
}

// The notice gets a new number, and all members answer it again.
void Job::TellNotice() {
  if (leaving_unwritten_) JournalLeaving();
  pending_->told = now_;
  pending_->untold = false;
  v1::Notice& notice = pending_->notice;
  notice.set_notice(++last_notice_);
  notice.set_generation(generation_);
  notice.clear_nodes();
  for (const std::string& name : leaving_) {
    if (Knows(name)) notice.add_nodes(name);
  }
  if (end_then_.has_value()) *notice.mutable_end() = *end_then_;
  pending_->missing = 0;
  for (const v1::Member& member : world_.members()) {
    const auto at = nodes_.find(member.node());
    if (at == nodes_.end() || !at->second.member()) continue;
    at->second.at_boundary = at->second.ended();
    pending_->missing += !at->second.at_boundary;
  }
  actions_.push_back(Send{MemberSessions(), NoticeNow(now_)});
  Say(Log::Level::kInfo,
      absl::StrCat("event=notice notice=", last_notice_, " generation=",
                   generation_, " kind=", v1::NoticeKind_Name(notice.kind()),
                   " reason=", Quoted(notice.reason())));
  Changed();
}

v1::DaemonMessage Job::NoticeNow(absl::Time now) const {
  v1::DaemonMessage message;
  *message.mutable_notice() = pending_->notice;
  if (pending_->until != absl::InfiniteFuture()) {
    ToProto(std::max(pending_->until - now, absl::ZeroDuration()),
            message.mutable_notice()->mutable_deadline());
  }
  return message;
}

void Job::OnNoticeSeen(Node& node, const v1::NoticeSeen& seen) {
  if (phase_ != Phase::kRunning || !node.member() ||
      seen.generation() != generation_) {
    return;
  }
  const bool later = seen.notice() > last_notice_;
  // A notice that this daemon does not know can only be from an earlier daemon.
  if (!world_taken_up_ && (later || !pending_.has_value())) return;
  // As with generations, an implausibly high number is ignored.
  if (later && seen.notice() - last_notice_ >= (uint64_t{1} << 32)) return;
  if (!pending_.has_value()) {
    last_notice_ = std::max(last_notice_, seen.notice());
    return AskAmidAChange();
  }
  if (later) {
    // From this daemon's previous life. Numbers continue above it.
    last_notice_ = seen.notice();
    return TellNoticeSoon();
  }
  if (seen.notice() == pending_->notice.notice()) AtBoundary(node);
}

// Whether the generation runs and nothing has asked its ranks to end.
bool Job::NothingIsAsked(uint64_t generation) const {
  return phase_ == Phase::kRunning && generation == generation_ &&
         !pending_.has_value() && !world_taken_up_;
}

void Job::OnEndedForNotice(const Node& node, const v1::RankExited& exited) {
  if (phase_ != Phase::kRunning || !node.member() ||
      exited.generation() != generation_) {
    return;
  }
  if (!pending_.has_value()) AskAmidAChange();
  BoundPending();
  if (exited.signal() != SIGKILL) return;
  pending_->killed.emplace(RankOf(node, exited.local_rank()),
                           node.hello.node());
}

// Names the ranks that were killed, and the nodes whose ranks have neither
// ended nor reached a step boundary. Empty if there are none.
std::string Job::KilledText() const {
  std::vector<std::string> killed;
  for (const auto& [rank, node] : pending_->killed) {
    killed.push_back(absl::StrCat("rank ", rank, " on ", node));
  }
  std::vector<std::string> missing;
  for (const v1::Member& member : world_.members()) {
    const auto at = nodes_.find(member.node());
    if (at == nodes_.end() || !at->second.member()) continue;
    if (!at->second.at_boundary) missing.push_back(member.node());
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

// For a notice of this daemon's previous life that was not journaled: ranks
// wait at its boundary, or have ended because of it.
void Job::AskAmidAChange() {
  Ask(v1::NOTICE_KIND_GROW, absl::InfiniteDuration(),
      "the daemon was restarted during a change");
}

// A rank waits at the boundary, or has ended because of it. The others are at
// most a step behind, unless something is wrong with them.
void Job::BoundPending() {
  if (!pending_.has_value() || pending_->until != absl::InfiniteFuture())
    return;
  pending_->until = now_ + limits_.stop_grace + limits_.lease;
}

void Job::AtBoundary(Node& node) {
  if (!pending_.has_value() || node.at_boundary) return;
  node.at_boundary = true;
  BoundPending();
  CHECK_GT(pending_->missing, 0u);
  if (--pending_->missing == 0) EndAtBoundary();
}

absl::Time Job::BoundaryEnds() const {
  return pending_->until + kKillsReported;
}

// All members have reached the boundary, or the deadline has passed.
void Job::EndAtBoundary() {
  const std::string killed = KilledText();
  if (end_then_.has_value()) {
    v1::End end = *end_then_;
    end.set_reason(absl::StrCat(end.reason(), killed));
    return Finish(std::move(end));
  }
  const v1::Notice notice = pending_->notice;
  const bool grows = notice.kind() == v1::NOTICE_KIND_GROW;
  Reform(grows ? v1::REASON_CODE_GROW : v1::REASON_CODE_LEAVING,
         absl::StrCat(notice.reason(), killed),
         notice.nodes_size() > 0 ? notice.nodes(0) : "");
}

// The generation has ended, at its boundary or before: nodes that were asked to
// leave now leave.
void Job::DropPending() {
  pending_.reset();
  grow_at_ = absl::InfiniteFuture();
  for (const std::string& name : leaving_) {
    const auto at = nodes_.find(name);
    if (at == nodes_.end() || at->second.gone) continue;
    Node& node = at->second;
    if (node.session != 0 && !barred_.contains(name)) {
      Bar(node, node.reason);
    }
    node.seat = -1;
    node.state = v1::NODE_STATE_DRAINING;
  }
}

// --- Newcomers ---------------------------------------------------------------

// When the first attended node may have one of the free seats; InfiniteFuture:
// none may.
absl::Time Job::NewcomerDue() const {
  absl::Time due = absl::InfiniteFuture();
  if (static_cast<uint32_t>(world_.members_size()) >= nodes_max_) return due;
  for (const auto& [name, node] : nodes_) {
    if (node.session == 0 || node.member() || Leaves(node) ||
        barred_.contains(name) || IsSilentProber(name)) {
      continue;
    }
    const absl::Time until = HeldUntil(node);
    if (until <= now_) return now_;
    due = std::min(due, until);
  }
  return due;
}

// It may have a seat once others have reached it.
void Job::GrowSoon(Node& node) {
  reach_.Came(node.hello.node(), now_);
  ProbeSoon();
}

// Finished work is not repeated for a node that comes late, also if the node
// that did it has left since.
bool Job::WorkIsDone() const {
  return !finished_.empty() ||
         std::any_of(nodes_.begin(), nodes_.end(), [](const auto& entry) {
           return entry.second.member() && !entry.second.done.empty();
         });
}

void Job::MaybeGrow() {
  if (now_ < grow_at_) return;
  grow_at_ = absl::InfiniteFuture();
  if (phase_ != Phase::kRunning || pending_.has_value() || isolation_.on() ||
      settings_.grow() == v1::GROW_NEVER) {
    return;
  }
  const absl::Time due = NewcomerDue();
  if (due > now_) {
    grow_at_ = due;
    return;
  }
  if (WorkIsDone()) return;
  Ask(v1::NOTICE_KIND_GROW, absl::InfiniteDuration(),
      absl::StrCat("to take in ", CallNewcomers()));
}

// Names the newcomers that may have a seat, and marks them as called.
std::string Job::CallNewcomers() {
  std::string names;
  size_t more = 0;
  for (auto& [name, node] : nodes_) {
    if (node.session == 0 || node.member() || barred_.contains(name) ||
        IsHeld(node) || IsSilentProber(name)) {
      continue;
    }
    node.called = true;
    if (names.size() > 200) {
      ++more;
    } else {
      absl::StrAppend(&names, names.empty() ? "" : ", ", name);
    }
  }
  if (more > 0) absl::StrAppend(&names, " and ", more, " more");
  return names;
}

// The node was in the world, or the world was ended to take it in, and it has
// left or was lost.
void Job::CountLoss(Node& node) {
  if (!node.member() && !node.called) return;
  node.called = false;
  const bool joined = node.joined_at != absl::InfiniteFuture();
  newcomers_.Lost(node.hello.node(), generation_,
                  joined ? now_ - node.joined_at : absl::ZeroDuration(), now_,
                  limits_);
}

// So that a user sees why a node waits although a seat is free.
void Job::SayHold(Node& node) {
  const Newcomers::Hold hold =
      newcomers_.HoldOf(node.hello.node(), now_, limits_);
  if (node.seat >= 0 || hold.until <= now_) return;
  const std::string after =
      absl::StrCat(" times soon after joining; ",
                   hold.own ? "it" : "a new node", " gets no seat until ",
                   absl::FormatDuration(hold.delay), " after the latest loss");
  const std::string reason = absl::StrCat(
      hold.own ? "it was lost " : "new nodes of several names were lost ",
      hold.losses, after);
  if (std::exchange(node.reason, reason) == reason) return;
  SayOf(node, Log::Level::kInfo,
        absl::StrCat("event=held node=", node.hello.node(),
                     " reason=", Quoted(node.reason)));
}

}  // namespace rollcall
