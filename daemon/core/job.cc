#include "daemon/core/job.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/core/admission.h"
#include "daemon/core/check.h"
#include "daemon/core/durations.h"
#include "daemon/core/grammar.h"
#include "daemon/core/world.h"

namespace rollcall {
namespace {

// A loop that comes round later than this was held up (swap, a stopped
// process): its lateness is not the agents' silence.
constexpr absl::Duration kLate = absl::Milliseconds(50);

// Each limit that a job may set: the setting wins, and shows what counts.
void ApplyDurations(v1::JobSettings& s, Limits& limits) {
  struct Row {
    absl::Duration& limit;
    bool (v1::JobSettings::*has)() const;
    google::protobuf::Duration* (v1::JobSettings::*setting)();
  };
  using S = v1::JobSettings;
  const Row rows[] = {
      {limits.lease, &S::has_lease, &S::mutable_lease},
      {limits.join_timeout, &S::has_join_timeout, &S::mutable_join_timeout},
      {limits.stop_grace, &S::has_stop_grace, &S::mutable_stop_grace},
      {limits.hang_timeout, &S::has_hang_timeout, &S::mutable_hang_timeout},
      {limits.last_call, &S::has_last_call, &S::mutable_last_call},
      {limits.prepare_timeout, &S::has_prepare_timeout,
       &S::mutable_prepare_timeout},
      {limits.daemon_grace, &S::has_daemon_grace, &S::mutable_daemon_grace},
      {limits.reconnect_grace, &S::has_reconnect_grace,
       &S::mutable_reconnect_grace},
      {limits.reattach_grace, &S::has_reattach_grace,
       &S::mutable_reattach_grace},
  };
  for (const Row& row : rows) {
    if ((s.*row.has)()) row.limit = FromProto(*(s.*row.setting)());
    ToProto(row.limit, (s.*row.setting)());
  }
}

void ApplySettings(v1::JobSettings& s, Limits& limits) {
  ApplyDurations(s, limits);
  if (s.has_max_restarts()) limits.max_restarts = s.max_restarts();
  s.set_max_restarts(limits.max_restarts);
  if (s.has_requeue_exit_code()) {
    limits.requeue_exit_code = s.requeue_exit_code();
  }
  s.set_requeue_exit_code(limits.requeue_exit_code);
  if (s.grow() == v1::GROW_UNSPECIFIED) s.set_grow(v1::GROW_BOUNDARY);
}

// The open generation's world, where the journal has one that can be.
absl::StatusOr<v1::World> WorldOf(const JournalState& state) {
  if (!state.proposal.has_value()) return absl::NotFoundError("no proposal");
  absl::StatusOr<v1::World> world = DecodeWorld(state.proposal->world());
  if (!world.ok()) return world;
  bool fits = world->run() == state.run &&
              world->generation() == state.generation &&
              state.proposal->generation() == state.generation;
  for (const v1::Member& member : world->members()) {
    fits = fits && member.seat() < state.settings.nodes_max();
  }
  if (state.seal.has_value()) {
    fits = fits && AdmitSeal(*state.seal, *world).ok();
  }
  if (fits) return world;
  return absl::InvalidArgumentError("a world of another run or generation");
}

}  // namespace

Job::Job(std::string job, std::string run, const v1::JobSettings& settings,
         const Limits& limits, absl::Time now)
    : job_(std::move(job)),
      run_(std::move(run)),
      settings_(settings),
      limits_(limits),
      nodes_min_(settings.nodes_min()),
      nodes_max_(settings.nodes_max()),
      now_(now),
      gathering_since_(now),
      last_arrival_(now) {
  CHECK_GE(nodes_min_, 1u);
  CHECK_LE(nodes_min_, nodes_max_);
  CHECK_LE(nodes_max_, Limits::nodes_max);
  ApplySettings(settings_, limits_);
  why_.set_code(v1::REASON_CODE_FIRST);
  why_.set_reason("the first world");
  next_waiting_ = now + absl::Seconds(1);
}

absl::Status Job::CheckJournal(const JournalState& state) {
  if (state.end.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("run ", state.run,
                     ": expected one that goes on, but it "
                     "has ended"));
  }
  const v1::JobSettings& settings = state.settings;
  if (!settings.has_nodes_min() || !settings.has_nodes_max()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "run ", state.run, ": its settings do not say how many nodes"));
  }
  if (absl::Status admitted = AdmitSettings(settings); !admitted.ok()) {
    return admitted;
  }
  // So far below what a message may say that the run can go on from it.
  return AdmitCount("generation", state.generation, uint64_t{1} << 61);
}

