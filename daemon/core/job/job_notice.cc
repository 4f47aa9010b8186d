// Job: nodes that leave, newcomers, and notices to all ranks before a change.
#include <algorithm>
#include <csignal>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/base/name_list.h"
#include "daemon/base/printable.h"
#include "daemon/core/job/job.h"

namespace rollcall {
namespace {

// Most newcomers named in a notice.
constexpr size_t kCalledNamedMax = 16;

}  // namespace

void Job::On(const DrainAsked& drain) {
  Node* const at = membership_.Find(drain.node);
  if (at == nullptr || at->gone) return;  // The shell has told the admin.
  AskToLeave(*at, drain.deadline,
             drain.reason.empty() ? "drained" : drain.reason);
  // Journal at once: the admin is told that the request is done, and does not
  // repeat it. An agent would repeat its request.
  if (notices_.unwritten()) JournalLeaving();
}

void Job::On(const EvictAsked& evict) {
  if (HasEnded()) return;  // The shell has told the admin.
  const std::string reason = evict.reason.empty()
                                 ? "evicted"
                                 : absl::StrCat("evicted: ", evict.reason);
  for (const std::string& name : evict.nodes) {
    if (HasEnded()) return;
    if (evict.former) {
      // The former agent's credential became invalid when the other agent took
      // the name.
      out_.Say(Log::Level::kWarning,
               absl::StrCat("event=evict node=", name,
                            " former=true reason=", Quoted(reason)));
      if (gathering_.fence().Gone(name)) FenceOpened();
      continue;
    }
    const bool taken_over = fence().IsTakenOver(name, membership_);
    credentials_.Evict(name);
    Node* const at = membership_.Find(name);
    if (at != nullptr && !at->gone) {
      Lose(*at, v1::REASON_CODE_EVICTED, reason);
    } else {
      out_.Say(Log::Level::kWarning, absl::StrCat("event=evict node=", name,
                                                  " reason=", Quoted(reason)));
    }
    // If another agent had taken over the name, the former one may still run
    // ranks.
    if (!taken_over && gathering_.fence().Gone(name)) FenceOpened();
    // Eviction replaces a request to leave. If the node is admitted again, it
    // is not asked to leave.
    if (!HasEnded()) ForgetLeaving(name);
  }
}

void Job::OnLeaving(Node& node, const v1::Leaving& leaving) {
  // This counts as a loss, because the node may attend again at once. A drain
  // by a person does not count.
  newcomers_.Lost(node, generation(), now_, limits_);
  AskToLeave(node, LeavingDeadline(leaving, limits_), leaving.reason());
}

void Job::AskToLeave(Node& node, absl::Duration deadline,
                     const std::string& reason) {
  if (HasEnded()) return;
  deadline = std::max(deadline, absl::ZeroDuration());
  const std::string text = absl::StrCat(node.name(), " leaves: ", reason);
  const bool in_world = IsRunning() && node.member() && !node.finished();
  const Notices::Request request =
      notices_.TakeRequest(node, in_world, now_ + deadline, text, membership_,
                           settings_.nodes_min(), limits_, now_);
  if (request.first) {
    node.state = v1::NODE_STATE_DRAINING;
    node.reason = text;
    out_.Changed();
  }
  if (request.journal) JournalLeaving();
  switch (request.then) {
    case Notices::Request::Then::kNothing:
      return;
    case Notices::Request::Then::kAtOnce:
      return LeaveAtOnce(node, text);
    case Notices::Request::Then::kAsk:
      return Ask(notices_.kind(), deadline, text, !request.first);
  }
}

// For a node on which no rank runs.
void Job::LeaveAtOnce(Node& node, const std::string& reason) {
  const bool forming = phase_ == Phase::kForming && node.member();
  // If a member leaves between two generations, the job ends, as it would have
  // ended just before.
  const bool between =
      generation() > 0 && node.seat >= 0 && phase_ == Phase::kGathering;
  const bool finished = IsRunning() && node.member();
  const std::string name = node.name();
  if (!finished) {
    Exclude(node, reason);
    node.state = v1::NODE_STATE_DRAINING;
    // Before the first world there is nothing to requeue, and others may come.
    if ((forming || between) && HasRun() &&
        notices_.TooFewWithout(name, membership_, settings_.nodes_min())) {
      return Finish(RequeueEnd(reason, settings_.nodes_min(), limits_));
    }
  }
  SendLeft(node);
  if (forming) Reform(v1::REASON_CODE_LEAVING, reason, name);
}

void Job::MaybeTellLeaving() {
  const Notices::Due due = notices_.TakeDue(now_);
  if (due.journal) JournalLeaving();
  if (due.tell) TellNotice();
}

void Job::JournalLeaving() {
  out_.Write(Journal::Kind::kLeaving, generation(), notices_.TakeRecord(now_));
}

void Job::ForgetLeaving(const std::string& name) {
  if (!notices_.Forget(name) || HasEnded()) return;
  if (notices_.LeavingChanged(now_)) JournalLeaving();
}

// Tells the node's agent that it may exit.
void Job::SendLeft(const Node& node) {
  v1::DaemonMessage message;
  message.mutable_end()->set_finished(true);
  message.mutable_end()->set_code(v1::REASON_CODE_LEAVING);
  message.mutable_end()->set_reason("this node left the job");
  out_.SendTo(node, std::move(message));
}

void Job::Ask(v1::NoticeKind kind, absl::Duration deadline,
              const std::string& reason, bool again) {
  CHECK(IsRunning());
  if (notices_.Ask(kind, now_ + deadline, reason, again, now_)) TellNotice();
}

void Job::TellNotice() {
  if (notices_.unwritten()) JournalLeaving();
  std::map<uint32_t, std::string> missing;
  for (const Node* node : membership_.MembersOf(world())) {
    if (!node->ended()) missing.emplace(node->node_rank, node->name());
  }
  const v1::Notice& notice = notices_.Tell(
      generation(), std::move(missing),
      [this](const std::string& name) { return Knows(name); }, now_);
  v1::DaemonMessage message;
  *message.mutable_notice() = notices_.Now(now_);
  out_.SendTo(membership_.StreamsOf(world()), std::move(message));
  out_.Say(Log::Level::kInfo,
           absl::StrCat("event=notice notice=", notice.notice(),
                        " generation=", generation(),
                        " kind=", v1::NoticeKind_Name(notice.kind()),
                        " reason=", Quoted(notice.reason())));
  out_.Changed();
}

void Job::OnNoticeSeen(Node& node, const v1::NoticeSeen& seen) {
  if (!IsRunning() || !node.member() || seen.generation() != generation()) {
    return;
  }
  switch (notices_.Seen(seen.notice(), completion_.taken_up(), now_)) {
    case Notices::Answer::kNothing:
      return;
    case Notices::Answer::kReached:
      return AtBoundary(node);
    case Notices::Answer::kTell:
      return TellNotice();
    case Notices::Answer::kAsk:
      return AskDuringChange();
  }
}

void Job::OnEndedForNotice(const Node& node, const v1::RankExited& exited) {
  if (!IsRunning() || !node.member() || exited.generation() != generation()) {
    return;
  }
  if (!notices_.pending()) AskDuringChange();
  notices_.Bound(now_, limits_);
  if (!exited.killed() && exited.signal() != SIGKILL) return;
  notices_.Killed(RankOf(node, exited.local_rank()), node.name());
}

// For a notice of this daemon's previous life that was not journaled. Ranks
// wait at its boundary, or have ended because of it.
void Job::AskDuringChange() {
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

// The generation has ended, at its boundary or before. Nodes that were asked to
// leave do so now.
void Job::DropPending() {
  notices_.Drop();
  newcomers_.StopGrowing();
  for (const std::string& name : notices_.leaving()) {
    Node* const at = membership_.Find(name);
    if (at == nullptr || at->gone) continue;
    Node& node = *at;
    if (node.session != 0 && !membership_.IsExcluded(name)) {
      Exclude(node, node.reason);
    }
    node.seat = -1;
    node.state = v1::NODE_STATE_DRAINING;
  }
}

// --- Newcomers ---------------------------------------------------------------

// The node may have a seat once others have reached it.
void Job::GrowSoon(Node& node) {
  const bool fills =
      membership_.present() == settings_.nodes_max() &&
      static_cast<uint32_t>(world().members_size()) < settings_.nodes_max();
  vetting_.probes().Newcomer(node.name(), fills, now_, limits_);
  vetting_.NoteSpare();
  SayUnchecked(node);
}

void Job::MaybeGrow() {
  if (now_ < newcomers_.grow_at()) return;
  newcomers_.StopGrowing();
  if (!IsRunning() || notices_.pending() || isolation_.on() ||
      settings_.grow() == v1::GROW_NEVER) {
    return;
  }
  const Seats seats = SeatsNow();
  const absl::Time due = seats.NewcomerDue(
      world(), settings_.nodes_max(),
      [this](const std::string& name) { return notices_.Leaves(name); });
  if (due > now_) return newcomers_.GrowAt(due);
  if (completion_.HasBegun(membership_)) return;
  std::vector<std::string> called = seats.NewcomersNow();
  const size_t unchecked =
      std::erase_if(called, [this](const std::string& name) {
        return vetting_.IsUnchecked(membership_.At(name), ForVetting());
      });
  if (unchecked > 0) vetting_.NoteSpare();
  if (called.empty()) return;
  for (const std::string& name : called) membership_.At(name).called = true;
  Ask(v1::NOTICE_KIND_GROW, absl::InfiniteDuration(),
      absl::StrCat("to take in ", NameList(called, kCalledNamedMax)));
}

// Shows the user why a node waits although a seat is free.
void Job::SayHold(Node& node) {
  const std::string reason = newcomers_.HoldText(node.name(), now_, limits_);
  if (node.seat >= 0 || reason.empty()) return;
  if (std::exchange(node.reason, reason) == reason) return;
  out_.SayOf(node, Log::Level::kInfo,
             absl::StrCat("event=held node=", node.name(),
                          " reason=", Quoted(node.reason)));
}

}  // namespace rollcall
