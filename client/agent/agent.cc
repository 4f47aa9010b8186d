#include "client/agent/agent.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/core/check.h"
#include "daemon/core/durations.h"
#include "daemon/core/world.h"

namespace rollcall {
namespace {

constexpr int kExitRendezvous = 69;
constexpr int kExitRefused = 77;
constexpr int kExitUsage = 2;

const v1::Member* RowOf(const v1::World& world, const std::string& node) {
  for (const v1::Member& member : world.members()) {
    if (member.node() == node) return &member;
  }
  return nullptr;
}

}  // namespace

Agent::Agent(const v1::Hello& hello, absl::Duration join_timeout,
             const Limits& limits, absl::Time now)
    : hello_(hello),
      limits_(limits),
      now_(now),
      redial_at_(now),
      redial_delay_(limits.redial_first),
      give_up_at_(now + join_timeout),
      heartbeat_(limits.heartbeat()) {
  CHECK_NE(hello.incarnation(), 0u);
}

std::vector<AgentAction> Agent::Start() {
  link_ = Link::kDialing;
  return {Dial{}};
}

std::vector<AgentAction> Agent::Step(const AgentEvent& event, absl::Time now) {
  CHECK_GE(now, now_);  // The shell broke its promise: our bug, not an input.
  now_ = now;
  actions_.clear();
  if (exited_) return {};
  std::visit([this](const auto& e) { On(e); }, event);
  MaybeExit();
  return std::move(actions_);
}

absl::Time Agent::NextDeadline() const {
  if (exited_) return absl::InfiniteFuture();
  absl::Time next = leave_by_;
  if (link_ == Link::kDown && !exit_.has_value()) {
    next = std::min(next, redial_at_);
  }
  if (link_ == Link::kAttending) next = std::min(next, next_heartbeat_);
  if (link_ != Link::kAttending && !exit_.has_value()) {
    next = std::min(next, give_up_at_);
  }
  return next;
}

// --- The link
// -----------------------------------------------------------------

void Agent::On(const StreamUp&) {
  v1::AgentMessage message;
  v1::Hello& hello = *message.mutable_hello();
  hello = hello_;
  hello.set_generation_seen(generation_seen_);
  *hello.mutable_held() = HeldNow();
  actions_.push_back(Say{std::move(message)});
}

v1::Held Agent::HeldNow() const {
  v1::Held held;
  if (preparing_.has_value() && preparing_->done.has_value()) {
    held.set_prepared_generation(preparing_->world.generation());
  }
  if (!running_.has_value()) return held;
  held.set_running_generation(running_->generation);
  if (running_->world_bytes.size() + running_->seal_bytes.size() <=
      Limits::held_world_bytes_max) {
    held.set_world(running_->world_bytes);
    held.set_seal(running_->seal_bytes);
  }
  for (const v1::RankExited& exited : running_->exits) {
    *held.add_exits() = exited;
  }
  return held;
}

void Agent::OnWelcome(const v1::Welcome& welcome) {
  if (link_ == Link::kAttending) return;
  link_ = Link::kAttending;
  hello_.set_run(welcome.run());
  limits_.lease = FromProto(welcome.lease());
  limits_.daemon_grace = FromProto(welcome.daemon_grace());
  limits_.stop_grace = FromProto(welcome.stop_grace());
  heartbeat_ =
      std::max(FromProto(welcome.heartbeat_interval()), absl::Milliseconds(10));
  next_heartbeat_ = now_ + heartbeat_;
  redial_delay_ = limits_.redial_first;
  name_taken_until_ = absl::InfiniteFuture();
  last_error_.clear();
  if (welcomed_) {
    Tell(Report::Kind::kState, "attending again");
  }
  welcomed_ = true;
  if (preparing_.has_value()) preparing_->said = false;
  SayPreparedIfReady();
  SayStoppedIfGone();
  for (auto& [key, exchange] : exchanges_) {
    if (exchange.said) SayExchange(key, exchange);
  }
  SayAnswered();
  if (leave_signal_ != 0) {
    v1::AgentMessage message;
    message.mutable_leaving()->set_reason(
        absl::StrCat("signal ", leave_signal_));
    Tell(std::move(message));
  }
}

void Agent::On(const StreamDown& down) {
  const bool attended = link_ == Link::kAttending;
  link_ = Link::kDown;
  next_heartbeat_ = absl::InfiniteFuture();
  if (exit_.has_value()) return;
  if (attended) give_up_at_ = now_ + limits_.daemon_grace;
  last_error_ = down.refusal.has_value() && !down.refusal->text().empty()
                    ? down.refusal->text()
                    : std::string(down.status.message());
  if (attended && !down.refusal.has_value()) {
    Tell(Report::Kind::kWarning,
         absl::StrCat("lost the daemon (", last_error_, "); redialling for ",
                      absl::FormatDuration(limits_.daemon_grace),
                      living_ != 0 ? ", the ranks run on" : ""));
  }
  Refused(down);
  if (exit_.has_value()) return;
  if (!welcomed_) TellNobodyAnswers(down.refusal.has_value());
  Redial(down.jitter);
}

// Keeps to one text, since each endpoint fails in words of its own and a line
// that changes is told again.
void Agent::TellNobodyAnswers(bool refused) {
  if (first_error_.empty() || refused) first_error_ = last_error_;
  Tell(Report::Kind::kWaiting,
       absl::StrCat(refused ? "not let in yet: " : "no daemon answers yet: ",
                    first_error_));
}

void Agent::Redial(double jitter) {
  // Half of the delay is certain, half is chance: nobody comes in step.
  redial_at_ = std::min(
      now_ + redial_delay_ * (0.5 + 0.5 * std::clamp(jitter, 0.0, 1.0)),
      give_up_at_);
  redial_delay_ = std::min(redial_delay_ * 2, limits_.redial_most);
}

void Agent::Refused(const StreamDown& down) {
  const v1::RefusalCode code = down.refusal.has_value()
                                   ? down.refusal->code()
                                   : v1::REFUSAL_CODE_UNSPECIFIED;
  switch (code) {
    case v1::REFUSAL_CODE_LOST:
      return AttendAnew(down.fresh_incarnation, last_error_);
    case v1::REFUSAL_CODE_NAME_TAKEN:
      return NameTaken(last_error_);
    case v1::REFUSAL_CODE_UNAUTHENTICATED:
      return Leave(kExitRefused, last_error_);
    case v1::REFUSAL_CODE_SETTINGS:
      return Leave(kExitUsage, last_error_);
    case v1::REFUSAL_CODE_REPLACED:
    case v1::REFUSAL_CODE_OTHER_RUN:
    case v1::REFUSAL_CODE_INVALID:
    case v1::REFUSAL_CODE_LIMIT:
      return Leave(kExitRendezvous, last_error_);
    // The job may be made later, a slow reader may catch up, and a stream that
    // was taken for the older one was ours all the same.
    case v1::REFUSAL_CODE_REDIALED:
    case v1::REFUSAL_CODE_NO_JOB:
    case v1::REFUSAL_CODE_SLOW:
      return;
    default:
      break;
  }
  switch (down.status.code()) {
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
      return Leave(kExitRefused, last_error_);
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnimplemented:
      return Leave(kExitRendezvous, last_error_);
    default:
      return;  // Redial.
  }
}

// The name's owner may be this node's own last life, whose lease still runs.
void Agent::NameTaken(const std::string& text) {
  if (name_taken_until_ == absl::InfiniteFuture()) {
    name_taken_until_ = now_ + limits_.lease + absl::Seconds(1);
    Tell(Report::Kind::kWarning,
         absl::StrCat(text, "; trying for ",
                      absl::FormatDuration(limits_.lease + absl::Seconds(1)),
                      " in case it is gone"));
  } else if (now_ >= name_taken_until_) {
    Leave(kExitRefused, text);
  }
}

void Agent::AttendAnew(uint64_t incarnation, const std::string& why) {
  Tell(Report::Kind::kWarning, absl::StrCat(why, "; attending anew"));
  hello_.set_incarnation(incarnation);
  DropPreparation();
  EndGeneration(why);
  stopped_to_say_ = 0;
}

// --- Worlds
// -------------------------------------------------------------------

void Agent::On(const FromDaemon& from) {
  const v1::DaemonMessage& m = from.message;
  if (exit_.has_value() && m.kind_case() != v1::DaemonMessage::kEnd) return;
  switch (m.kind_case()) {
    case v1::DaemonMessage::kWelcome:
      return OnWelcome(m.welcome());
    case v1::DaemonMessage::kWaiting:
      return OnWaiting(m.waiting());
    case v1::DaemonMessage::kProposal:
      return OnProposal(m.proposal());
    case v1::DaemonMessage::kCommit:
      return OnCommit(m.commit());
    case v1::DaemonMessage::kAbort:
      return OnAbort(m.abort());
    case v1::DaemonMessage::kEnd:
      return OnEnd(m.end());
    case v1::DaemonMessage::kExchange:
      return OnExchange(m.exchange());
    // Of a newer daemon; this agent has nothing to do for them.
    case v1::DaemonMessage::kProbe:
    case v1::DaemonMessage::kNotice:
    case v1::DaemonMessage::kCheckRequest:
    case v1::DaemonMessage::KIND_NOT_SET:
      return;
  }
}

void Agent::OnProposal(const v1::Proposal& proposal) {
  if (proposal.generation() <= generation_seen_) return;  // Fenced, or a retry.
  generation_seen_ = proposal.generation();
  absl::StatusOr<v1::World> world = DecodeWorld(proposal.world());
  const v1::Member* row = world.ok() ? RowOf(*world, hello_.node()) : nullptr;
  DropPreparation();
  EndGeneration(
      absl::StrCat("generation ", proposal.generation(), " takes its place"));
  stopped_to_say_ = 0;  // Prepared says as much.
  if (row == nullptr || row->ranks() != hello_.ranks()) {
    v1::AgentMessage message;
    message.mutable_refused()->set_generation(proposal.generation());
    message.mutable_refused()->set_reason(
        world.ok() ? absl::StrCat("the world has no row for ", hello_.node(),
                                  " with ", hello_.ranks(), " ranks")
                   : std::string(world.status().message()));
    return Tell(std::move(message));
  }
  Preparing preparing;
  preparing.node_rank = row->node_rank();
  preparing.world_bytes = proposal.world();
  preparing.world = *std::move(world);
  actions_.push_back(Prepare{preparing.world, preparing.node_rank});
  preparing_ = std::move(preparing);
}

void Agent::On(const PreparationDone& done) {
  if (!preparing_.has_value() ||
      preparing_->world.generation() != done.generation) {
    return;
  }
  v1::Prepared prepared;
  prepared.set_generation(done.generation);
  prepared.set_master_port(done.master_port);
  for (const std::string& id : done.nccl_ids) prepared.add_nccl_ids(id);
  prepared.set_nccl_version(done.nccl_version);
  prepared.set_nccl_absent(done.nccl_absent);
  for (const std::string& warning : done.warnings) {
    prepared.add_warnings(warning);
    Tell(Report::Kind::kWarning, warning);
  }
  preparing_->done = std::move(prepared);
  SayPreparedIfReady();
}

void Agent::On(const PreparationFailed& failed) {
  if (!preparing_.has_value() ||
      preparing_->world.generation() != failed.generation) {
    return;
  }
  DropPreparation();
  v1::AgentMessage message;
  message.mutable_refused()->set_generation(failed.generation);
  message.mutable_refused()->set_reason(failed.reason);
  Tell(std::move(message));
  Tell(Report::Kind::kWarning,
       absl::StrCat("cannot take part in generation ", failed.generation, ": ",
                    failed.reason));
}

void Agent::SayPreparedIfReady() {
  if (!preparing_.has_value() || !preparing_->done.has_value() ||
      preparing_->said || living_ != 0 || link_ != Link::kAttending) {
    return;
  }
  preparing_->said = true;
  v1::AgentMessage message;
  *message.mutable_prepared() = *preparing_->done;
  Tell(std::move(message));
}

void Agent::OnCommit(const v1::Commit& commit) {
  if (!preparing_.has_value() || !preparing_->said ||
      preparing_->world.generation() != commit.generation()) {
    return;
  }
  v1::Seal seal;
  if (!seal.ParseFromString(commit.seal()) ||
      seal.generation() != commit.generation()) {
    return Leave(kExitRendezvous,
                 absl::StrCat("the commit of generation ", commit.generation(),
                              " does not parse; the daemon speaks another "
                              "version of rollcall"));
  }
  running_ = Running();
  running_->generation = commit.generation();
  running_->ranks = hello_.ranks();
  running_->first_rank =
      preparing_->world.members(static_cast<int>(preparing_->node_rank))
          .first_rank();
  running_->world_size = static_cast<int>(preparing_->world.world_size());
  running_->world_bytes = std::move(preparing_->world_bytes);
  running_->seal_bytes = commit.seal();
  living_ = commit.generation();
  stopping_ = false;
  kill_at_ = absl::InfiniteFuture();
  Tell(Report::Kind::kState,
       absl::StrCat("generation ", commit.generation(), ": node rank ",
                    preparing_->node_rank, " of ",
                    preparing_->world.members_size(), ", world size ",
                    preparing_->world.world_size()));
  actions_.push_back(StartRanks{std::move(preparing_->world), std::move(seal),
                                preparing_->node_rank});
  preparing_.reset();
}

void Agent::OnAbort(const v1::Abort& abort) {
  // One that is late must not touch a newer generation's ranks.
  if (abort.generation() < generation_seen_) return;
  generation_seen_ = abort.generation();
  DropPreparation();
  if (running_.has_value()) {
    Tell(Report::Kind::kState, absl::StrCat("generation ", abort.generation(),
                                            " ended: ", abort.reason()));
  }
  EndGeneration(abort.reason());
  stopped_to_say_ = abort.generation();
  SayStoppedIfGone();
}

void Agent::SayStoppedIfGone() {
  if (stopped_to_say_ == 0 || living_ != 0 || link_ != Link::kAttending) {
    return;
  }
  v1::AgentMessage message;
  message.mutable_stopped()->set_generation(stopped_to_say_);
  Tell(std::move(message));
}

void Agent::DropPreparation() {
  if (!preparing_.has_value()) return;
  actions_.push_back(Undo{preparing_->world.generation()});
  preparing_.reset();
}

void Agent::EndGeneration(const std::string& reason) {
  if (running_.has_value()) {
    actions_.push_back(FailExchanges{running_->generation, reason});
    running_.reset();
    exchanges_.clear();
    answered_.clear();
  }
  Stop(limits_.stop_grace);
}

void Agent::Stop(absl::Duration grace) {
  if (living_ == 0) return;
  const absl::Time kill_at = now_ + grace;
  if (stopping_ && kill_at >= kill_at_) return;
  stopping_ = true;
  kill_at_ = kill_at;
  actions_.push_back(StopRanks{living_, grace});
}

// --- Ranks
// --------------------------------------------------------------------

void Agent::On(const RankEnded& ended) {
  if (ended.generation != living_ || !running_.has_value()) {
    // Stopped on our order. What a signal of somebody else's did before ours
    // could, the daemon still wants to know: it may be the root cause.
    const bool foreign = ended.signal == SIGSEGV || ended.signal == SIGBUS ||
                         (ended.signal == SIGKILL && now_ < kill_at_);
    if (ended.generation != living_ || !foreign) return;
  }
  v1::RankExited exited;
  exited.set_generation(ended.generation);
  exited.set_local_rank(ended.local_rank);
  exited.set_code(ended.code);
  exited.set_signal(ended.signal);
  exited.set_stderr_tail(ended.stderr_tail);
  exited.set_error_file(ended.error_file);
  if (running_.has_value()) {
    if (running_->exits.size() >= running_->ranks) return;
    running_->exits.push_back(exited);
  }
  v1::AgentMessage message;
  *message.mutable_rank_exited() = std::move(exited);
  Tell(std::move(message));
}

void Agent::On(const RanksGone& gone) {
  if (gone.generation != living_) return;
  living_ = 0;
  stopping_ = false;
  kill_at_ = absl::InfiniteFuture();
  SayStoppedIfGone();
  SayPreparedIfReady();
}

void Agent::On(const RankProgressed& progressed) {
  if (!running_.has_value() || progressed.generation != running_->generation) {
    return;
  }
  running_->step = std::max(running_->step, progressed.step);
}

void Agent::On(const RankExchanged& exchanged) {
  const uint64_t generation = exchanged.generation;
  if (!running_.has_value() || generation != running_->generation) {
    actions_.push_back(FailExchanges{
        generation, absl::StrCat("generation ", generation, " has ended")});
    return;
  }
  for (const v1::ExchangeOut& out : answered_) {
    if (out.key() != exchanged.key) continue;
    const uint32_t rank = running_->first_rank + exchanged.local_rank;
    if (exchanged.local_rank >= running_->ranks ||
        out.values(static_cast<int>(rank)) != exchanged.value) {
      return RefuseExchange(exchanged.key, absl::StatusCode::kInvalidArgument,
                            absl::StrCat("key '", exchanged.key,
                                         "' was given another value before; "
                                         "use a fresh key"));
    }
    actions_.push_back(AnswerExchange{out});
    return;
  }
  const auto [at, fresh] = exchanges_.try_emplace(exchanged.key);
  if (fresh && exchanges_.size() > Limits::exchanges_open_max) {
    exchanges_.erase(at);
    return RefuseExchange(exchanged.key, absl::StatusCode::kResourceExhausted,
                          absl::StrCat("over ", Limits::exchanges_open_max,
                                       " keys are open at once"));
  }
  Exchange& exchange = at->second;
  exchange.values.resize(running_->ranks);
  if (exchanged.local_rank >= running_->ranks || exchange.said) return;
  exchange.values[exchanged.local_rank] = exchanged.value;
  const bool all = std::all_of(exchange.values.begin(), exchange.values.end(),
                               [](const auto& v) { return v.has_value(); });
  if (all) SayExchange(exchanged.key, exchange);
}

void Agent::SayExchange(const std::string& key, Exchange& exchange) {
  exchange.said = true;
  v1::AgentMessage message;
  v1::ExchangeIn& in = *message.mutable_exchange();
  in.set_generation(running_->generation);
  in.set_key(key);
  for (const std::optional<std::string>& value : exchange.values) {
    in.add_values(*value);
  }
  Tell(std::move(message));
}

// A daemon that was restarted has forgotten what was complete; nodes that had
// not got the answer yet need our values once more.
void Agent::SayAnswered() {
  for (const v1::ExchangeOut& out : answered_) {
    v1::AgentMessage message;
    v1::ExchangeIn& in = *message.mutable_exchange();
    in.set_generation(running_->generation);
    in.set_key(out.key());
    for (uint32_t i = 0; i < running_->ranks; ++i) {
      in.add_values(out.values(static_cast<int>(running_->first_rank + i)));
    }
    Tell(std::move(message));
  }
}

void Agent::RefuseExchange(const std::string& key, absl::StatusCode code,
                           const std::string& why) {
  v1::ExchangeOut out;
  out.set_generation(running_->generation);
  out.set_key(key);
  out.set_code(static_cast<uint32_t>(code));
  out.set_error(why);
  actions_.push_back(AnswerExchange{std::move(out)});
}

void Agent::OnExchange(const v1::ExchangeOut& exchange) {
  if (!running_.has_value() || exchange.generation() != running_->generation ||
      exchanges_.erase(exchange.key()) == 0) {
    return;
  }
  if (exchange.code() != 0) {
    return RefuseExchange(exchange.key(),
                          static_cast<absl::StatusCode>(exchange.code()),
                          exchange.error());
  }
  if (exchange.values_size() != running_->world_size) {
    return RefuseExchange(exchange.key(), absl::StatusCode::kInternal,
                          "the answer has not one value a rank");
  }
  answered_.push_back(exchange);
  if (answered_.size() > Limits::answers_kept) {
    answered_.erase(answered_.begin());
  }
  actions_.push_back(AnswerExchange{exchange});
}

// --- Time and the end
// ---------------------------------------------------------

void Agent::On(const AgentTick&) {
  if (link_ == Link::kAttending && now_ >= next_heartbeat_) {
    next_heartbeat_ = now_ + heartbeat_;
    v1::AgentMessage message;
    v1::Heartbeat& heartbeat = *message.mutable_heartbeat();
    if (running_.has_value()) {
      heartbeat.set_generation(running_->generation);
      heartbeat.set_step(running_->step);
    }
    Tell(std::move(message));
  }
  if (now_ >= leave_by_) {
    leave_by_ = absl::InfiniteFuture();
    Leave(128 + leave_signal_, "asked to leave; the daemon did not answer");
  }
  if (exit_.has_value()) return;
  if (link_ != Link::kAttending && now_ >= give_up_at_) {
    return Leave(kExitRendezvous,
                 absl::StrCat(welcomed_ ? "the daemon did not come back"
                                        : "could not attend the job",
                              " in time; last: ", last_error_));
  }
  if (link_ == Link::kDown && now_ >= redial_at_) {
    link_ = Link::kDialing;
    actions_.push_back(Dial{});
  }
}

void Agent::OnWaiting(const v1::Waiting& waiting) {
  std::string text;
  if (waiting.spare()) {
    text = "spare: all seats are taken; waiting for one";
  } else {
    text = absl::StrCat(
        waiting.present(), " of ", waiting.nodes_min(),
        waiting.nodes_max() != waiting.nodes_min()
            ? absl::StrCat(":", waiting.nodes_max())
            : "",
        " nodes attend",
        waiting.missing().empty()
            ? ""
            : absl::StrCat("; waiting for ",
                           absl::StrJoin(waiting.missing(), ", ")),
        waiting.reason().empty() ? ""
                                 : absl::StrCat(" (", waiting.reason(), ")"));
  }
  Tell(Report::Kind::kWaiting, std::move(text));
}

void Agent::On(const LeaveAsked& leave) {
  if (leave_signal_ != 0 || exit_.has_value()) {
    // Asked twice: at once.
    Stop(absl::ZeroDuration());
    if (!exit_.has_value()) {
      Leave(128 + leave.signal, absl::StrCat("signal ", leave.signal));
    }
    return;
  }
  leave_signal_ = leave.signal;
  if (link_ != Link::kAttending) {
    return Leave(128 + leave.signal, absl::StrCat("signal ", leave.signal));
  }
  leave_by_ = now_ + limits_.stop_grace + limits_.lease;
  v1::AgentMessage message;
  message.mutable_leaving()->set_reason(absl::StrCat("signal ", leave.signal));
  Tell(std::move(message));
}

void Agent::On(const SignalCame& came) {
  if (living_ != 0) actions_.push_back(PassSignal{came.signal});
}

void Agent::OnEnd(const v1::End& end) {
  if (end.now()) Stop(absl::ZeroDuration());
  if (exit_.has_value() && exit_->end.has_value()) return;
  exit_.reset();
  // A person who pressed Ctrl-C gets what shells expect.
  const bool interrupted =
      leave_signal_ == SIGINT && end.code() == v1::REASON_CODE_LEAVING;
  Leave(interrupted ? 128 + SIGINT : end.exit_code(), end.reason(), end);
}

void Agent::Leave(int code, const std::string& reason,
                  std::optional<v1::End> end) {
  if (exit_.has_value()) return;
  exit_ = Exit{code, reason, std::move(end)};
  DropPreparation();
  EndGeneration(reason);
}

void Agent::MaybeExit() {
  if (!exit_.has_value() || living_ != 0 || exited_) return;
  exited_ = true;
  if (exit_->end.has_value() && link_ == Link::kAttending) {
    v1::AgentMessage message;
    message.mutable_end_seen()->set_generation(generation_seen_);
    Tell(std::move(message));
  }
  actions_.push_back(*exit_);
}

void Agent::Tell(v1::AgentMessage message) {
  // What is not said now is part of the next Hello, or is said again after it.
  if (link_ == Link::kAttending) actions_.push_back(Say{std::move(message)});
}

void Agent::Tell(Report::Kind kind, std::string text) {
  actions_.push_back(Report{kind, std::move(text)});
}

}  // namespace rollcall