Job Job::Restore(std::string job, const JournalState& state,
                 const Limits& limits, absl::Time now) {
  CHECK(!state.end.has_value());
  Job restored(std::move(job), state.run, state.settings, limits, now);
  restored.generation_ = state.generation;
  restored.restarts_charged_ =
      std::min(state.restarts_charged, restored.limits_.max_restarts);
  restored.why_.set_code(v1::REASON_CODE_DAEMON_RESTART);
  restored.why_.set_reason("the daemon was started again");
  absl::StatusOr<v1::World> world = WorldOf(state);
  if (!world.ok()) return restored;
  for (const v1::Member& member : world->members()) {
    Node& node = restored.nodes_[member.node()];
    node.hello.set_node(member.node());
    node.hello.set_ranks(member.ranks());
    node.observed_address = member.address();
    node.seat = static_cast<int>(member.seat());
    node.state = v1::NODE_STATE_SUSPECT;
    node.reason = "not back since the daemon was started again";
    restored.suspects_.insert(member.node());
    restored.SetDeadline(node, now + restored.limits_.reattach_grace);
    if (state.seal.has_value()) {
      node.node_rank = static_cast<int>(member.node_rank());
    }
  }
  if (!state.seal.has_value()) return restored;
  // Committed: it runs, whoever is slow to come back.
  restored.phase_ = Phase::kRunning;
  restored.world_ = *std::move(world);
  restored.proposal_ = *state.proposal;
  restored.seal_ = state.seal;
  restored.running_since_ = now;
  restored.next_waiting_ = absl::InfiniteFuture();
  restored.unfinished_ = restored.world_.members_size();
  restored.last_reform_ = restored.why_;
  restored.last_reform_.set_generation(state.generation);
  std::vector<uint32_t> ranks;
  for (const v1::Member& m : restored.world_.members()) {
    ranks.push_back(m.ranks());
  }
  restored.exchanges_.Begin(state.generation, std::move(ranks));
  return restored;
}

std::vector<Action> Job::Start() {
  actions_.clear();
  if (generation_ == 0) {
    actions_.push_back(
        Journal{Journal::Kind::kRunStarted, 0, settings_.SerializeAsString()});
  }
  Say(Log::Level::kInfo, absl::StrCat("event=start nodes=", nodes_min_, ":",
                                      nodes_max_, " generation=", generation_));
  return std::move(actions_);
}

std::vector<Action> Job::Step(const Event& event, absl::Time now) {
  CHECK_GE(now, now_);  // The shell broke its promise: our bug, not an input.
  now_ = now;
  actions_.clear();
  std::visit([this](const auto& e) { On(e); }, event);
  MaybeForm();
  MaybeForget();
  CheckInvariants();
  return std::move(actions_);
}

// --- Events -----------------------------------------------------------------

