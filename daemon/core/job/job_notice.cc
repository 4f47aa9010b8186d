// Job: nodes that leave, newcomers, and what all ranks are asked for first.
#include <algorithm>
#include <csignal>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/base/printable.h"
#include "daemon/core/job/job.h"

namespace rollcall {

void Job::On(const DrainAsked& drain) {
  const auto at = nodes_.find(drain.node);
  if (at == nodes_.end() || at->second.gone) return;  // The shell said so.
  AskToLeave(at->second, drain.deadline,
             drain.reason.empty() ? "drained" : drain.reason);
  // The admin is told that the request is done. An agent would ask again.
  if (notices_.unwritten()) JournalLeaving();
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
  // Counts as a loss, since the node may attend again at once. A drain by a
  // person does not count.
  CountLoss(node);
  AskToLeave(node, LeavingDeadline(leaving, limits_), leaving.reason());
}

void Job::AskToLeave(Node& node, absl::Duration deadline,
                     const std::string& reason) {
  if (phase_ == Phase::kEnded) return;
  deadline = std::max(deadline, absl::ZeroDuration());
  const std::string text = absl::StrCat(node.hello.node(), " leaves: ", reason);
  const bool in_world =
      phase_ == Phase::kRunning && node.member() && !node.finished();
  const bool again = !notices_.Leave(node.hello.node());
  if (!again) {
    node.state = v1::NODE_STATE_DRAINING;
    node.reason = text;
    if (in_world && !notices_.end_then().has_value() &&
        TooFewWithout(node.hello.node())) {
      notices_.EndThen(RequeueEnd(text, nodes_min_, limits_));
    }
    if (notices_.LeavingChanged(now_)) JournalLeaving();
    Changed();
  } else if (!notices_.pending() || now_ + deadline >= notices_.until()) {
    return;  // Asked before, and not to be sooner than that.
  }
  if (!in_world) return LeaveAtOnce(node, text);
  Ask(notices_.kind(), deadline, text, again);
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
      return Finish(RequeueEnd(reason, nodes_min_, limits_));
    }
  }
  SendLeft(node);
  if (forming) Reform(v1::REASON_CODE_LEAVING, reason, name);
}

// Whether too few nodes would be left; nodes that already leave do not count.
bool Job::TooFewWithout(const std::string& node) const {
  // A cheap test before counting, since this is called for each of thousands.
  if (Present() + suspects_.size() > notices_.leaving().size() + nodes_min_)
    return false;
  size_t left = 0;
  for (const auto& [name, other] : nodes_) {
    const bool here = other.session != 0 || suspects_.contains(name);
    left += here && !other.gone && !barred_.contains(name) && name != node &&
            !Leaves(other);
  }
  return left < nodes_min_;
}

void Job::MaybeTellLeaving() {
  const Notices::Due due = notices_.TakeDue(now_);
  if (due.journal) JournalLeaving();
  if (due.tell) TellNotice();
}

void Job::JournalLeaving() {
  actions_.push_back(Journal{Journal::Kind::kLeaving, generation_,
                             notices_.TakeRecord(now_).SerializeAsString()});
}

void Job::ForgetLeaving(const std::string& name) {
  if (!notices_.Forget(name) || phase_ == Phase::kEnded) return;
  if (notices_.LeavingChanged(now_)) JournalLeaving();
}

// The node's agent may exit.
void Job::SendLeft(const Node& node) {
  v1::DaemonMessage message;
  message.mutable_end()->set_finished(true);
  message.mutable_end()->set_code(v1::REASON_CODE_LEAVING);
  message.mutable_end()->set_reason("this node left the job");
  ToNode(node, std::move(message));
}

void Job::Ask(v1::NoticeKind kind, absl::Duration deadline,
              const std::string& reason, bool again) {
  CHECK(phase_ == Phase::kRunning);
  if (notices_.Ask(kind, now_ + deadline, reason, again, now_)) TellNotice();
}

void Job::TellNotice() {
  if (notices_.unwritten()) JournalLeaving();
  std::map<uint32_t, std::string> missing;
  for (const v1::Member& member : world_.members()) {
    const auto at = nodes_.find(member.node());
    if (at == nodes_.end() || !at->second.member()) continue;
    if (!at->second.ended()) {
      missing.emplace(member.node_rank(), member.node());
    }
  }
  const v1::Notice& notice = notices_.Tell(
      generation_, std::move(missing),
      [this](const std::string& name) { return Knows(name); }, now_);
  v1::DaemonMessage message;
  *message.mutable_notice() = notices_.Now(now_);
  actions_.push_back(Send{MemberSessions(), std::move(message)});
  Say(Log::Level::kInfo,
      absl::StrCat("event=notice notice=", notice.notice(), " generation=",
                   generation_, " kind=", v1::NoticeKind_Name(notice.kind()),
                   " reason=", Quoted(notice.reason())));
  Changed();
}

void Job::OnNoticeSeen(Node& node, const v1::NoticeSeen& seen) {
  if (phase_ != Phase::kRunning || !node.member() ||
      seen.generation() != generation_) {
    return;
  }
  switch (notices_.Seen(seen.notice(), world_taken_up_, now_)) {
    case Notices::Answer::kNothing:
      return;
    case Notices::Answer::kReached:
      return AtBoundary(node);
    case Notices::Answer::kTell:
      return TellNotice();
    case Notices::Answer::kAsk:
      return AskAmidAChange();
  }
}

// Whether the generation runs and nothing has asked its ranks to end.
bool Job::NothingIsAsked(uint64_t generation) const {
  return phase_ == Phase::kRunning && generation == generation_ &&
         !notices_.pending() && !world_taken_up_;
}

void Job::OnEndedForNotice(const Node& node, const v1::RankExited& exited) {
  if (phase_ != Phase::kRunning || !node.member() ||
      exited.generation() != generation_) {
    return;
  }
  if (!notices_.pending()) AskAmidAChange();
  notices_.Bound(now_, limits_);
  if (exited.signal() != SIGKILL) return;
  notices_.Killed(RankOf(node, exited.local_rank()), node.hello.node());
}

// For a notice of this daemon's previous life that was not journaled: ranks
// wait at its boundary, or have ended because of it.
void Job::AskAmidAChange() {
  Ask(v1::NOTICE_KIND_GROW, absl::InfiniteDuration(),
      "the daemon was restarted during a change");
}

void Job::AtBoundary(Node& node) {
  const auto node_rank = static_cast<uint32_t>(node.node_rank);
  if (notices_.Reached(node_rank, now_, limits_)) EndAtBoundary();
}

// All members have reached the boundary, or the deadline has passed.
void Job::EndAtBoundary() {
  Notices::Outcome outcome = notices_.AtBoundary();
  if (outcome.end.has_value()) return Finish(*std::move(outcome.end));
  Reform(outcome.code, outcome.reason, outcome.node);
}

// The generation has ended, at its boundary or before: nodes that were asked to
// leave now leave.
void Job::DropPending() {
  notices_.Drop();
  grow_at_ = absl::InfiniteFuture();
  for (const std::string& name : notices_.leaving()) {
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
  if (phase_ != Phase::kRunning || notices_.pending() || isolation_.on() ||
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
