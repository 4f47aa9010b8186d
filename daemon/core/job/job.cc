#include "daemon/core/job/job.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/base/durations.h"
#include "daemon/base/printable.h"
#include "daemon/core/status_words.h"

namespace rollcall {
namespace {

// How many times an incarnation that refused a world may get a seat again.
constexpr int kRefusalsForgiven = 3;

}  // namespace

std::vector<Action> Job::Step(const Event& event, absl::Time now) {
  CHECK_GE(now, now_);  // A violation is a bug in the shell, not bad input.
  now_ = now;
  std::visit([this](const auto& e) { On(e); }, event);
  MaybeTellLeaving();
  MaybeJournalFinished();
  MaybeCommit();
  TakeBackUnreached();
  MaybeProbe();
  CarryOut(vetting_.Advance(ForVetting()));
  MaybeGrow();
  CarryOut(vetting_.CheckSpares(ForVetting()));
  MaybeForm();
  MaybeEndUnattended();
  MaybeForget();
  JournalNodeEpochs();
  CheckInvariants();
  return out_.Take();
}

// --- Events -----------------------------------------------------------------

void Job::On(const Said& said) {
  Node* node = membership_.OfStream(said.session);
  // The stream was ended before this message was handled.
  if (node == nullptr) return;
  node->confirmed = true;
  if (!HasEnded()) Renew(*node);
  const v1::AgentMessage& m = said.message;
  switch (m.kind_case()) {
    case v1::AgentMessage::kHeartbeat:
      return OnHeartbeat(*node, m.heartbeat());
    case v1::AgentMessage::kPrepared:
      return OnPrepared(*node, m.prepared());
    case v1::AgentMessage::kRefused:
      return OnRefused(*node, m.refused());
    case v1::AgentMessage::kStopped:
      return OnStopped(*node, m.stopped());
    case v1::AgentMessage::kRankExited:
      return OnRankExited(*node, m.rank_exited());
    case v1::AgentMessage::kLeaving:
      return OnLeaving(*node, m.leaving());
    case v1::AgentMessage::kExchange:
      return OnExchange(*node, m.exchange());
    case v1::AgentMessage::kStore:
      return OnStore(*node, m.store());
    case v1::AgentMessage::kEndSeen:
      if (HasEnded()) Detach(*node);
      return;
    case v1::AgentMessage::kNoticeSeen:
      return OnNoticeSeen(*node, m.notice_seen());
    case v1::AgentMessage::kCheckReport:
      return OnCheckReport(*node, m.check_report());
    case v1::AgentMessage::kRankStalled:
      return OnRankStalled(*node, m.rank_stalled());
    case v1::AgentMessage::kFactChange:
      return OnFactChange(*node, m.fact_change());
    case v1::AgentMessage::kProbed:
      if (vetting_.probes().Take(*node, m.probed(), IsRunning(), membership_,
                                 now_, limits_)) {
        out_.Changed();
      }
      return;
    case v1::AgentMessage::kSetupEnded:
      return OnSetupEnded(*node, m.setup_ended());
    case v1::AgentMessage::kGroupListening:
    case v1::AgentMessage::kGroupChecked:
      CarryOut(vetting_.TakeGroupMessage(*node, m, ForVetting()));
      return;
    case v1::AgentMessage::kHello:
    case v1::AgentMessage::KIND_NOT_SET:
      out_.Close(
          said.session, absl::StatusCode::kInvalidArgument,
          v1::REFUSAL_CODE_INVALID,
          "expected one Hello and then messages of other kinds; got another "
          "Hello or a message of no kind");
      return;
  }
}

void Job::On(const StreamClosed& closed) {
  adoption_.Drop(closed.session);
  Node* node = membership_.OfStream(closed.session);
  if (node == nullptr) return;
  // True if no running world needs the node.
  const bool leaving = Leaves(*node) && (membership_.IsExcluded(*node) ||
                                         !node->member() || node->finished());
  const bool ended = node->setup_failed && !HasEnded();
  Detach(*node);
  out_.Changed();
  if (ended) {
    // Its agent was told to exit.
    return Part(*node, v1::NODE_STATE_LOST, node->reason, /*evicted=*/true);
  }
  if (leaving) {
    Part(*node, v1::NODE_STATE_DRAINING, node->reason);
    return;
  }
  membership_.Suspect(*node);
  node->suspect_since = now_;
  if (HasEnded()) return;
  node->state = v1::NODE_STATE_SUSPECT;
  node->reason = "its stream broke";
  membership_.SetDeadline(
      *node, std::min(node->deadline, now_ + limits_.reconnect_grace));
  NoteBreak(*node);
  out_.SayOf(*node, Log::Level::kWarning,
             absl::StrCat("event=suspect node=", node->name(),
                          " reason=", Quoted(node->reason)));
}

void Job::On(const StopAsked& stop) {
  if (HasEnded()) {
    if (ending_.StopAgain(stop.now)) SendEnd();
    return;
  }
  v1::End end;
  end.set_now(stop.now);
  end.set_exit_code(stop.exit_code);
  end.set_code(stop.code);
  end.set_reason(stop.reason);
  if (stop.now || !IsRunning() || membership_.AllMembersAreAway()) {
    return Finish(std::move(end));
  }
  // The ranks may save first, all at the same step.
  const bool asked = notices_.end_then().has_value();
  notices_.EndThen(std::move(end));
  JournalLeaving();
  // All ranks may have been asked already, with a later deadline.
  if (!asked || !notices_.pending() ||
      now_ + limits_.notice_time < notices_.until()) {
    Ask(v1::NOTICE_KIND_PREEMPT, limits_.notice_time, stop.reason);
  }
}

void Job::On(const Tick& tick) {
  if (tick.late > Limits::late_min) {
    membership_.PutOff(tick.late);
    isolation_.PutOff(tick.late);
    hangs_.PutOff(tick.late);
    adoption_.PutOff(tick.late);
  }
  if (isolation_.on() && now_ >= isolation_.until()) LoseTheSilent();
  while (Node* const node = membership_.Overdue(now_)) {
    MaybeTakeItselfForCutOff();
    // While the daemon is isolated, silence is not held against a node.
    if (isolation_.on()) break;
    if (node->session != 0) {
      Lose(*node, v1::REASON_CODE_LOST_LEASE,
           absl::StrCat("silent for ", absl::FormatDuration(limits_.lease)));
    } else {
      Lose(*node, v1::REASON_CODE_LOST_STREAM,
           absl::StrCat(node->reason, " and did not come back"));
    }
  }
  if (phase_ == Phase::kForming && now_ >= formation_.deadline() &&
      !isolation_.on()) {
    DropLaggards();
  }
  if (now_ >= notices_.BoundaryEnds(isolation_.on())) EndAtBoundary();
  if (now_ >= adoption_.until()) EndClaims();
  MaybeEndBlameWindow();
  MaybeEndHung();
  if (now_ >= waiting_.due()) TellWaiting();
}

// --- Messages of members -----------------------------------------------------

void Job::OnFactChange(Node& node, const v1::FactChange& change) {
  if (!node.changes.Take(change, now_)) return;
  out_.SayOf(node, Log::Level::kWarning,
             absl::StrCat("event=fact_changed node=", node.name(),
                          " kind=", Word(change.kind()),
                          " text=", Quoted(ChangeText(change))),
             "/facts");
  out_.Changed();
  const auto failed_at = failures_.TakesChangesOf(node.name(), now_);
  if (!failed_at.has_value() || HasEnded()) return;
  failures_.SetNodeChanges(node.changes.TextAround(*failed_at));
  BlameInReform(failures_.cause());
}

std::string Job::ChangesOf(const std::string& node) const {
  const Node* const at = membership_.Find(node);
  return at == nullptr ? "" : at->changes.TextAround(now_);
}

void Job::OnPrepared(Node& node, const v1::Prepared& prepared) {
  TakeBackLate(node);
  if (phase_ != Phase::kForming || prepared.generation() != generation() ||
      !node.member()) {
    return;  // From a superseded generation.
  }
  NoteStopped(node);
  // Also for a repeated Prepared: a rank that kept running may have died since.
  TakeUpStates(node, prepared);
  if (node.prepared) return;
  for (const std::string& warning : prepared.warnings()) {
    out_.SayOf(node, Log::Level::kWarning,
               absl::StrCat("event=warning node=", node.name(),
                            " text=", Quoted(warning)));
  }
  if (node.node_rank == 0) {
    if (prepared.master_port() == 0) {
      v1::Refused refused;
      refused.set_generation(generation());
      refused.set_reason("it is node rank 0 and reported no MASTER_PORT");
      return OnRefused(node, refused);
    }
  }
  node.prepared = true;
  formation_.Prepared(node, prepared);
  out_.Changed();
}

void Job::TakeUpStates(Node& node, const v1::Prepared& prepared) {
  node.state_held.reset();
  for (const v1::RankState& state : prepared.states()) {
    if (!state.whole_state() || state.local_rank() >= node.hello.ranks()) {
      continue;
    }
    if (!node.state_held.has_value() ||
        state.completed_step() > node.state_held->completed_step()) {
      node.state_held = state;
    }
  }
}

void Job::OnRefused(Node& node, const v1::Refused& refused) {
  if (phase_ != Phase::kForming || refused.generation() != generation() ||
      !node.member()) {
    return;
  }
  const std::string reason =
      absl::StrCat("refused generation ", generation(), ": ", refused.reason());
  Exclude(node, reason);
  // What it refused for may be over by then, for example a port in use.
  if (++node.refusals <= kRefusalsForgiven) {
    vetting_.probes().Unreached(node.name(), now_ + limits_.unreached_delay);
  }
  Reform(v1::REASON_CODE_REFUSED, reason, node.name());
}

void Job::OnStopped(Node& node, const v1::Stopped& stopped) {
  if (stopped.generation() >= fence().generation()) NoteStopped(node);
  if (Leaves(node) && membership_.IsExcluded(node.name())) {
    return SendLeft(node);
  }
  TakeBackLate(node);
  if (stopped.generation() != generation() || !node.member() || node.stopped) {
    return;
  }
  node.stopped = true;
  if (phase_ == Phase::kBlameWindow) {
    failures_.NoteStopped();
    MaybeEndBlameWindow();
  }
}

// --- Bookkeeping -------------------------------------------------------------

// Renews the lease of a node that has sent something.
void Job::Renew(Node& node) {
  node.heard_at = now_;
  node.lease_until = now_ + limits_.lease;
  membership_.SetDeadline(node, node.lease_until);
  HeardFrom(node.name());
}

// Separates the node from its stream.
void Job::Detach(Node& node) {
  membership_.Disconnect(node);
  vetting_.StreamBroke(node, ForVetting());
}

// Gives the node up. Its entry stays for a while, so that messages can name the
// node.
void Job::Part(Node& node, v1::NodeState state, const std::string& reason,
               bool evicted) {
  const std::string name = node.name();
  if (!Leaves(node) && !evicted)
    newcomers_.Lost(node, generation(), now_, limits_);
  node.called = false;
  // The generation goes on without the node.
  if (IsRunning() && node.member() && node.finished()) {
    store_.Gone(static_cast<uint32_t>(node.node_rank));
    SendStoreMessages();
  }
  if (node.session != 0) Detach(node);
  vetting_.probes().Gone(name, now_);
  quarantine_.Forget(node);
  node.state = state;
  node.reason = reason;
  // The node was asked to leave for good, so its credential becomes invalid
  // even if the node leaves for another reason.
  if (Leaves(node) && !HasEnded()) credentials_.epochs().Raise(name);
  // May remove `node` itself.
  const std::vector<std::string> removed = membership_.Remove(node);
  // A lost node that was asked to leave must still leave if it comes back.
  if (state == v1::NODE_STATE_DRAINING) ForgetLeaving(name);
  HeardFrom(name);
  out_.Changed();
  for (const std::string& former : removed) {
    vetting_.Forget(former);
    ForgetLeaving(former);
  }
  TakeBackUnreached();
}

absl::Time Job::NextDeadline() const {
  absl::Time next =
      std::min({waiting_.due(), adoption_.until(), newcomers_.grow_at(),
                notices_.due(), completion_.record_due()});
  next = std::min(next, notices_.BoundaryEnds(isolation_.on()));
  if (MayEndHung()) next = std::min(next, hangs_.due());
  // While the daemon is isolated, no node is given up because of a deadline,
  // and no world is formed.
  if (isolation_.on() && !HasEnded()) {
    if (phase_ == Phase::kBlameWindow)
      next = std::min(next, failures_.window_ends());
    return std::min(next, isolation_.until());
  }
  next = std::min(next, membership_.NextDeadline());
  next = std::min(next, vetting_.NextExpiry(ForVetting()));
  if (AwaitsFirstWorld()) {
    next = std::min(next, gathering_.unattended().Due(limits_));
  }
  next = std::min(next, vetting_.check_until());
  switch (phase_) {
    case Phase::kGathering:
      if (vetting_.checks()) break;
      // Nodes that have not answered when the round ends may be missing then.
      // In that case, nodes that were not reached are taken back sooner.
      if (vetting_.probes().UnderWay(now_)) {
        next = std::min(next, vetting_.probes().UnderWayUntil(now_));
        break;
      }
      // The deadlines of these nodes come first.
      if (membership_.HasSeatedSuspect() || adoption_.waiting()) break;
      next = std::min(
          next, gathering_.Due(vetting_.probes().Able(membership_, now_) >=
                                   settings_.nodes_min(),
                               now_, limits_));
      break;
    case Phase::kForming:
      next = std::min(next, formation_.deadline());
      if (const absl::Time until = quarantine_.PendingUntil(membership_, now_);
          formation_.all_prepared() && until > now_) {
        next = std::min(next, until);
      }
      break;
    case Phase::kRunning:
      next = std::min(next, vetting_.probes().due());
      break;
    case Phase::kBlameWindow:
      next = std::min(next, failures_.window_ends());
      break;
    case Phase::kEnded:
      return ending_.Due(!membership_.streams().empty());
  }
  return next;
}

// The record goes out with the actions of the Step that changed the epochs.
void Job::JournalNodeEpochs() {
  // Nothing is journaled after the end.
  if (HasEnded()) return;
  credentials_.epochs().MaybePrune(
      [this](const std::string& name) { return membership_.Has(name); });
  if (const auto changes = credentials_.epochs().TakeChanges()) {
    out_.Write(Journal::Kind::kNodeEpochs, generation(), *changes);
  }
}

// Checks what each Step touches; checks all nodes if a world was formed.
void Job::CheckInvariants() const {
  const bool proposed = phase_ == Phase::kForming && formation_.fresh();
  membership_.CheckInvariants(proposed, settings_.nodes_max());
  if (proposed) CHECK_EQ(world().generation(), generation());
  const size_t known = membership_.nodes().size();
  CHECK_LE(failures_.causes().size(), Limits::causes_max);
  CHECK_LE(notices_.leaving().size(), known);
  CHECK_LE(quarantine_.checking(), known);
  CHECK_LE(isolation_.silent(), known);
  CHECK_LE(hangs_.size(), world().world_size());
  CHECK_LE(vetting_.probes().held(), known);
  CHECK_LE(vetting_.nodes(), known);
  CHECK_LE(newcomers_.names(), Limits::newcomer_names_max);
  adoption_.CheckInvariants();
}

}  // namespace rollcall
