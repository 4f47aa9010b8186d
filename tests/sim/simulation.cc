#include "tests/sim/simulation.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/base/durations.h"
#include "daemon/core/formation/world.h"
#include "tests/sim/daemons/group.h"

namespace rollcall::sim {
namespace {

// The largest world of a journal that is simulated; a larger one would take
// long.
constexpr uint32_t kNodesMax = 200;
// Within this time after calm begins, all that was sent before has arrived: a
// way that is mended delivers within a second, and a lost segment is sent again
// within another.
constexpr Nanos kCatchUp = 2 * kSecond;
// The most nodes of the few runs that have more than eight.
constexpr uint32_t kLargeMax = 40;

void SetDuration(Nanos nanos, google::protobuf::Duration* out) {
  ToProto(absl::Nanoseconds(nanos), out);
}

}  // namespace

Plan Simulation::Draw(Chance& chance, const SimulationOptions& options) {
  Plan plan;
  plan.job = "demo";
  const bool large = chance.OneIn(64);
  plan.nodes = 1 + static_cast<uint32_t>(large ? 9 + chance.Below(kLargeMax - 9)
                                               : chance.Below(8));
  if (options.nodes != 0) plan.nodes = options.nodes;
  if (options.journal.has_value()) {
    const JournalState& state = options.journal->state;
    plan.job = options.journal->job;
    plan.nodes = std::min(state.settings.nodes_max(), kNodesMax);
    if (state.proposal.has_value()) {
      const auto world = DecodeWorld(state.proposal->world());
      if (world.ok()) plan.world = *world;
      plan.nodes = std::max(plan.nodes,
                            static_cast<uint32_t>(plan.world.members_size()));
    }
  }
  plan.machines = plan.nodes + 1;
  v1::JobSettings& job = plan.daemon.job;
  const auto spares = static_cast<uint32_t>(chance.Below(3));
  const uint32_t most = plan.nodes > spares ? plan.nodes - spares : plan.nodes;
  job.set_nodes_max(most);
  // In a quarter of the runs the minimum equals the maximum; in the others it
  // is at most half of it.
  job.set_nodes_min(chance.OneIn(4) ? most
                                    : 1 + static_cast<uint32_t>(chance.Below(
                                              std::max(most / 2, 1u))));
  job.set_max_restarts(static_cast<uint32_t>(chance.Below(5)));
  job.set_grow(chance.OneIn(4) ? v1::GROW_NEVER : v1::GROW_BOUNDARY);
  if (chance.OneIn(4)) {
    SetDuration(chance.Skewed(kSecond, 20 * kSecond), job.mutable_linger());
  }
  SetDuration(chance.Skewed(500 * kMilli, 5 * kSecond), job.mutable_lease());
  SetDuration(chance.Skewed(100 * kMilli, 2 * kSecond),
              job.mutable_reconnect_grace());
  SetDuration(chance.Skewed(100 * kMilli, kSecond), job.mutable_last_call());
  const Nanos stop_grace = chance.Skewed(100 * kMilli, 5 * kSecond);
  SetDuration(stop_grace, job.mutable_stop_grace());
  // A node that prepares waits for its ranks to stop.
  SetDuration(stop_grace + chance.Skewed(kSecond, 10 * kSecond),
              job.mutable_prepare_timeout());
  SetDuration(chance.Skewed(2 * kSecond, 15 * kSecond),
              job.mutable_reattach_grace());
  SetDuration(chance.Skewed(20 * kSecond, 60 * kSecond),
              job.mutable_daemon_grace());
  SetDuration(chance.Skewed(20 * kSecond, 60 * kSecond),
              job.mutable_join_timeout());
  SetDuration(chance.OneIn(4) ? 0 : chance.Skewed(3 * kSecond, 20 * kSecond),
              job.mutable_hang_timeout());
  // Taken from the seed itself, so that no other value that is drawn changes.
  if (options.seed % 4 == 1) {
    SetDuration(static_cast<Nanos>(2 + options.seed / 4 % 8) * kSecond,
                job.mutable_ping_interval());
  }
  // Taken from the seed as well. A timeout that is longer than most runs would
  // find nothing.
  SetDuration(options.seed % 4 == 3
                  ? 0
                  : static_cast<Nanos>(2 + options.seed / 4 % 16) * kSecond,
              job.mutable_start_timeout());
  if (options.journal.has_value()) {
    // The journal's own sizes. The times are drawn, because production times
    // are long.
    const v1::JobSettings& was = options.journal->state.settings;
    job.set_nodes_min(was.nodes_min());
    job.set_nodes_max(was.nodes_max());
    job.set_max_restarts(was.max_restarts());
    if (was.grow() != v1::GROW_UNSPECIFIED) job.set_grow(was.grow());
    plan.daemon.journal = options.journal->state;
    plan.daemon.journal->settings = job;
  }
  plan.daemon.name = plan.job;
  plan.join_timeout = FromProto(job.join_timeout());
  plan.daemon.standing = chance.OneIn(4);
  plan.daemon.commit_max = chance.Skewed(kMilli, 500 * kMilli);
  // A mixture is rare, because the daemon warns of one.
  plan.linked = chance.OneIn(8) ? 2 : static_cast<int>(chance.Below(2));
  plan.steps = 20 + chance.Below(300);
  plan.period = chance.Skewed(50 * kMilli, 500 * kMilli);
  plan.calm_at = chance.Between(5 * kSecond, 60 * kSecond);
  const Nanos longest = ToNanos(
      2 * FromProto(job.join_timeout()) + 2 * FromProto(job.daemon_grace()) +
      FromProto(job.linger()) + FromProto(job.reattach_grace()) +
      4 * (FromProto(job.hang_timeout()) + FromProto(job.start_timeout()) +
           Limits().hang_blame_window) +
      4 * FromProto(job.prepare_timeout()) + 8 * FromProto(job.stop_grace()) +
      8 * FromProto(job.lease()) + absl::Seconds(90));
  plan.overdue_at =
      plan.calm_at + longest + static_cast<Nanos>(plan.steps) * plan.period;
  if (options.group) {
    plan.daemons = 2 + static_cast<uint32_t>(chance.Below(2));
    return plan;
  }
  const bool flaps = plan.nodes > 1 && options.nodes == 0 && !large &&
                     !options.journal.has_value() && chance.OneIn(16);
  if (flaps) DrawFlappers(chance, plan);
  plan.rolls_back = !flaps && !options.journal.has_value() && chance.OneIn(16);
  if (plan.rolls_back) {
    // No world is formed without all nodes, so that each first reports the
    // generation that it has seen.
    job.set_nodes_min(plan.nodes);
    job.set_nodes_max(plan.nodes);
  }
  plan.once = !flaps && !options.journal.has_value() && chance.OneIn(16);
  if (plan.once) plan.linked = 0;
  return plan;
}

// The work takes less than half a minute, and begins again in each world.
void Simulation::DrawFlappers(Chance& chance, Plan& plan) {
  plan.flappers = 1 + static_cast<uint32_t>(chance.Below(plan.nodes - 1));
  const uint32_t others = plan.nodes - plan.flappers;
  v1::JobSettings& job = plan.daemon.job;
  job.set_nodes_min(1 + static_cast<uint32_t>(chance.Below(others)));
  job.set_nodes_max(others + 1 +
                    static_cast<uint32_t>(chance.Below(plan.flappers)));
  job.set_grow(v1::GROW_BOUNDARY);
  SetDuration(0, job.mutable_hang_timeout());
  // The lease is longer than a retransmission, so that none of the other nodes
  // is lost by one: the checks count them as alive.
  if (FromProto(job.lease()) < absl::Seconds(3)) {
    SetDuration(3 * kSecond, job.mutable_lease());
    plan.overdue_at += 24 * kSecond;
  }
  plan.linked = 0;
  plan.steps = 10 + chance.Below(60);
  plan.period = chance.Skewed(50 * kMilli, 300 * kMilli);
  // Enough for a newcomer's longest delay, several times.
  plan.overdue_at += 5 * ToNanos(Limits().newcomer_delay_max);
}

Clock Simulation::DrawClock(Chance& chance) {
  return Clock(chance.Between(kSecond, 1000 * kSecond),
               chance.Between(-10000, 10000));
}

Simulation::Simulation(const SimulationOptions& options)
    : world_(options.seed, options.trace),
      plan_(Draw(world_.chance, options)),
      checker_(world_, plan_.daemon.job),
      network_(world_, *this, plan_.machines),
      daemons_(MakeDaemons()),
      daemon_(*daemons_),
      trainer_(world_, checker_, plan_.steps, plan_.period,
               plan_.flappers == 0),
      nodes_(plan_.machines),
      faults_(world_, network_, checker_, daemon_, trainer_, nodes_,
              {plan_.calm_at, plan_.daemon.job.hang_timeout().seconds() > 0,
               plan_.flappers, plan_.rolls_back, plan_.daemons > 1}) {
  std::vector<Node*> nodes;
  for (uint32_t i = 0; i < plan_.machines; ++i) {
    const NodeSettings settings = DrawNode(i);
    nodes_[i] = std::make_unique<Node>(world_, network_, checker_, trainer_,
                                       settings, DrawClock(world_.chance));
    nodes.push_back(nodes_[i].get());
  }
  trainer_.SetNodes(std::move(nodes));
}

std::unique_ptr<Daemons> Simulation::MakeDaemons() {
  std::vector<Clock> clocks;
  for (uint32_t i = 0; i < plan_.daemons; ++i) {
    clocks.push_back(DrawClock(world_.chance));
  }
  if (plan_.daemons == 1) {
    return std::make_unique<Daemon>(world_, network_, checker_, plan_.daemon,
                                    clocks.front());
  }
  return std::make_unique<Group>(world_, network_, checker_, plan_.daemon,
                                 clocks);
}

NodeSettings Simulation::DrawNode(uint32_t number) {
  NodeSettings settings;
  settings.job = plan_.job;
  settings.number = number;
  // The last machine has another machine's name; most runs never start it.
  const uint32_t named = number < plan_.nodes ? number : plan_.nodes / 2;
  settings.name = absl::StrCat("n", named);
  settings.ranks = 1 + static_cast<uint32_t>(world_.chance.Below(3));
  if (named < static_cast<uint32_t>(plan_.world.members_size())) {
    const v1::Member& member = plan_.world.members(static_cast<int>(named));
    settings.name = member.node();
    settings.ranks = member.ranks();
  }
  settings.linked =
      plan_.linked == 2 ? world_.chance.OneIn(2) : plan_.linked == 1;
  settings.launcher = number == 0 && world_.chance.OneIn(2);
  if (plan_.daemons > 1) {
    settings.launcher = false;
    settings.daemons = plan_.daemons;
    settings.job_settings = plan_.daemon.job;
  }
  settings.once = plan_.once;
  if (plan_.once) settings.ranks = 1;
  settings.join_timeout = plan_.join_timeout;
  return settings;
}

bool Simulation::ToDaemon(StreamId stream, uint32_t node, Parcel& parcel) {
  return daemon_.Take(stream, node, parcel);
}

bool Simulation::ToNode(StreamId stream, uint32_t node, Parcel& parcel) {
  if (!faults_.IsGhost(stream)) nodes_[node]->Take(stream, parcel);
  return true;
}

void Simulation::Dispatch(const Wake& wake) {
  const Way way = wake.who == kUp ? kUp : kDown;
  switch (wake.kind) {
    case Wake::Kind::kDeliver:
      return network_.OnDeliver(wake.tag, way);
    case Wake::Kind::kConnectFails:
      return network_.OnConnectFails(wake.tag);
    case Wake::Kind::kNoticed:
      return network_.OnNoticed(wake.tag, way);
    case Wake::Kind::kNodeTick:
      return nodes_[wake.who]->OnTick(wake.tag);
    case Wake::Kind::kNodeThaws:
      return nodes_[wake.who]->OnThaw();
    case Wake::Kind::kPrepared:
      return nodes_[wake.who]->OnPrepared(wake.tag);
    case Wake::Kind::kRankActs:
      return nodes_[wake.who]->OnRankActs(wake.tag);
    case Wake::Kind::kChecked:
      return nodes_[wake.who]->OnChecked(wake.tag);
    case Wake::Kind::kProbed:
      return nodes_[wake.who]->OnProbed(wake.tag);
    case Wake::Kind::kSetUp:
      return nodes_[wake.who]->OnSetUp(wake.tag);
    case Wake::Kind::kNodeStarts:
      return nodes_[wake.who]->Start();
    case Wake::Kind::kDaemonStarts:
      return daemon_.Start(wake.who);
    case Wake::Kind::kDaemonWakes:
    case Wake::Kind::kCommitted:
    case Wake::Kind::kStreamGone:
    case Wake::Kind::kJournalMends:
    case Wake::Kind::kTakeBack:
    case Wake::Kind::kTask:
    case Wake::Kind::kProcessThaws:
    case Wake::Kind::kStoreActs:
      return daemon_.OnWake(wake);
    case Wake::Kind::kStep:
      return trainer_.OnStep(wake.tag);
    case Wake::Kind::kMends:
      return faults_.OnMends(wake.who, wake.tag);
    case Wake::Kind::kFault:
      return faults_.OnFault();
    case Wake::Kind::kFlap:
      return faults_.OnFlap(wake.who);
    case Wake::Kind::kCalm:
      return BeCalm();
    case Wake::Kind::kOverdue:
      return JudgeProgress();
  }
}

void Simulation::BeCalm() {
  world_.Trace("calm");
  calm_ = true;
  faults_.Calm();
}

bool Simulation::AllOver() const {
  const bool nobody =
      std::none_of(nodes_.begin(), nodes_.end(),
                   [](const auto& node) { return node->alive(); });
  // The daemons of a group keep running.
  return nobody && (daemon_.end().has_value() || NeverMade()) &&
         (plan_.daemons > 1 || !daemon_.HasJob());
}

// A group has a job only once an agent that reached it has brought one.
bool Simulation::NeverMade() const {
  return plan_.daemons > 1 && daemon_.journal().run.empty();
}

void Simulation::JudgeProgress() {
  std::string living;
  for (const auto& node : nodes_) {
    if (node->alive()) absl::StrAppend(&living, " ", node->settings().name);
  }
  if (NeverMade() && living.empty()) return;
  if (!daemon_.end().has_value()) {
    checker_.Broken(
        plan_.flappers > 0 ? Invariant::kTrainsOn : Invariant::kProgress,
        absl::StrCat("the job is ", daemon_.JobText(), "; agents:", living));
  } else if (!living.empty()) {
    checker_.Broken(Invariant::kProgress,
                    absl::StrCat("the job has ended, agents live:", living));
  }
}

// Checks the reason of the job's end: the job must not end for want of nodes
// while enough nodes are alive.
void Simulation::JudgeEnd() {
  const uint32_t living = NodesThatMayServe();
  const bool ended = daemon_.end().has_value();
  if (ended && plan_.flappers > 0 && !daemon_.end()->finished()) {
    checker_.Broken(Invariant::kTrainsOn,
                    absl::StrCat("the job ended: ", daemon_.end()->reason()));
  }
  if (!ended && living < plan_.daemon.job.nodes_min()) {
    enough_since_ = kNever;
  } else if (!ended && enough_since_ == kNever) {
    enough_since_ = world_.now();
  }
  if (!ended || enough_since_ == kNever ||
      daemon_.end()->code() != v1::REASON_CODE_JOIN_TIMEOUT) {
    return;
  }
  const Nanos patience = ToNanos(FromProto(plan_.daemon.job.join_timeout()));
  const Nanos since = std::max(enough_since_, plan_.calm_at);
  if (world_.now() - since < patience / 2) return;
  checker_.Broken(Invariant::kProgress,
                  absl::StrCat("it gave up though enough nodes lived: ",
                               daemon_.end()->reason()));
}

// Counts nodes that are alive, have different names and are not excluded.
uint32_t Simulation::NodesThatMayServe() const {
  uint32_t nodes = 0;
  for (uint32_t i = 0; i < plan_.nodes; ++i) {
    // The last machine has the same name as this one.
    const bool twin = i == plan_.nodes / 2 && nodes_.back()->alive();
    nodes += (nodes_[i]->alive() || twin) &&
             !checker_.IsExcluded(nodes_[i]->settings().name);
  }
  return nodes;
}

// Called when the job has just ended, in calm. Messages and stream breaks from
// before may arrive late; the daemon waits one lease for agents that redial.
void Simulation::NoteWhoAttends() {
  if (!daemon_.HasJob()) return;
  for (const auto& node : nodes_) {
    if (!node->alive() || node->stream() == 0) continue;
    if (daemon_.Attends(node->stream())) {
      attended_[node->settings().number] = node->life();
    }
  }
}

void Simulation::JudgeExits() {
  for (const auto& [number, life] : attended_) {
    const Node& node = *nodes_[number];
    // An agent's exit also adds one to the number of its life.
    if (node.alive() || node.life() != life + 1) continue;
    if (!node.exit_code().has_value()) continue;
    // An agent that was asked to leave waits only a limited time for the
    // daemon's answer.
    const int leave_signal = node.record().leave_signal;
    if (leave_signal != 0 && *node.exit_code() == 128 + leave_signal) continue;
    checker_.ExitedAfterEnd(node.record());
  }
}

Outcome Simulation::Run() {
  for (uint32_t i = 0; i < plan_.nodes; ++i) {
    world_.Schedule(world_.chance.Skewed(kMilli, 5 * kSecond),
                    Wake::Kind::kNodeStarts, i);
  }
  for (uint32_t i = 0; i < plan_.daemons; ++i) {
    world_.Schedule(world_.chance.Skewed(kMilli, 3 * kSecond),
                    Wake::Kind::kDaemonStarts, i);
  }
  world_.Schedule(plan_.calm_at, Wake::Kind::kCalm);
  world_.Schedule(plan_.overdue_at, Wake::Kind::kOverdue);
  faults_.Start();
  Wake wake;
  while (!checker_.broken() && world_.Next(wake)) {
    Dispatch(wake);
    if (calm_ && !judged_) {
      judged_ = daemon_.end().has_value();
      JudgeEnd();
      if (judged_ && world_.now() >= plan_.calm_at + kCatchUp) NoteWhoAttends();
    }
    if (wake.kind == Wake::Kind::kOverdue) break;
    if (calm_ && AllOver()) break;
  }
  if (!checker_.broken()) JudgeExits();
  if (plan_.flappers > 0) checker_.Tested(Invariant::kTrainsOn);
  checker_.Tested(Invariant::kProgress);
  Outcome outcome;
  outcome.tested = checker_.tested();
  outcome.ok = !checker_.broken();
  if (!outcome.ok) outcome.verdict = checker_.Verdict();
  if (daemon_.end().has_value()) {
    outcome.end = v1::ReasonCode_Name(daemon_.end()->code());
  }
  outcome.events = world_.events();
  outcome.generations = checker_.generations_started();
  outcome.faults = faults_.count();
  outcome.overlap = trainer_.overlap();
  return outcome;
}

}  // namespace rollcall::sim
