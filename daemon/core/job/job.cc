#include "daemon/core/job/job.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/base/durations.h"
#include "daemon/base/printable.h"

namespace rollcall {
namespace {

// A loop that is later than this was held up (swapping, a stopped process). The
// lateness is the daemon's, and agents are not taken to be silent for it.
constexpr absl::Duration kLate = absl::Milliseconds(50);
// How often an agent that refuses a world gets a seat again in one incarnation.
constexpr int kRefusalsForgiven = 3;

}  // namespace

std::vector<Action> Job::Step(const Event& event, absl::Time now) {
  CHECK_GE(now, now_);  // A violation is a bug in the shell, not bad input.
  now_ = now;
  actions_.clear();
  std::visit([this](const auto& e) { On(e); }, event);
  MaybeTellLeaving();
  MaybeJournalFinished();
  MaybeCommit();
  TakeBackUnreached();
  MaybeProbe();
  MaybeGrow();
  MaybeForm();
  MaybeEndUnattended();
  MaybeForget();
  JournalNodeEpochs();
  CheckInvariants();
  return std::move(actions_);
}

// --- Events -----------------------------------------------------------------

void Job::On(const Said& said) {
  Node* node = NodeOf(said.session);
  if (node == nullptr) return;  // The stream was ended meanwhile.
  node->confirmed = true;
  if (phase_ != Phase::kEnded) Renew(*node);
  const v1::AgentMessage& m = said.message;
  switch (m.kind_case()) {
    case v1::AgentMessage::kHeartbeat:
      RenewCredential(*node);
      // An agent reports stalled ranks before the first heartbeat of a stream.
      node->tells_until = absl::InfinitePast();
      node->step = std::max(node->step, m.heartbeat().step());
      if (node->node_rank == 0 && m.heartbeat().has_pace() &&
          m.heartbeat().generation() == generation_) {
        TakePace(m.heartbeat().pace());
      }
      // Only for nodes that have been in a world: a spare has no ranks.
      if (m.heartbeat().ranks_link() && node->served_in != 0) {
        NoteStarted(*node, FromProto(m.heartbeat().start_took()));
      }
      // Only for members: a spare does not train.
      if (phase_ == Phase::kRunning && node->member() &&
          m.heartbeat().generation() == generation_) {
        TakeStep(*node, m.heartbeat().step());
      }
      return;
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
    case v1::AgentMessage::kEndSeen:
      if (phase_ == Phase::kEnded) Detach(*node);
      return;
    case v1::AgentMessage::kNoticeSeen:
      return OnNoticeSeen(*node, m.notice_seen());
    case v1::AgentMessage::kCheckReport:
      return OnCheckReport(*node, m.check_report());
    case v1::AgentMessage::kRankStalled:
      return OnRankStalled(*node, m.rank_stalled());
    case v1::AgentMessage::kProbed:
      return OnProbed(*node, m.probed());
    case v1::AgentMessage::kHello:
    case v1::AgentMessage::KIND_NOT_SET:
      Close(said.session, absl::StatusCode::kInvalidArgument,
            v1::REFUSAL_CODE_INVALID,
            "expected one Hello and then messages of other kinds; got another "
            "Hello or a message of no kind");
      return;
  }
}

void Job::On(const StreamClosed& closed) {
  Unclaim(closed.session);
  Node* node = NodeOf(closed.session);
  if (node == nullptr) return;
  // No running world needs it.
  const bool leaving = Leaves(*node) && (barred_.contains(node->hello.node()) ||
                                         !node->member() || node->finished());
  Detach(*node);
  Changed();
  if (leaving) {
    Part(*node, v1::NODE_STATE_DRAINING, node->reason);
    return;
  }
  suspects_.insert(node->hello.node());
  node->suspect_since = now_;
  if (phase_ == Phase::kEnded) return;
  node->state = v1::NODE_STATE_SUSPECT;
  node->reason = "its stream broke";
  SetDeadline(*node, std::min(node->deadline, now_ + limits_.reconnect_grace));
  NoteBreak(*node);
  SayOf(*node, Log::Level::kWarning,
        absl::StrCat("event=suspect node=", node->hello.node(),
                     " reason=", Quoted(node->reason)));
}

void Job::On(const StopAsked& stop) {
  if (phase_ == Phase::kEnded) {
    // A job that lingers ends when a person stops it.
    const bool kept = end_->has_linger();
    if (!(stop.now || kept) || end_->now()) return;
    end_->set_now(true);
    return SendEnd();
  }
  v1::End end;
  end.set_now(stop.now);
  end.set_exit_code(stop.exit_code);
  end.set_code(stop.code);
  end.set_reason(stop.reason);
  if (stop.now || phase_ != Phase::kRunning || AllSilent()) {
    return Finish(std::move(end));
  }
  // Ranks may save first, all at the same step.
  const bool asked = notices_.end_then().has_value();
  notices_.EndThen(std::move(end));
  JournalLeaving();
  // All may have been asked already, with a later deadline.
  if (!asked || !notices_.pending() ||
      now_ + limits_.notice_time < notices_.until()) {
    Ask(v1::NOTICE_KIND_PREEMPT, limits_.notice_time, stop.reason);
  }
}

void Job::On(const Tick& tick) {
  if (tick.late > kLate) {
    std::vector<Node*> waiting;
    for (const auto& [deadline, name] : deadlines_) {
      waiting.push_back(&nodes_.at(name));
    }
    for (Node* node : waiting) {
      SetDeadline(*node, node->deadline + tick.late);
      node->lease_until += tick.late;
    }
    isolation_.PutOff(tick.late);
    hangs_.PutOff(tick.late);
    claims_until_ += tick.late;
  }
  if (isolation_.on() && now_ >= isolation_.until()) LoseTheSilent();
  while (!deadlines_.empty() && deadlines_.begin()->first <= now_) {
    if (!isolation_.on() && MostAreSilent()) TakeItselfForCutOff();
    // While the daemon is isolated, silence is not held against a node.
    if (isolation_.on()) break;
    Node& node = nodes_.at(deadlines_.begin()->second);
    if (node.session != 0) {
      Lose(node, v1::REASON_CODE_LOST_LEASE,
           absl::StrCat("silent for ", absl::FormatDuration(limits_.lease)));
    } else {
      Lose(node, v1::REASON_CODE_LOST_STREAM,
           absl::StrCat(node.reason, " and did not come back"));
    }
  }
  if (phase_ == Phase::kForming && now_ >= prepare_deadline_ &&
      !isolation_.on() && unprepared_ > 0) {
    DropLaggards();
  }
  if (MayEndAtBoundary() && now_ >= notices_.boundary_ends()) EndAtBoundary();
  if (now_ >= claims_until_) EndClaims();
  MaybeSettle();
  MaybeEndHung();
  if (now_ >= next_waiting_) TellWaiting();
}

// --- Messages of members -----------------------------------------------------

void Job::OnPrepared(Node& node, const v1::Prepared& prepared) {
  TakeBackLate(node);
  if (phase_ != Phase::kForming || prepared.generation() != generation_ ||
      !node.member()) {
    return;  // From a superseded generation.
  }
  NoteStopped(node);
  // Also for a repeated Prepared: a rank that waited may have died since.
  TakeUpStates(node, prepared);
  if (node.prepared) return;
  for (const std::string& warning : prepared.warnings()) {
    SayOf(node, Log::Level::kWarning,
          absl::StrCat("event=warning node=", node.hello.node(),
                       " text=", Quoted(warning)));
  }
  if (node.node_rank == 0) {
    if (prepared.master_port() == 0) {
      v1::Refused refused;
      refused.set_generation(generation_);
      refused.set_reason("it is node rank 0 and reported no MASTER_PORT");
      return OnRefused(node, refused);
    }
    first_prepared_ = prepared;
  }
  node.prepared = true;
  --unprepared_;
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
  if (phase_ != Phase::kForming || refused.generation() != generation_ ||
      !node.member()) {
    return;
  }
  const std::string reason =
      absl::StrCat("refused generation ", generation_, ": ", refused.reason());
  Bar(node, reason);
  // What it refused for may have passed by then, for example a port in use.
  if (++node.refusals <= kRefusalsForgiven) {
    reach_.Unreached(node.hello.node(), now_ + limits_.unreached_delay);
  }
  Reform(v1::REASON_CODE_REFUSED, reason, node.hello.node());
}

void Job::OnStopped(Node& node, const v1::Stopped& stopped) {
  if (stopped.generation() >= fence_.generation()) NoteStopped(node);
  if (Leaves(node) && barred_.contains(node.hello.node())) {
    return SendLeft(node);
  }
  TakeBackLate(node);
  if (stopped.generation() != generation_ || !node.member() || node.stopped) {
    return;
  }
  node.stopped = true;
  if (phase_ == Phase::kSettling) {
    --unstopped_;
    MaybeSettle();
  }
}

// `step`: the highest step that a rank of this member has published in the
// running generation; 0: none.
void Job::TakeStep(Node& node, uint64_t step) {
  if (step == 0) return;
  // The first step is shown at once, later ones with the next other change.
  if (!hangs_.HasStepped(generation_)) Changed();
  NoteStep(node);
  if (!node.step_before.has_value()) node.step_before = node.step;
  // If node rank 0 publishes steps, only those count: one wrong step of another
  // node would stay in `status` for ever.
  if (node.node_rank == 0) {
    highest_step_ = node.step;
    return;
  }
  // Node rank 0 may have finished, left and been removed.
  const auto first = nodes_.find(world_.members(0).node());
  if (first == nodes_.end() || first->second.step == 0) {
    highest_step_ = std::max(highest_step_, node.step);
  }
}

// While a world makes no progress, the same pace is reported repeatedly.
void Job::TakePace(const v1::Pace& pace) {
  const bool same = pace_.has_value() && pace_->loss() == pace.loss() &&
                    pace_->tokens_per_second() == pace.tokens_per_second();
  pace_ = pace;
  if (!same) Changed();
}

// Ends the node's stream if it names a rank that the node does not have.
bool Job::HasRank(const Node& node, uint32_t local_rank) {
  if (local_rank < node.hello.ranks()) return true;
  Close(node.session, absl::StatusCode::kInvalidArgument,
        v1::REFUSAL_CODE_INVALID,
        absl::StrCat("local rank ", local_rank, " of a node with ",
                     node.hello.ranks(), " ranks"));
  return false;
}

void Job::OnRankExited(Node& node, const v1::RankExited& exited) {
  if (!HasRank(node, exited.local_rank())) return;
  // The agent ended the rank, or the rank ended because of a notice. Without a
  // notice the rank ended by itself, whatever the agent reports.
  if (exited.stopped_by_agent() && !NothingIsAsked(exited.generation())) {
    return OnEndedForNotice(node, exited);
  }
  const bool failed = exited.code() != 0 || exited.signal() != 0;
  if (failed) return RankFailed(node, exited);
  if (phase_ != Phase::kRunning || exited.generation() != generation_ ||
      !node.member() || node.over(exited.local_rank())) {
    return;
  }
  node.done.insert(exited.local_rank());
  ++ranks_over_;
  hangs_.Drop(RankOf(node, exited.local_rank()));
  if (!node.ended()) return;
  node.state = StateByPhase(node);
  Changed();
  --unfinished_;
  MaybeFinish();
  if (phase_ != Phase::kRunning) return;
  NoteFinished(node);
  AtBoundary(node);
  if (phase_ != Phase::kRunning) return;  // It was the last member to reach it.
  if (next_waiting_ == absl::InfiniteFuture()) {
    next_waiting_ = now_ + absl::Minutes(1);
  }
}

void Job::OnExchange(Node& node, const v1::ExchangeIn& in) {
  if (phase_ != Phase::kRunning || !node.member() ||
      in.generation() != generation_) {
    return;  // The Abort that was already sent tells its ranks.
  }
  const absl::StatusOr<Exchanges::Result> result =
      exchanges_.In(static_cast<uint32_t>(node.node_rank), in);
  if (!result.ok()) {
    // The mistake is the ranks', not the agent's: only their call fails.
    v1::DaemonMessage message;
    v1::ExchangeOut& out = *message.mutable_exchange();
    out.set_generation(generation_);
    out.set_key(in.key());
    out.set_code(static_cast<uint32_t>(result.status().code()));
    out.set_error(std::string(result.status().message()));
    return ToNode(node, std::move(message));
  }
  if (result->out == nullptr) return;
  v1::DaemonMessage message;
  *message.mutable_exchange() = *result->out;
  actions_.push_back(Send{result->complete
                              ? MemberSessions()
                              : std::vector<SessionId>{node.session},
                          std::move(message)});
}

// --- Bookkeeping -------------------------------------------------------------

Job::Node* Job::NodeOf(SessionId session) {
  const auto at = sessions_.find(session);
  return at == sessions_.end() ? nullptr : &nodes_.at(at->second);
}

void Job::SetDeadline(Node& node, absl::Time deadline) {
  const std::string& name = node.hello.node();
  if (node.deadline != absl::InfiniteFuture()) {
    deadlines_.erase({node.deadline, name});
  }
  node.deadline = deadline;
  if (deadline != absl::InfiniteFuture()) deadlines_.emplace(deadline, name);
}

// Renews the lease of a node that was heard.
void Job::Renew(Node& node) {
  node.heard_at = now_;
  node.lease_until = now_ + limits_.lease;
  SetDeadline(node, node.lease_until);
  HeardFrom(node);
}

// No member can be asked for anything.
bool Job::AllSilent() const {
  return std::none_of(nodes_.begin(), nodes_.end(), [](const auto& entry) {
    return entry.second.member() && entry.second.session != 0;
  });
}

// Separates the node from its stream.
void Job::Detach(Node& node) {
  sessions_.erase(node.session);
  barred_.erase(node.hello.node());
  node.late = false;
  ForgetProbes(node.hello.node());
  node.session = 0;
}

// Gives the node up. Its entry stays for a while, so that messages can name it.
void Job::Part(Node& node, v1::NodeState state, const std::string& reason,
               bool evicted) {
  const std::string name = node.hello.node();
  if (!Leaves(node) && !evicted) CountLoss(node);
  if (node.session != 0) Detach(node);
  SetDeadline(node, absl::InfiniteFuture());
  suspects_.erase(name);
  checking_.erase(name);
  reach_.Forget(name);
  node.check = 0;
  node.gone = true;
  // From now on only its name and final state are shown.
  node.hello.clear_facts();
  // It was asked to leave for good, so its credential becomes invalid even if
  // it leaves for another reason.
  if (Leaves(node) && phase_ != Phase::kEnded) node_epochs_.Raise(name);
  // A lost node that was asked to leave must still leave if it comes back.
  if (state == v1::NODE_STATE_DRAINING) ForgetLeaving(name);
  node.state = state;
  node.reason = reason;
  node.seat = -1;
  node.node_rank = -1;
  HeardFrom(node);
  Changed();
  gone_order_.push_back(name);
  while (gone_order_.size() > Limits::lost_names_max) {
    const auto oldest = nodes_.find(gone_order_.front());
    if (oldest != nodes_.end() && oldest->second.gone) {
      ForgetLeaving(oldest->first);
      nodes_.erase(oldest);
    }
    gone_order_.pop_front();
  }
}

std::vector<SessionId> Job::MemberSessions() const {
  std::vector<SessionId> sessions;
  for (const v1::Member& member : world_.members()) {
    const auto at = nodes_.find(member.node());
    if (at != nodes_.end() && at->second.member() && at->second.session != 0) {
      sessions.push_back(at->second.session);
    }
  }
  return sessions;
}

std::vector<SessionId> Job::AllSessions() const {
  std::vector<SessionId> sessions;
  for (const auto& [session, name] : sessions_) sessions.push_back(session);
  return sessions;
}

void Job::ToNode(const Node& node, v1::DaemonMessage message) {
  if (node.session == 0) return;
  actions_.push_back(Send{{node.session}, std::move(message)});
}

void Job::Close(SessionId session, absl::StatusCode code,
                v1::RefusalCode refusal, const std::string& text) {
  CloseStream close;
  close.session = session;
  close.code = code;
  close.refusal.set_code(refusal);
  close.refusal.set_text(text);
  actions_.push_back(std::move(close));
}

void Job::Say(Log::Level level, std::string text) {
  actions_.push_back(Log{level, absl::StrCat("job=", job_, " ", text)});
}

void Job::SayOf(const Node& node, Log::Level level, const std::string& text) {
  actions_.push_back(Log{level, absl::StrCat("job=", job_, " ", text),
                         node.observed_address,
                         absl::StrCat(job_, "/", node.hello.node())});
}

absl::Time Job::NextDeadline() const {
  absl::Time next = std::min(
      {next_waiting_, claims_until_, grow_at_, notices_.due(), finished_due_});
  if (MayEndAtBoundary()) next = std::min(next, notices_.boundary_ends());
  if (MayEndHung()) next = std::min(next, hangs_.due());
  // While isolated, no node is given up because of a deadline, and no world is
  // formed.
  if (isolation_.on() && phase_ != Phase::kEnded) {
    if (phase_ == Phase::kSettling)
      next = std::min(next, failures_.window_ends());
    return std::min(next, isolation_.until());
  }
  if (!deadlines_.empty()) next = std::min(next, deadlines_.begin()->first);
  if (MayProbeUnreached()) {
    next = std::min(next, reach_.NextDue() - SoonerProbed());
  }
  if (MayEndUnattended()) {
    next = std::min(next, unattended_since_ + limits_.reattach_grace);
  }
  switch (phase_) {
    case Phase::kGathering:
      // Their own deadlines come first.
      if (SeatedSuspect() || !claimants_.empty()) break;
      if (ProbesUnderWay()) {
        next = std::min(
            next, probing_.Open(now_) ? probing_.until() : rounds_.repeat_at());
        break;
      }
      if (Able() < nodes_min_) {
        next = std::min(next, join_until_);
        break;
      }
      if (fence_asked_until_ > now_) next = std::min(next, fence_asked_until_);
      if (fence_asked_until_ <= now_ || last_call_.Ends(limits_) > now_) {
        next = std::min(next, last_call_.Ends(limits_));
      }
      break;
    case Phase::kForming:
      if (unprepared_ > 0) next = std::min(next, prepare_deadline_);
      for (const std::string& name : checking_) {
        const absl::Time until = nodes_.at(name).checked_until;
        if (unprepared_ == 0 && until > now_) next = std::min(next, until);
      }
      break;
    case Phase::kRunning:
      next = std::min(next, rounds_.due());
      break;
    case Phase::kSettling:
      next = std::min(next, failures_.window_ends());
      break;
    case Phase::kEnded:
      return forgotten_ ? absl::InfiniteFuture() : LingersUntil();
  }
  return next;
}

// Journaled with the actions of the Step that changed the epochs.
void Job::JournalNodeEpochs() {
  // Nothing is journaled after the end.
  if (phase_ == Phase::kEnded) return;
  node_epochs_.MaybePrune([this](const std::string& name) {
    const auto at = nodes_.find(name);
    return at != nodes_.end() && !at->second.gone;
  });
  if (const auto changes = node_epochs_.TakeChanges()) {
    actions_.push_back(Journal{Journal::Kind::kNodeEpochs, generation_,
                               changes->SerializeAsString()});
  }
}

// Checks what each Step touches; checks all nodes if a world was formed.
void Job::CheckInvariants() const {
  CHECK_LE(barred_.size(), sessions_.size());
  CHECK_LE(nodes_.size(), kKnownMax);
  CHECK_LE(deadlines_.size(), nodes_.size());
  CHECK_LE(failures_.causes().size(), Limits::causes_max);
  CHECK_LE(notices_.leaving().size(), nodes_.size());
  CHECK_LE(checking_.size(), nodes_.size());
  CHECK_LE(isolation_.silent(), nodes_.size());
  CHECK_LE(hangs_.size(), world_.world_size());
  CHECK_LE(reach_.size(), nodes_.size());
  CHECK_LE(newcomers_.names(), Limits::newcomer_names_max);
  CHECK_LE(claimants_.size(), Limits::nodes_max);
  CHECK_LE(claims_.size(), Limits::claimed_worlds_max);
  if (phase_ != Phase::kForming ||
      unprepared_ != static_cast<size_t>(world_.members_size())) {
    return;
  }
  std::set<int> seats;
  for (const auto& [name, node] : nodes_) {
    CHECK((node.session == 0) || sessions_.contains(node.session));
    if (node.seat < 0) continue;
    CHECK(seats.insert(node.seat).second);
    CHECK_LT(static_cast<uint32_t>(node.seat), nodes_max_);
  }
  CHECK_EQ(world_.generation(), generation_);
}

}  // namespace rollcall
