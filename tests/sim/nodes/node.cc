#include "tests/sim/nodes/node.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/base/durations.h"
#include "daemon/core/network_plan/probing/probing.h"
#include "tests/sim/daemons/daemons.h"

namespace rollcall::sim {
namespace {

constexpr Nanos kConnectPatience = 3 * kSecond;
constexpr Nanos kGuard = kSecond;
constexpr uint32_t kProbePort = 40000;
constexpr Nanos kProbeAgain = 50 * kMilli;

}  // namespace

Node::Node(World& world, Network& network, InvariantChecker& checker,
           Trainer& trainer, const NodeSettings& settings, Clock clock)
    : world_(world),
      network_(network),
      checker_(checker),
      trainer_(trainer),
      settings_(settings),
      clock_(clock),
      ranks_(world, settings.number, settings.ranks, settings.linked,
             [this](AgentEvent event) { Feed(0, std::move(event)); }) {}

// --- Lives
// --------------------------------------------------------------------

void Node::Start() {
  if (agent_.has_value()) return;
  ranks_.Clear();
  ++life_;
  exit_code_.reset();
  frozen_until_ = 0;
  v1::Hello hello;
  hello.set_job(settings_.job);
  hello.set_node(settings_.name);
  incarnations_.emplace(settings_.job, settings_.name, [this] {
    const uint64_t number = world_.chance.Next();
    std::string nonce(Limits::incarnation_nonce_bytes, '\0');
    std::memcpy(nonce.data(), &number, sizeof(number));
    return nonce;
  });
  incarnation_ = incarnations_->next();
  hello.set_incarnation(incarnation_);
  hello.set_ranks(settings_.ranks);
  hello.set_launcher(settings_.launcher);
  hello.set_once(settings_.once);
  // Some lives have a set-up command, which always succeeds: a failure would
  // end most jobs.
  hello.set_setting_up((life_ + settings_.number) % 4 == 0);
  *hello.mutable_swept_nonces() = {recorded_.begin(), recorded_.end()};
  if (settings_.job_settings.has_value()) {
    *hello.mutable_settings() = *settings_.job_settings;
  }
  round_ = EndpointRound(settings_.daemons);
  leader_.emplace(std::vector<std::string>(), false);
  hello.mutable_token()->set_id("abc123");
  hello.mutable_token()->set_secret("0123456789abcdef");
  ++probes_;
  world_.beacons[Address()] = {};
  world_.Trace(settings_.name, " (machine ", settings_.number,
               ") starts, incarnation ", incarnation_);
  record_ = LifeRecord();
  record_.node = settings_.number;
  record_.name = settings_.name;
  if (hello_said_.has_value()) old_hello_ = std::move(hello_said_);
  hello_said_.reset();
  agent_.emplace(hello, settings_.join_timeout, Limits(), Local());
  tick_at_ = kNever;
  for (const AgentAction& action : agent_->Start()) {
    std::visit([this](const auto& a) { Do(a); }, action);
  }
  AskForTick();
}

void Node::Crash(bool power) {
  if (!agent_.has_value()) return;
  world_.Trace(settings_.name, power ? " loses power" : " is killed");
  if (stream_ != 0) network_.Drop(stream_, kUp, !power);
  stream_ = 0;
  agent_.reset();
  inbox_.clear();
  frozen_until_ = 0;
  ++life_;
  ++preparations_;
  // A machine that loses power may also lose the nonces that it had recorded.
  if (power && world_.chance.OneIn(2)) recorded_.clear();
  if (power) return ranks_.Clear();
  // The guard kills the ranks, and no agent is there to be told.
  ranks_.EndBy(world_.now() + world_.chance.Between(0, kGuard));
}

void Node::Freeze(Nanos until) {
  if (!agent_.has_value() || until <= frozen_until_) return;
  world_.Trace(settings_.name, " freezes for ",
               absl::FormatDuration(absl::Nanoseconds(until - world_.now())));
  frozen_until_ = until;
  world_.Schedule(until, Wake::Kind::kNodeThaws, settings_.number);
}

void Node::Calm() {
  refuse_next_ = false;
  delay_next_ = 0;
  if (frozen()) {
    frozen_until_ = world_.now();
    OnThaw();
  }
}

void Node::AskLeave(int signal) {
  if (!agent_.has_value()) return;
  world_.Trace(settings_.name, " is asked to leave by signal ", signal);
  Feed(0, LeaveAsked{signal});
}

// --- The agent's shell
// ----------------------------------------------------------

void Node::Take(StreamId stream, Parcel& parcel) {
  if (stream != stream_) return;
  if (ToAgent* message = std::get_if<ToAgent>(&parcel)) {
    return Feed(stream, FromDaemon{**message});
  }
  if (Ended* ended = std::get_if<Ended>(&parcel)) {
    return Feed(stream, Down(ended->status, ended->refusal));
  }
  Feed(stream, Down(absl::UnavailableError("the stream broke"), {}));
}

StreamDown Node::Down(absl::Status status, std::optional<v1::Refusal> refusal) {
  StreamDown down;
  down.status = std::move(status);
  down.refusal = std::move(refusal);
  if (down.refusal.has_value()) leader_->Hear(*down.refusal);
  round_.Failed(false);
  down.jitter = world_.chance.Unit();
  down.fresh_incarnation = incarnations_->next();
  down.nonce = incarnations_->nonce();
  return down;
}

void Node::Feed(StreamId stream, AgentEvent event) {
  if (!agent_.has_value()) return;
  if (frozen() || !inbox_.empty()) {
    inbox_.emplace_back(stream, std::move(event));
    return;
  }
  Handle(stream, event);
  TickIfDue();
}

void Node::OnThaw() {
  if (!agent_.has_value() || frozen()) return;
  std::vector<std::pair<StreamId, AgentEvent>> inbox;
  inbox.swap(inbox_);
  for (const auto& [stream, event] : inbox) {
    if (agent_.has_value()) Handle(stream, event);
  }
  TickIfDue();
}

void Node::Handle(StreamId stream, const AgentEvent& event) {
  // Messages of an older stream are ignored.
  if (stream != 0 && stream != stream_) return;
  if (const auto* from = std::get_if<FromDaemon>(&event)) {
    if (world_.tracing()) {
      world_.Trace(settings_.name, " hears ",
                   from->message.ShortDebugString().substr(0, 160));
    }
    checker_.Hears(record_, from->message);
  }
  const auto* asked = std::get_if<LeaveAsked>(&event);
  if (asked != nullptr && record_.leave_signal != 0) {
    record_.goes_at_once = true;
  } else if (asked != nullptr && !record_.end) {
    record_.leave_signal = asked->signal;
  }
  Step(event);
  // Reports the facts that changed after the Hello and before the Welcome.
  const auto* from = std::get_if<FromDaemon>(&event);
  if (from != nullptr && from->message.has_welcome()) TellNewFacts();
}

void Node::Step(const AgentEvent& event) {
  if (!agent_.has_value()) return;
  for (const AgentAction& action : agent_->Step(event, Local())) {
    std::visit([this](const auto& a) { Do(a); }, action);
  }
  if (exit_code_.has_value()) agent_.reset();
}

void Node::TickIfDue() {
  if (!agent_.has_value() || frozen()) return;
  const absl::Time now = Local();
  if (agent_->NextDeadline() <= now) {
    if (ranks_.running() != 0 && ranks_.completed() > step_told_) {
      step_told_ = ranks_.completed();
      for (uint32_t i = 0; i < settings_.ranks && agent_.has_value(); ++i) {
        if (!ranks_.has_begun(i)) continue;
        Step(RankProgressed{ranks_.running(), step_told_, i});
      }
    }
    Step(AgentTick{});
    if (agent_.has_value()) checker_.AgentTicked(record_, *agent_, now);
  }
  AskForTick();
}

void Node::AskForTick() {
  if (!agent_.has_value()) return;
  const Nanos at = clock_.WorldAt(agent_->NextDeadline());
  // A tick that is due earlier looks again at the deadline.
  if (at >= tick_at_) return;
  tick_at_ = std::max(at, world_.now());
  world_.Schedule(tick_at_, Wake::Kind::kNodeTick, settings_.number, life_);
}

void Node::OnTick(uint64_t life) {
  if (life != life_ || !agent_.has_value() || world_.now() < tick_at_) return;
  tick_at_ = kNever;
  TickIfDue();
}

// As client/agent/session does: dials the daemon that was named as leader,
// otherwise the next one.
uint32_t Node::NextDaemon() {
  const std::optional<std::string> named = leader_->Next();
  if (!named.has_value()) return static_cast<uint32_t>(round_.Next());
  return DaemonAt(*named);
}

void Node::Do(const Dial&) {
  if (stream_ != 0) network_.Drop(stream_, kUp, true);
  stream_ = network_.Dial(settings_.number, kConnectPatience, NextDaemon());
  // Hello is sent together with the connection request.
  Step(StreamUp{});
}

void Node::Do(const Say& said) {
  Say say = said;
  if (say.message.has_hello()) {
    MaybeRenumber(64);
    *say.message.mutable_hello()->mutable_facts() = Facts();
    hello_said_ = say.message.hello();
    incarnations_->Said(hello_said_->incarnation());
    told_ = hello_said_->facts();
  }
  if (say.message.check_report().has_facts()) {
    told_ = say.message.check_report().facts();
  }
  checker_.Says(record_, say.message, ranks_.any_busy());
  if (world_.tracing() && !say.message.has_heartbeat()) {
    world_.Trace(
        settings_.name, " says ",
        say.message.has_hello()
            ? absl::StrCat(
                  "hello, holds ",
                  say.message.hello().resume_state().running_generation())
            : say.message.ShortDebugString().substr(0, 160));
  }
  if (stream_ == 0 || !network_.AgentOpen(stream_)) return;
  network_.Send(stream_, kUp, std::make_unique<v1::AgentMessage>(say.message));
}

void Node::Do(const Report& report) {
  if (world_.tracing()) world_.Trace(settings_.name, ": ", report.text);
}

void Node::Do(const AnswerStore& answer) {
  if (const auto counted = ranks_.Answer(answer)) {
    checker_.Counted(counted->generation, counted->seen, counted->sum);
  }
}

void Node::Do(const Exit& exit) {
  world_.Trace(settings_.name, " exits ", exit.code, ": ", exit.reason);
  checker_.Exits(record_, exit, ranks_.any());
  if (exit.end.has_value()) recorded_.clear();
  if (stream_ != 0) network_.Drop(stream_, kUp, true);
  stream_ = 0;
  exit_code_ = exit.code;
  inbox_.clear();
  ++life_;
}

// --- Preparing
// --------------------------------------------------------------------

void Node::Do(const Prepare& prepare) {
  checker_.Prepares(record_, prepare);
  if (recorded_.empty() || recorded_.back() != incarnations_->nonce()) {
    recorded_.push_back(incarnations_->nonce());
    if (recorded_.size() > Limits::swept_max) recorded_.pop_front();
  }
  preparation_ = Preparation{++preparations_, prepare.world.generation(),
                             prepare.node_rank == 0};
  Nanos takes = world_.chance.Skewed(kMilli, 200 * kMilli);
  takes += std::exchange(delay_next_, 0);
  world_.Schedule(world_.now() + takes, Wake::Kind::kPrepared, settings_.number,
                  preparation_.number);
}

// Does nothing: a preparation in progress may still complete.
void Node::Do(const Undo&) {}

void Node::OnPrepared(uint64_t preparation) {
  if (preparation != preparation_.number || !agent_.has_value()) return;
  const uint64_t generation = preparation_.generation;
  if (std::exchange(refuse_next_, false)) {
    return Feed(0, PreparationFailed{generation, "no free port"});
  }
  PreparationDone done;
  done.generation = generation;
  if (preparation_.first) {
    done.master_port =
        static_cast<uint32_t>(world_.chance.Between(2000, 32000));
    std::string id(Limits::nccl_id_bytes, '\0');
    for (char& byte : id) byte = static_cast<char>(world_.chance.Below(256));
    done.nccl_ids.push_back(std::move(id));
    done.nccl_version = 22809;
    checker_.Minted(generation, done.nccl_ids, done.master_port);
  }
  Feed(0, std::move(done));
}

// --- Ranks
// ------------------------------------------------------------------------

void Node::Do(const StartRanks& start) {
  checker_.Starts(record_, start, ranks_.any_busy());
  step_told_ = 0;
  ranks_.Start(start);
  // With --once, this node is not node rank 0.
  if (start.fresh.empty() && start.waiting.empty()) return;
  const size_t nodes = settings_.once
                           ? size_t{1}
                           : static_cast<size_t>(start.world.members_size());
  trainer_.Joins(settings_.number, start, nodes);
}

void Node::OnRankActs(uint64_t deed) {
  if (frozen()) {
    world_.Schedule(frozen_until_, Wake::Kind::kRankActs, settings_.number,
                    deed);
    return;
  }
  ranks_.OnDeed(deed);
}

void Node::FailRank(uint32_t local_rank, int code, int signal) {
  world_.Trace(settings_.name, " loses local rank ", local_rank, ", code ",
               code, ", signal ", signal);
  ranks_.Fail(local_rank, code, signal);
}

void Node::StickRank(uint32_t local_rank, Nanos until) {
  ranks_.Stick(local_rank, until);
}

void Node::HangRank(uint32_t local_rank, Nanos until) {
  // A plain rank is not expected to make progress before its first step.
  if (!settings_.linked && step_told_ == 0) return;
  ranks_.Hang(local_rank, ranks_.completed(), until);
}

// Some checks never finish.
void Node::Do(const RunChecks& run) {
  if (world_.chance.OneIn(8)) return;
  world_.Schedule(world_.now() + world_.chance.Skewed(kMilli, 3 * kSecond),
                  Wake::Kind::kChecked, settings_.number, run.request);
}

std::string Node::Address() const {
  return absl::StrCat("10.7.", subnet_, ".", 1 + settings_.number);
}

v1::Facts Node::Facts() const {
  v1::Facts facts;
  facts.set_boot_id(absl::StrCat("boot-", settings_.number));
  v1::Interface& eth0 = *facts.add_interfaces();
  eth0.set_name("eth0");
  eth0.set_up(true);
  v1::InterfaceAddress& address = *eth0.add_addresses();
  address.set_address(Address());
  address.set_prefix_length(16);
  facts.set_probe_port(kProbePort);
  return facts;
}

// The node's interface gets another address.
void Node::MaybeRenumber(uint32_t one_in) {
  if (!world_.chance.OneIn(one_in)) return;
  world_.beacons.erase(Address());
  subnet_ = (subnet_ + 1) % 200;
  world_.Trace(settings_.name, " has ", Address(), " now");
}

// As client/agent/session does, reports facts without a request.
void Node::TellNewFacts() {
  if (!agent_.has_value()) return;
  ChecksDone changed;
  *changed.report.mutable_facts() = Facts();
  if (changed.report.facts().SerializeAsString() == told_.SerializeAsString()) {
    return;
  }
  Step(changed);
}

void Node::Do(const RunProbe& run) {
  MaybeRenumber(64);
  TellNewFacts();
  probe_ = run.probe;
  ++probes_;
  probe_until_ =
      world_.now() + absl::ToInt64Nanoseconds(FromProto(run.probe.timeout()));
  world_.beacons[Address()] = {run.probe.ask(), AnswerAt(run.probe, Address()),
                               [this] { return alive() && !frozen(); }};
  if (probe_.targets_size() == 0) return;
  world_.Schedule(world_.now() + world_.chance.Skewed(kMilli, 400 * kMilli),
                  Wake::Kind::kProbed, settings_.number, probes_);
}

// Probes all targets at once; each is tried until the end of the round.
void Node::OnProbed(uint64_t number) {
  if (number != probes_ || !agent_.has_value()) return;
  ProbeDone done;
  done.probed.set_probe(probe_.probe());
  bool all = true;
  for (const v1::ProbeTarget& target : probe_.targets()) {
    for (const std::string& address : target.addresses()) {
      v1::ProbeResult& result = *done.probed.add_results();
      result.set_node(target.node());
      result.set_address(address);
      const World::Beacon& beacon = world_.beacons[address];
      if (beacon.listens && beacon.listens() && beacon.ask == probe_.ask()) {
        result.set_answer(beacon.answer);
      } else {
        all = false;
      }
    }
  }
  if (!all && world_.now() < probe_until_) {
    return world_.Schedule(world_.now() + kProbeAgain, Wake::Kind::kProbed,
                           settings_.number, number);
  }
  Feed(0, std::move(done));
}

void Node::Do(const RunSetup&) {
  world_.Schedule(world_.now() + world_.chance.Skewed(kMilli, 3 * kSecond),
                  Wake::Kind::kSetUp, settings_.number, life_);
}

void Node::Do(const StopSetupCommand&) {
  world_.Schedule(world_.now() + kMilli, Wake::Kind::kSetUp, settings_.number,
                  life_);
}

void Node::OnSetUp(uint64_t life) {
  if (life != life_ || !alive()) return;
  Feed(0, SetupShellEnded{});
  if (alive()) Feed(0, SetupGone{});
}

void Node::OnChecked(uint64_t request) {
  MaybeRenumber(4);
  ChecksDone done;
  done.report.set_request(request);
  *done.report.mutable_facts() = Facts();
  if (sick_) {
    v1::CheckFinding& finding = *done.report.add_findings();
    finding.set_check("gpus");
    finding.set_severity(v1::CheckFinding::SEVERITY_FATAL);
    finding.set_text("expected 8, found 7");
  }
  Feed(0, std::move(done));
}

}  // namespace rollcall::sim