void Job::On(const Said& said) {
  Node* node = NodeOf(said.session);
  if (node == nullptr) return;  // Of a stream that was ended meanwhile.
  node->confirmed = true;
  if (phase_ != Phase::kEnded) SetDeadline(*node, now_ + limits_.lease);
  const v1::AgentMessage& m = said.message;
  switch (m.kind_case()) {
    case v1::AgentMessage::kHeartbeat:
      node->step = std::max(node->step, m.heartbeat().step());
      if (phase_ == Phase::kRunning && node->step > highest_step_) {
        highest_step_ = node->step;
        progressed_ = true;
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
    // Nothing asks for these yet, so they change nothing.
    case v1::AgentMessage::kProbed:
    case v1::AgentMessage::kNoticeSeen:
    case v1::AgentMessage::kCheckReport:
      return;
    case v1::AgentMessage::kHello:
    case v1::AgentMessage::KIND_NOT_SET:
      Close(said.session, absl::StatusCode::kInvalidArgument,
            v1::REFUSAL_CODE_INVALID,
            "expected one Hello, first and only; got another message of "
            "that kind");
      return;
  }
}

void Job::On(const StreamClosed& closed) {
  Node* node = NodeOf(closed.session);
  if (node == nullptr) return;
  const bool leaving = node->state == v1::NODE_STATE_DRAINING;
  Detach(*node);
  Changed();
  if (leaving) {
    Part(*node, v1::NODE_STATE_DRAINING, node->reason);
    return;
  }
  suspects_.insert(node->hello.node());
  if (phase_ == Phase::kEnded) return;
  node->state = v1::NODE_STATE_SUSPECT;
  node->reason = "its stream broke";
  SetDeadline(*node, std::min(node->deadline, now_ + limits_.reconnect_grace));
  Say(Log::Level::kWarning,
      absl::StrCat("event=suspect node=", node->hello.node(),
                   " reason=\"its stream broke\""));
}

void Job::On(const StopAsked& stop) {
  if (phase_ == Phase::kEnded) {
    if (!stop.now || end_->now()) return;
    end_->set_now(true);
    return SendEnd();
  }
  v1::End end;
  end.set_now(stop.now);
  end.set_exit_code(stop.exit_code);
  end.set_code(stop.code);
  end.set_reason(stop.reason);
  Finish(std::move(end));
}

void Job::On(const DrainAsked&) {}

void Job::On(const Tick& tick) {
  if (tick.late > kLate) {
    std::vector<Node*> waiting;
    for (const auto& [deadline, name] : deadlines_) {
      waiting.push_back(&nodes_.at(name));
    }
    for (Node* node : waiting) SetDeadline(*node, node->deadline + tick.late);
  }
  while (!deadlines_.empty() && deadlines_.begin()->first <= now_) {
    Node& node = nodes_.at(deadlines_.begin()->second);
    if (node.session != 0) {
      Lose(node, v1::REASON_CODE_LOST_LEASE,
           absl::StrCat("silent for ", absl::FormatDuration(limits_.lease)));
    } else {
      Lose(node, v1::REASON_CODE_LOST_STREAM,
           absl::StrCat(node.reason, " and did not come back"));
    }
  }
  if (phase_ == Phase::kForming && now_ >= prepare_deadline_) DropLaggards();
  MaybeSettle();
  if (now_ >= next_waiting_) TellWaiting();
}

// --- What members say --------------------------------------------------------

void Job::OnPrepared(Node& node, const v1::Prepared& prepared) {
  if (phase_ != Phase::kForming || prepared.generation() != generation_ ||
      !node.member() || node.prepared) {
    return;  // Of a superseded generation, or a retry.
  }
  for (const std::string& warning : prepared.warnings()) {
    Say(Log::Level::kWarning,
        absl::StrCat("event=warning node=", node.hello.node(), " text=\"",
                     warning, "\""));
  }
  if (node.node_rank == 0) {
    if (prepared.master_port() == 0) {
      v1::Refused refused;
      refused.set_generation(generation_);
      refused.set_reason("it is node rank 0 and brought no MASTER_PORT");
      return OnRefused(node, refused);
    }
    first_prepared_ = prepared;
  }
  node.prepared = true;
  if (--unprepared_ == 0) Commit();
}

void Job::OnRefused(Node& node, const v1::Refused& refused) {
  if (phase_ != Phase::kForming || refused.generation() != generation_ ||
      !node.member()) {
    return;
  }
  const std::string reason =
      absl::StrCat("refused generation ", generation_, ": ", refused.reason());
  Bar(node, reason);
  Reform(v1::REASON_CODE_REFUSED, reason, node.hello.node());
}

void Job::OnStopped(Node& node, const v1::Stopped& stopped) {
  if (node.state == v1::NODE_STATE_DRAINING) {
    v1::DaemonMessage message;
    message.mutable_end()->set_finished(true);
    message.mutable_end()->set_code(v1::REASON_CODE_LEAVING);
    message.mutable_end()->set_reason("this node left the job");
    return ToNode(node, std::move(message));
  }
  if (stopped.generation() != generation_ || !node.member() || node.stopped) {
    return;
  }
  node.stopped = true;
  if (phase_ == Phase::kSettling) {
    --unstopped_;
    MaybeSettle();
  }
}

void Job::OnRankExited(Node& node, const v1::RankExited& exited) {
  if (exited.local_rank() >= node.hello.ranks()) {
    Close(node.session, absl::StatusCode::kInvalidArgument,
          v1::REFUSAL_CODE_INVALID,
          absl::StrCat("local rank ", exited.local_rank(), " of a node with ",
                       node.hello.ranks(), " ranks"));
    return;
  }
  const bool failed =
      exited.code() != 0 || exited.signal() != 0 || exited.hang();
  if (failed) return RankFailed(node, exited);
  if (phase_ != Phase::kRunning || exited.generation() != generation_ ||
      !node.member() || node.finished()) {
    return;
  }
  node.done.insert(exited.local_rank());
  if (!node.finished()) return;
  node.state = v1::NODE_STATE_FINISHED;
  Changed();
  if (next_waiting_ == absl::InfiniteFuture()) {
    next_waiting_ = now_ + absl::Minutes(1);
  }
  --unfinished_;
  MaybeFinish();
}

void Job::OnLeaving(Node& node, const v1::Leaving& leaving) {
  if (phase_ == Phase::kEnded || node.state == v1::NODE_STATE_DRAINING) return;
  const bool finished = node.member() && node.finished();
  const bool in_world =
      node.member() && !finished &&
      (phase_ == Phase::kForming || phase_ == Phase::kRunning);
  // Between two generations a member that leaves ends the job as it would have
  // a moment earlier.
  const bool between =
      generation_ > 0 && node.seat >= 0 && phase_ == Phase::kGathering;
  const std::string name = node.hello.node();
  const std::string reason = absl::StrCat(name, " leaves: ", leaving.reason());
  Bar(node, reason);
  node.state = v1::NODE_STATE_DRAINING;
  if ((in_world || between) && Present() + suspects_.size() < nodes_min_) {
    v1::End end;
    end.set_exit_code(limits_.requeue_exit_code);
    end.set_code(v1::REASON_CODE_REQUEUE);
    end.set_reason(
        absl::StrCat(reason, "; fewer than ", nodes_min_, " nodes are left"));
    return Finish(std::move(end));
  }
  if (in_world) return Reform(v1::REASON_CODE_LEAVING, reason, name);
  OnStopped(node, v1::Stopped());
}

void Job::OnExchange(Node& node, const v1::ExchangeIn& in) {
  if (phase_ != Phase::kRunning || !node.member() ||
      in.generation() != generation_) {
    return;  // Its ranks are told by the Abort that is on its way.
  }
  const absl::StatusOr<Exchanges::Result> result =
      exchanges_.In(static_cast<uint32_t>(node.node_rank), in);
  if (!result.ok()) {
    // The ranks' mistake, not the agent's: their call fails, nothing else.
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

// Its stream is no longer its voice.
void Job::Detach(Node& node) {
  sessions_.erase(node.session);
  barred_.erase(node.hello.node());
  node.session = 0;
}

// The node is given up; its entry stays for a while, so that it can be named.
void Job::Part(Node& node, v1::NodeState state, const std::string& reason) {
  const std::string name = node.hello.node();
  if (node.session != 0) Detach(node);
  SetDeadline(node, absl::InfiniteFuture());
  suspects_.erase(name);
  node.gone = true;
  node.state = state;
  node.reason = reason;
  node.seat = -1;
  node.node_rank = -1;
  Changed();
  gone_order_.push_back(name);
  while (gone_order_.size() > Limits::lost_names_max) {
    const auto oldest = nodes_.find(gone_order_.front());
    if (oldest != nodes_.end() && oldest->second.gone) nodes_.erase(oldest);
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
                v1::RefusalCode refusal, const std::string& text,
                const std::string& other) {
  CloseStream close;
  close.session = session;
  close.code = code;
  close.refusal.set_code(refusal);
  close.refusal.set_text(text);
  close.refusal.set_other_address(other);
  actions_.push_back(std::move(close));
}

void Job::Say(Log::Level level, std::string text) {
  actions_.push_back(Log{level, absl::StrCat("job=", job_, " ", text)});
}

absl::Time Job::NextDeadline() const {
  absl::Time next = next_waiting_;
  if (!deadlines_.empty()) next = std::min(next, deadlines_.begin()->first);
  switch (phase_) {
    case Phase::kGathering:
      if (SeatedSuspect()) break;  // Its own deadline comes first.
      next = std::min(next, gathering_since_ + limits_.join_timeout);
      if (Present() >= nodes_min_) {
        next = std::min(next, last_arrival_ + limits_.last_call);
      }
      break;
    case Phase::kForming:
      next = std::min(next, prepare_deadline_);
      break;
    case Phase::kRunning:
      break;
    case Phase::kSettling:
      next = std::min(next, settlement_->until);
      break;
    case Phase::kEnded:
      return forgotten_ ? absl::InfiniteFuture() : LingersUntil();
  }
  return next;
}

// Of what each Step touches; of the whole where a world was made.
void Job::CheckInvariants() const {
  CHECK_LE(barred_.size(), sessions_.size());
  CHECK_LE(nodes_.size(), Limits::nodes_max + Limits::lost_names_max);
  CHECK_LE(deadlines_.size(), nodes_.size());
  CHECK_LE(causes_.size(), Limits::causes_max);
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
