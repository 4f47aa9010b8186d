#include "daemon/core/job/job.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/base/durations.h"
#include "daemon/base/text/printable.h"
#include "daemon/core/job/acts/blame.h"
#include "daemon/core/job/acts/job_end.h"
#include "daemon/core/job/acts/loss.h"
#include "daemon/core/job/acts/notice_rounds.h"
#include "daemon/core/job/acts/records.h"
#include "daemon/core/job/acts/sends.h"
#include "daemon/core/job/acts/silence.h"
#include "daemon/core/job/acts/standing.h"
#include "daemon/core/job/handlers/attending.h"
#include "daemon/core/job/handlers/committing.h"
#include "daemon/core/job/handlers/forming.h"
#include "daemon/core/job/handlers/leaving.h"
#include "daemon/core/job/handlers/node_reports.h"
#include "daemon/core/job/handlers/rank_reports.h"
#include "daemon/core/job/handlers/restoring.h"
#include "daemon/core/network_plan/probing/pings.h"
#include "daemon/core/status_words.h"

namespace rollcall {
namespace {

// Checks what each Step touches; checks all nodes if a world was formed.
void CheckInvariants(const JobState& job) {
  const bool proposed =
      job.phase == JobPhase::kForming && job.formation.fresh();
  job.membership.CheckInvariants(proposed, job.settings.nodes_max());
  if (proposed) CHECK_EQ(job.world().generation(), job.generation());
  const size_t known = job.membership.nodes().size();
  CHECK_LE(job.failures.causes().size(), Limits::causes_max);
  CHECK_LE(job.notices.leaving().size(), known);
  CHECK_LE(job.quarantine.checking(), known);
  CHECK_LE(job.isolation.silent(), known);
  CHECK_LE(job.hangs.size(), job.world().world_size());
  CHECK_LE(job.vetting.probes().held(), known);
  CHECK_LE(job.vetting.nodes(), known);
  CHECK_LE(job.newcomers.names(), Limits::newcomer_names_max);
  job.adoption.CheckInvariants();
}

// Whether enough nodes could have a seat.
bool EnoughAreAble(const JobState& job) {
  return job.vetting.probes().Able(job.membership, job.now) >=
         job.settings.nodes_min();
}

void On(JobState& job, const Said& said) {
  Node* node = job.membership.OfStream(said.session);
  // The stream was ended before this message was handled.
  if (node == nullptr) return;
  node->credential.confirmed = true;
  if (!job.HasEnded()) Renew(job, *node);
  const v1::AgentMessage& m = said.message;
  switch (m.kind_case()) {
    case v1::AgentMessage::kHeartbeat:
      return OnHeartbeat(job, *node, m.heartbeat());
    case v1::AgentMessage::kPrepared:
      return OnPrepared(job, *node, m.prepared());
    case v1::AgentMessage::kRefused:
      return OnRefused(job, *node, m.refused());
    case v1::AgentMessage::kStopped:
      return OnStopped(job, *node, m.stopped());
    case v1::AgentMessage::kRankExited:
      return OnRankExited(job, *node, m.rank_exited());
    case v1::AgentMessage::kLeaving:
      return OnLeaving(job, *node, m.leaving());
    case v1::AgentMessage::kExchange:
      return OnExchange(job, *node, m.exchange());
    case v1::AgentMessage::kStore:
      return OnStore(job, *node, m.store());
    case v1::AgentMessage::kEndSeen:
      if (job.HasEnded()) Detach(job, *node);
      return;
    case v1::AgentMessage::kNoticeSeen:
      return OnNoticeSeen(job, *node, m.notice_seen());
    case v1::AgentMessage::kCheckReport:
      return OnCheckReport(job, *node, m.check_report());
    case v1::AgentMessage::kRankStalled:
      return OnRankStalled(job, *node, m.rank_stalled());
    case v1::AgentMessage::kFactChange:
      return OnFactChange(job, *node, m.fact_change());
    case v1::AgentMessage::kProbed:
      if (job.vetting.probes().Take(*node, m.probed(), job.IsRunning(),
                                    job.membership, job.now, job.limits)) {
        job.out.Changed();
      }
      return;
    case v1::AgentMessage::kSetupEnded:
      return OnSetupEnded(job, *node, m.setup_ended());
    case v1::AgentMessage::kGroupListening:
    case v1::AgentMessage::kGroupChecked:
      CarryOutVetting(job,
                      job.vetting.TakeGroupMessage(*node, m, job.ForVetting()));
      return;
    case v1::AgentMessage::kHello:
    case v1::AgentMessage::kIntroduction:
    case v1::AgentMessage::KIND_NOT_SET:
      job.out.Close(
          said.session, absl::StatusCode::kInvalidArgument,
          v1::REFUSAL_CODE_INVALID,
          "expected one Hello and then messages of other kinds; got another "
          "Hello or a message of no kind");
      return;
  }
}

void On(JobState& job, const StreamClosed& closed) {
  job.adoption.Drop(closed.session);
  Node* node = job.membership.OfStream(closed.session);
  if (node == nullptr) return;
  // True if no running world needs the node.
  const bool leaving =
      job.Leaves(*node) &&
      (job.membership.IsExcluded(*node) || !node->member() || node->finished());
  const bool ended = node->exclusion.setup_failed && !job.HasEnded();
  Detach(job, *node);
  job.out.Changed();
  if (ended) {
    // Its agent was told to exit.
    return GiveUp(job, *node, v1::NODE_STATE_LOST, node->reason,
                  /*evicted=*/true);
  }
  if (leaving) {
    GiveUp(job, *node, v1::NODE_STATE_DRAINING, node->reason);
    return;
  }
  job.membership.Suspect(*node);
  node->lease.suspect_since = job.now;
  if (job.HasEnded()) return;
  node->state = v1::NODE_STATE_SUSPECT;
  node->reason = "its stream broke";
  job.membership.SetDeadline(
      *node,
      std::min(node->lease.deadline, job.now + job.limits.reconnect_grace));
  NoteBreak(job, *node);
  job.out.SayOf(*node, Log::Level::kWarning,
                absl::StrCat("event=suspect node=", node->name(),
                             " reason=", Quoted(node->reason)));
}

void On(JobState& job, const Tick& tick) {
  if (tick.late > Limits::late_min) {
    job.membership.PutOff(tick.late);
    job.isolation.PutOff(tick.late);
    job.hangs.PutOff(tick.late);
    job.adoption.PutOff(tick.late);
  }
  if (job.isolation.on() && job.now >= job.isolation.until())
    LoseTheSilent(job);
  while (Node* const node = job.membership.Overdue(job.now)) {
    MaybeBeginIsolation(job);
    // While the daemon is isolated, silence is not held against a node.
    if (job.isolation.on()) break;
    if (node->session != 0) {
      Lose(job, *node, v1::REASON_CODE_LOST_LEASE,
           absl::StrCat("silent for ", absl::FormatDuration(job.limits.lease)));
    } else {
      Lose(job, *node, v1::REASON_CODE_LOST_STREAM,
           absl::StrCat(node->reason, " and did not come back"));
    }
  }
  if (job.phase == JobPhase::kForming && job.now >= job.formation.deadline() &&
      !job.isolation.on()) {
    DropLaggards(job);
  }
  if (job.now >= job.notices.BoundaryEnds(job.isolation.on()))
    EndAtBoundary(job);
  if (job.now >= job.adoption.until()) EndClaims(job);
  MaybeEndBlameWindow(job);
  MaybeEndHung(job);
  if (job.now >= job.waiting.due()) TellWaiting(job);
}

}  // namespace

Job::Job(std::string job, std::string run, const v1::JobSettings& settings,
         const Limits& limits, absl::Time now)
    : state_(std::move(job), std::move(run), settings, limits, now) {}

absl::Status Job::CheckJournal(const JournalState& state) {
  return CheckRestorable(state);
}

Job Job::Restore(std::string job, const JournalState& state,
                 const Limits& limits, absl::Time now) {
  Job restored(std::move(job), state.run, state.settings, limits, now);
  TakeUpJournal(restored.state_, state);
  return restored;
}

std::vector<Action> Job::Start() {
  if (state_.generation() == 0) {
    state_.out.Write(Journal::Kind::kRunStarted, 0, state_.settings);
    // Replaces the node epochs that were journaled before.
    if (state_.credentials.epochs().highest() > 0 ||
        state_.credentials.epochs().bytes() > 0) {
      state_.out.Write(Journal::Kind::kNodeEpochs, 0,
                       state_.credentials.epochs().Whole());
    }
    if (!state_.notices.leaving().empty()) JournalLeaving(state_);
  }
  state_.out.Say(Log::Level::kInfo,
                 absl::StrCat("event=start nodes=", state_.settings.nodes_min(),
                              ":", state_.settings.nodes_max(), " generation=",
                              state_.generation(), " state=", Word(state())));
  // All ranks were asked to end, and no rank runs, so the job ends now.
  if (state_.notices.end_then().has_value() &&
      state_.phase == JobPhase::kGathering) {
    EndJob(state_, *state_.notices.end_then());
  }
  return state_.out.Take();
}

std::vector<Action> Job::Step(const Event& event, absl::Time now) {
  // A violation is a bug in the shell, not bad input.
  CHECK_GE(now, state_.now);
  state_.now = now;
  std::visit([this](const auto& e) { On(state_, e); }, event);
  MaybeTellLeaving(state_);
  MaybeJournalFinished(state_);
  MaybeCommit(state_);
  TakeBackUnreached(state_);
  MaybeProbe(state_);
  CarryOutVetting(state_, state_.vetting.Advance(state_.ForVetting()));
  MaybeGrow(state_);
  CarryOutVetting(state_, state_.vetting.CheckSpares(state_.ForVetting()));
  MaybeForm(state_);
  MaybeEndUnattended(state_);
  MaybeForget(state_);
  JournalNodeEpochs(state_);
  CheckInvariants(state_);
  return state_.out.Take();
}

absl::Time Job::NextDeadline() const {
  const JobState& job = state_;
  absl::Time next = std::min({job.waiting.due(), job.adoption.until(),
                              job.newcomers.grow_at(), job.notices.due(),
                              job.completion.record_due()});
  next = std::min(next, job.notices.BoundaryEnds(job.isolation.on()));
  if (job.MayEndHung()) next = std::min(next, job.hangs.due());
  // While the daemon is isolated, no node is given up because of a deadline,
  // and no world is formed.
  if (job.isolation.on() && !job.HasEnded()) {
    if (job.phase == JobPhase::kBlameWindow)
      next = std::min(next, job.failures.window_ends());
    return std::min(next, job.isolation.until());
  }
  next = std::min(next, job.membership.NextDeadline());
  next = std::min(next, job.vetting.NextExpiry(job.ForVetting()));
  if (job.AwaitsFirstWorld()) {
    next = std::min(next, job.gathering.unattended().Due(job.limits));
  }
  next = std::min(next, job.vetting.check_until());
  switch (job.phase) {
    case JobPhase::kGathering:
      if (job.vetting.checks()) break;
      // Nodes that have not answered when the round ends may be missing then.
      // In that case, nodes that were not reached are taken back sooner.
      if (job.vetting.probes().UnderWay(job.now)) {
        next = std::min(next, job.vetting.probes().UnderWayUntil(job.now));
        break;
      }
      if (job.adoption.waiting()) break;
      if (AwaitsSuspects(job)) {
        next = std::min(next, job.gathering.SuspectsUntil(job.limits));
        break;
      }
      next = std::min(
          next, job.gathering.Due(EnoughAreAble(job), job.now, job.limits));
      break;
    case JobPhase::kForming:
      next = std::min(next, job.formation.deadline());
      if (const absl::Time until =
              job.quarantine.PendingUntil(job.membership, job.now);
          job.formation.all_prepared() && until > job.now) {
        next = std::min(next, until);
      }
      break;
    case JobPhase::kRunning:
      next = std::min(next, job.vetting.probes().due());
      break;
    case JobPhase::kBlameWindow:
      next = std::min(next, job.failures.window_ends());
      break;
    case JobPhase::kEnded:
      return job.ending.Due(!job.membership.streams().empty());
  }
  return next;
}

bool Job::CredentialStands(const v1::Hello& hello) const {
  const Node* const at = state_.membership.Find(hello.node());
  // The node is not known: the daemon was restarted, or has removed the node.
  if (at == nullptr || at->restored()) return true;
  const Node& node = *at;
  const uint64_t from = hello.previous_incarnation();
  if (from == 0) return node.hello.incarnation() == hello.incarnation();
  if (node.hello.incarnation() == from) return true;
  // The agent has already attended again with this incarnation, and its Welcome
  // was lost.
  return node.hello.incarnation() == hello.incarnation() &&
         node.credential.attended_from == from && !node.credential.confirmed;
}

bool Job::AwaitsWord(const v1::Hello& hello) const {
  const Node* const at = state_.membership.Find(hello.node());
  return at != nullptr && !at->credential.confirmed && !at->credential.shown &&
         at->hello.incarnation() == hello.incarnation();
}

bool Job::ShowsRecentCredential(const v1::Hello& hello, absl::Time now) const {
  const Node* const node = state_.membership.Find(hello.node());
  return node != nullptr &&
         RunCredentials::IsRecent(hello, *node, now, state_.limits);
}

bool Job::HasCredential(const v1::Hello& hello) const {
  const Node* const at = state_.membership.Find(hello.node());
  if (at == nullptr || at->gone) return false;
  const Node& node = *at;
  // A world commit has the incarnations of its world, and every member has the
  // commit.
  if (node.restored()) {
    return node.credential.committed_for != 0 &&
           node.credential.committed_for == hello.incarnation();
  }
  return (node.credential.confirmed || node.credential.shown) &&
         node.hello.incarnation() == hello.incarnation();
}

v1::Pings Job::Pings(absl::Time now) const {
  return PingsOf(state_.world(), state_.vetting.probes().results(), now);
}

}  // namespace rollcall
